package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/holdfast-run/holdfast/internal/mdtest"
	"github.com/holdfast-run/holdfast/internal/telemetry"
)

// ruleFile is deploy/observability/alerts.yaml. Source: prometheus.io, alerting rules.
type ruleFile struct {
	Groups []struct {
		Name  string      `json:"name"`
		Rules []alertRule `json:"rules"`
	} `json:"groups"`
}

type alertRule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func alertRules(t *testing.T) []alertRule {
	t.Helper()
	text, err := os.ReadFile("../../deploy/observability/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var f ruleFile
	if err := yaml.UnmarshalStrict(text, &f); err != nil {
		t.Fatal(err)
	}
	if len(f.Groups) != 1 || len(f.Groups[0].Rules) < 10 {
		t.Fatalf("%d groups: the check has lost its way", len(f.Groups))
	}
	return f.Groups[0].Rules
}

// Each alert names metrics that are there and has its part of the runbook, and the
// runbook has no other parts.
func TestAlerts_NameWhatIsThere(t *testing.T) {
	t.Parallel()
	known := instruments(t)
	page, err := mdtest.Read("../..", "docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	anchors := map[string]bool{"runbook": true}
	for _, r := range alertRules(t) {
		checkQuery(t, known, r.Alert, r.Expr)
		anchors[strings.ToLower(r.Alert)] = true
		if !slices.Contains(page.Anchors, strings.ToLower(r.Alert)) {
			t.Errorf("docs/runbook.md has no part for %s", r.Alert)
		}
		if s := r.Labels["severity"]; s != "page" && s != "ticket" || r.Annotations["summary"] == "" {
			t.Errorf("%s: severity %q, summary %q", r.Alert, s, r.Annotations["summary"])
		}
	}
	for _, a := range page.Anchors {
		if !anchors[a] {
			t.Errorf("docs/runbook.md has a part %q, which no alert has", a)
		}
	}
}

// Each query of each dashboard names metrics that are there; ids and places are its
// own, and every counter and gauge of ours is on one of them.
func TestDashboards_NameWhatIsThere(t *testing.T) {
	t.Parallel()
	known := instruments(t)
	files, err := filepath.Glob("../../deploy/observability/dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d dashboards, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d struct {
			UID    string `json:"uid"`
			Panels []struct {
				ID      int
				Title   string
				GridPos struct{ X, Y, W, H int }
				Targets []struct{ Expr string }
			} `json:"panels"`
		}
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		taken := map[string]string{}
		for _, p := range d.Panels {
			for _, at := range []string{fmt.Sprint("id ", p.ID), fmt.Sprint(p.GridPos.X, "/", p.GridPos.Y)} {
				if other, twice := taken[at]; twice {
					t.Errorf("%s: %q and %q share %s", file, p.Title, other, at)
				}
				taken[at] = p.Title
			}
			if p.GridPos.X+p.GridPos.W > 24 || len(p.Targets) == 0 {
				t.Errorf("%s: %q is at %+v and asks %d questions", file, p.Title, p.GridPos, len(p.Targets))
			}
			for _, q := range p.Targets {
				checkQuery(t, known, file+": "+p.Title, strings.ReplaceAll(q.Expr, "$__rate_interval", "5m"))
			}
		}
	}
}

var (
	queryMetric = regexp.MustCompile(`\b([a-z][a-z0-9_]*_[a-z0-9_]+|up)\b(\{[^}]*\})?`)
	queryLabel  = regexp.MustCompile(`([a-z_]+)(=~|!=|=)"([^"]*)"`)
	queryBy     = regexp.MustCompile(`\bby \(([^)]*)\)`)
	queryWords  = []string{"histogram_quantile", "http_response_status_code", "http_route"}
	// foreign are metrics of libraries, with their labels.
	foreign = map[string][]string{
		"up": {"job"}, "process_resident_memory_bytes": {"job", "instance"}, "process_cpu_seconds_total": {"job", "instance"},
		"http_server_request_duration_seconds": {"http_route", "http_response_status_code", "le"},
	}
)

// checkQuery wants every metric of a query among the instruments, and each label and
// value that is asked for among theirs.
func checkQuery(t *testing.T, known []telemetry.Instrument, where, query string) {
	t.Helper()
	labels := map[string][]string{} // of all metrics of the query: values, nil for any
	bare := queryBy.ReplaceAllString(query, "")
	found := 0
	for _, m := range queryMetric.FindAllStringSubmatch(bare, -1) {
		name := m[1]
		if slices.Contains(queryWords, name) || strings.Contains(bare, name+"=") {
			continue
		}
		found++
		own := map[string][]string{}
		base := name
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			base = strings.TrimSuffix(base, suffix)
		}
		i := slices.IndexFunc(known, func(d telemetry.Instrument) bool {
			return d.Name == name || d.Kind == "histogram" && d.Name == base && base != name
		})
		switch foreignLabels, theirs := foreign[base]; {
		case theirs:
			for _, l := range foreignLabels {
				own[l] = nil
			}
		case i < 0:
			t.Errorf("%s asks for %s, which nothing makes", where, name)
			continue
		default:
			own["le"] = nil
			for _, l := range known[i].Labels {
				own[l.Key] = append(slices.Clone(l.Values), "other")
			}
		}
		for _, l := range queryLabel.FindAllStringSubmatch(m[2], -1) {
			values, there := own[l[1]]
			if !there {
				t.Errorf("%s: %s has no label %s", where, name, l[1])
			}
			for _, v := range strings.Split(l[3], "|") {
				if there && values != nil && !slices.Contains(values, v) {
					t.Errorf("%s: %s is never %s=%q", where, name, l[1], v)
				}
			}
		}
		for k, v := range own {
			labels[k] = v
		}
	}
	if found == 0 {
		t.Errorf("%s: no metric in %s", where, query)
	}
	for _, by := range queryBy.FindAllStringSubmatch(query, -1) {
		for _, l := range strings.Split(by[1], ",") {
			if _, there := labels[strings.TrimSpace(l)]; !there {
				t.Errorf("%s: by %s, which no metric of it has", where, l)
			}
		}
	}
}
