package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/services/approvals"
	"github.com/holdfast-run/holdfast/services/console"
	"github.com/holdfast-run/holdfast/services/runner"
	"github.com/holdfast-run/holdfast/services/tools"
	"github.com/holdfast-run/holdfast/services/trigger"
)

// instruments makes what every service measures with.
func instruments(t *testing.T) []telemetry.Instrument {
	t.Helper()
	tel := telemetry.Discard()
	if _, err := trigger.NewMetrics(tel); err != nil {
		t.Fatal(err)
	}
	if _, err := runner.NewMetrics(tel); err != nil {
		t.Fatal(err)
	}
	if _, err := tools.NewMetrics(tel); err != nil {
		t.Fatal(err)
	}
	if _, err := approvals.NewMetrics(tel); err != nil {
		t.Fatal(err)
	}
	if _, err := console.NewMetrics(tel); err != nil {
		t.Fatal(err)
	}
	if _, err := egress.NewMetrics(tel); err != nil {
		t.Fatal(err)
	}
	return tel.Described()
}

// TestMetricsDoc holds docs/metrics.md to the instruments that the services make.
func TestMetricsDoc(t *testing.T) {
	t.Parallel()
	list := instruments(t)
	var b strings.Builder
	b.WriteString(`# Metrics

<!-- Generated from the instruments by "go generate ./cmd/holdfast". Do not edit. -->

Every process serves ` + "`/metrics`" + ` on its health port in Prometheus' text form: those of its services below, the duration of requests at its
doors by route (` + "`http_server_request_duration_seconds`" + `; streams are not in it), and those of Go and of the process. A gauge of the whole database
is the same in every replica: take the maximum, not the sum.

A label takes the values that are listed here and ` + "`other`" + `, so the number of series does not grow with runs, definitions or what strangers send.
Names of webhooks and schedules, ids of runs and texts of errors are in the delivery log, in a schedule's history, in logs and in traces.

| metric | kind | what |
|---|---|---|
`)
	for _, i := range list {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", i.Name, i.Kind, i.Help)
	}
	b.WriteString("\n## Labels\n\n| metric | label | values |\n|---|---|---|\n")
	for _, i := range list {
		for _, l := range i.Labels {
			fmt.Fprintf(&b, "| `%s` | `%s` | `%s` |\n", i.Name, l.Key, strings.Join(l.Values, "` `"))
		}
	}
	b.WriteString(`
## What to be told of

Rules for Prometheus are in ` + "`deploy/observability/alerts.yaml`" + `, what to do about each in [Runbook](runbook.md), and a dashboard for Grafana in
` + "`deploy/observability/dashboards/holdfast.json`" + `.

| when | alert | expression |
|---|---|---|
`)
	for _, r := range alertRules(t) {
		fmt.Fprintf(&b, "| %s | [%s](runbook.md#%s) | `%s` |\n", r.Annotations["summary"], r.Alert, strings.ToLower(r.Alert), strings.ReplaceAll(r.Expr, "|", `\|`))
	}
	const path = "../../docs/metrics.md"
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.String(), string(have)); diff != "" {
		t.Errorf("docs/metrics.md is stale; run \"go generate ./cmd/holdfast\" (-want +have):\n%s", diff)
	}
}
