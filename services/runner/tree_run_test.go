package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

const treeDocuments = `
apiVersion: holdfast/v1
kind: Tool
metadata: {name: breed}
spec: {builtin: start_run, startRun: {agents: [rabbit]}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: rabbit}
spec: {model: scripted, instructions: work, tools: [breed], budget: {toolCalls: 12}}
---
apiVersion: holdfast/v1
kind: Flow
metadata: {name: warren}
spec:
  steps: [{name: each, agent: clerk, forEach: "${input.items}", limit: 2}]
`

func bounded(n int64) option { return func(c *runner.Config) { c.MaxTreeRuns = n } }

func (r *rig) runs() (n int) {
	r.t.Helper()
	if err := r.sql.QueryRow(r.t.Context(), `SELECT count(*) FROM runner.runs`).Scan(&n); err != nil {
		r.t.Fatal(err)
	}
	return n
}

// Agents that start each other on two processes, three at a time, stop at exactly as
// many runs as may be below their root: the calls that are over that read why, start
// nothing, and the runs end well.
func TestTree_RecursionIsBounded(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, documents+"---"+treeDocuments)
	var refused box[string]
	m := &script{answer: func(_ context.Context, q runner.Request, n int) (runner.Answer, error) {
		if n == 1 {
			c := runner.ModelCall{Tool: "breed", Args: json.RawMessage(`{"input":{}}`)}
			return asks(c, c, c), nil
		}
		for _, res := range q.Entries[len(q.Entries)-1].Results {
			if strings.Contains(res.Text, "tree_full") {
				refused.add(res.Text)
			}
		}
		return said("done"), nil
	}}
	for range 2 {
		r.worker(m, bounded(10))
	}
	root := r.start(events.KindAgent, "rabbit", `{}`)
	r.reaches(root, events.StatusCompleted)
	if n := r.runs(); n != 11 {
		t.Errorf("%d runs, want the root and 10 below it", n)
	}
	if n := len(refused.all()); n != 11*3-10 || !strings.Contains(refused.all()[0], "run "+string(root)) {
		t.Errorf("%d calls were refused, want 23: %.200q", n, refused.all())
	}
	var begun int
	if err := r.sql.QueryRow(t.Context(), `SELECT begun FROM runner.trees WHERE root_run_id = $1`, string(root)).Scan(&begun); err != nil || begun != 10 {
		t.Errorf("%d runs are counted below the root (%v), want 10", begun, err)
	}
	r.drained()
}

// A flow that would start more runs than may be below it fails with the reason, in
// the step that would, and what it started is not more.
func TestTree_FlowIsBounded(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, documents+"---"+treeDocuments)
	r.worker(&script{answer: func(context.Context, runner.Request, int) (runner.Answer, error) { return said("ok"), nil }}, bounded(3))
	fits := r.start(events.KindFlow, "warren", `{"items":[1,2,3]}`)
	r.reaches(fits, events.StatusCompleted)
	id := r.start(events.KindFlow, "warren", `{"items":[1,2,3,4]}`)
	r.reaches(id, events.StatusFailed)
	if text := r.journalText(id); !strings.Contains(text, `"code":"tree_full"`) || !strings.Contains(text, "runner-max-tree-runs") {
		t.Errorf("the flow does not say why:\n%s", text)
	}
	whole := r.start(events.KindFlow, "warren", fmt.Sprintf(`{"items":[%s1]}`, strings.Repeat("1,", 9)))
	r.reaches(whole, events.StatusFailed)
	if n := r.runs(); n > 3+3*3 {
		t.Errorf("%d runs, want at most three below each of three flows", n)
	}
	r.drained()
}
