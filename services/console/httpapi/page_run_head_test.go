package httpapi_test

import (
	"html"
	"net/url"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// TestRunPage_HeadLeadsToWhatMadeTheRun follows the head's links: who started the run,
// what came to the webhook then, and the version that it executes.
func TestRunPage_HeadLeadsToWhatMadeTheRun(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.definitions()
	var digest string
	if err := r.db.QueryRow(t.Context(), `SELECT digest FROM catalog.changes WHERE name = 'checker' AND version = 1`).Scan(&digest); err != nil {
		t.Fatal(err)
	}
	version := `/ui/definitions/agent/checker?` + url.Values{"version": {digest}}.Encode()
	parent := events.NewRunID()
	for name, tc := range map[string]struct {
		trigger, change string
		want, not       []string
	}{
		"a webhook": {`{"kind":"webhook","name":"stripe","id":"d-1"}`, `accepted_at = '2026-03-01T10:00:30Z'`,
			[]string{`by the webhook <a href="/ui/triggers/deliveries?from=2026-03-01T09%3A59%3A30&to=2026-03-01T10%3A01%3A30&webhook=stripe">stripe</a>`, `<a href="` + version + `">` + digest[:19] + `…</a>`, "not the current one"}, nil},
		"a schedule":                   {`{"kind":"schedule","name":"nightly","id":"x"}`, "seq = 1", []string{`by the schedule <a href="/ui/triggers/schedules/nightly">nightly</a>`}, nil},
		"a name that can be no path":   {`{"kind":"schedule","name":"../x"}`, "seq = 1", []string{"by the schedule ../x"}, []string{`schedules/..`}},
		"another run":                  {`{"kind":"child","name":"night"}`, `parent_run_id = '` + string(parent) + `', parent_item = 'check/2'`, []string{`by the run <a href="/ui/runs/` + string(parent) + `">` + string(parent)[28:] + `</a> for check/2`}, nil},
		"what is said once":            {`{"kind":"schedule","name":"nightly","id":"x"}`, "principal = 'schedule:nightly'", []string{">nightly</a>"}, []string{"for schedule:nightly"}},
		"a fork":                       {`{"kind":"fork","id":"` + string(parent) + `"}`, "seq = 1", []string{`as a fork of <a href="/ui/runs/` + string(parent) + `">` + string(parent)[28:] + `</a>`}, nil},
		"a retry of no id":             {`{"kind":"retry","id":"../x"}`, "seq = 1", []string{"as a retry of"}, []string{`href="/ui/runs/..`}},
		"what cannot be read":          {`[]`, "seq = 1", []string{"nobody knows: its row cannot be read"}, nil},
		"an agent that can be no path": {`{"kind":"api"}`, "name = '../x'", []string{"through the API"}, []string{"agent/.."}},
		"a person, without a version":  {`{"kind":"api"}`, `digest = '', principal = 'maria'`, []string{"through the API  for maria"}, []string{"<dt>Version</dt>"}},
	} {
		id := events.NewRunID()
		r.take("default", id, "checker", `{}`)
		r.exec(`UPDATE runner.runs SET digest = $2, trigger = $3::text::json WHERE run_id = $1`, id, digest, tc.trigger)
		r.exec(`UPDATE runner.runs SET `+tc.change+` WHERE run_id = $1`, id)
		status, raw := r.page("/ui/runs/"+string(id), authn.Viewer)
		head, _, _ := strings.Cut(html.UnescapeString(raw), `<div class="body">`)
		for _, want := range tc.want {
			if status != 200 || !strings.Contains(head, want) {
				t.Errorf("%s: %d, the head does not say %q:\n%s", name, status, want, head[max(0, strings.Index(head, "<dl")):])
			}
		}
		for _, not := range tc.not {
			if strings.Contains(head, not) {
				t.Errorf("%s: the head says %q", name, not)
			}
		}
	}
	if status, raw := r.page(version, authn.Viewer); status != 200 || !strings.Contains(raw, "not the current version") {
		t.Errorf("the version's page: %d", status)
	}
	var flow string
	if err := r.db.QueryRow(t.Context(), `SELECT digest FROM catalog.current WHERE name = 'night'`).Scan(&flow); err != nil {
		t.Fatal(err)
	}
	id := events.NewRunID()
	r.take("default", id, "night", `{}`)
	r.exec(`UPDATE runner.runs SET kind = 'flow', digest = $2 WHERE run_id = $1`, id, flow)
	if _, raw := r.page("/ui/runs/"+string(id), authn.Viewer); !strings.Contains(raw, `href="/ui/definitions/flow/night?`+url.Values{"version": {flow}}.Encode()+`"`) {
		t.Error("a flow's run does not lead to its definition")
	}
}
