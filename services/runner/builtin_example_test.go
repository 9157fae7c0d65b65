package runner_test

import (
	"context"
	"os"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// The example runs as it is: its plan and facts stay with the runner, its reads
// and its report go to the tools service.
func TestExample_ResearchReport(t *testing.T) {
	r := newRig(t)
	text, err := os.ReadFile("../../examples/research-report/report.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r.defs.apply(t, string(text))
	turns := [][]runner.ModelCall{
		{call("plan", `{"items":[{"id":"a","title":"read a","state":"in_progress"},{"id":"report","title":"write the report"}]}`), call("read_source", `{"url":"https://a.example/"}`)},
		{call("facts", `{"set":{"a.changes":12}}`), call("plan", `{"update":[{"id":"a","state":"done","note":"12 changes"}]}`)},
		{call("facts", `{}`), call("artifact_save", `{"name":"report.md","type":"text/markdown","text":"12 changes"}`)},
	}
	r.worker(&script{answer: func(_ context.Context, q runner.Request, n int) (runner.Answer, error) {
		if n > len(turns) {
			return said("12 changes"), nil
		}
		return asks(turns[n-1]...), nil
	}})
	sent := r.tools(`{"ok":true}`)
	id := r.start(events.KindAgent, "research-report", `{"question":"What changed?","sources":["https://a.example/"]}`)
	r.reaches(id, events.StatusCompleted)
	got := map[string]int{}
	for _, c := range sent.all() {
		got[c.Tool]++
	}
	if len(got) != 2 || got["read_source"] == 0 || got["artifact_save"] == 0 {
		t.Errorf("sent to the tools service: %v", got)
	}
	kept := map[string]int{}
	for _, k := range r.kinds(id) {
		kept[k]++
	}
	if kept[events.FactPlanChanged] != 2 || kept[events.FactFactsChanged] != 2 {
		t.Errorf("journal %v", kept)
	}
}
