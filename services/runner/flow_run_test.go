package runner_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

const flowDocuments = `
apiVersion: holdfast/v1
kind: Flow
metadata: {name: inner}
spec:
  input: {type: object, required: [n], properties: {n: {type: integer}}}
  steps:
    - {name: look, tool: look, input: {n: "${input.n}"}}
    - {name: think, agent: clerk, needs: [look], input: {saw: "${steps.look.output}"}}
---
apiVersion: holdfast/v1
kind: Flow
metadata: {name: outer}
spec:
  steps:
    - {name: each, flow: inner, forEach: "${input.items}", onFailure: continue}
    - {name: nap, sleep: {for: 300ms}, needs: [each]}
    - {name: sure, approval: {text: "Change ${input.name}?"}, needs: [nap], input: {results: "${steps.each.outputs}"}}
    - {name: change, tool: change, needs: [sure], input: {n: 7}}
---
apiVersion: holdfast/v1
kind: Flow
metadata: {name: top}
spec:
  steps: [{name: in, flow: outer}]
`

// A flow of flows on real Postgres and NATS: tools and people are asked by the
// flow's own run, a sleep is a row, and what does not fit a message arrives.
func TestFlow_OfFlows(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, flowDocuments)
	long := strings.Repeat("x", 700_000)
	m := &script{answer: func(_ context.Context, q runner.Request, _ int) (runner.Answer, error) {
		return said(long), nil
	}}
	r.worker(m)
	r.worker(m)
	calls := r.tools(`{"saw":1}`)
	asked := r.approvals(events.Approve)
	id := r.start(events.KindFlow, "outer", `{"name":"it","items":[{"n":1},{"n":"no"}]}`)
	r.eventually("the sleep is a row", func() bool {
		return r.count(`SELECT count(*) FROM runner.v_pending WHERE run_id = '`+string(id)+`' AND kind = 'timer'`) == 1
	}, func() string { return r.journalText(id) })
	// What is decided about 700 kB of outputs is more than a person is shown.
	r.reaches(id, events.StatusFailed)
	var problem events.Problem
	var raw []byte
	if err := r.sql.QueryRow(t.Context(), `SELECT error, length(output::text) FROM runner.v_runs WHERE run_id = $1`, string(id)).Scan(&raw, new(int)); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &problem); err != nil || problem.Code != "mapping" || !strings.Contains(problem.Message, "a person cannot be shown") {
		t.Errorf("failed with %s", raw)
	}
	if n := r.count(`SELECT count(*) FROM runner.v_runs WHERE parent_run_id = '` + string(id) + `' AND status = 'failed' AND error->>'code' = 'invalid_input'`); n != 1 {
		t.Errorf("%d of 1 inner runs failed for their input", n)
	}
	long = "short"
	id = r.start(events.KindFlow, "outer", `{"name":"it","items":[{"n":2}]}`)
	r.reaches(id, events.StatusCompleted)
	if all := asked.all(); len(all) != 2 || all[0].Summary != "Change it?" || string(all[0].Args) != `{"results":[{"look":{"saw":1},"think":"short"}]}` || all[1].Tool != "change" {
		t.Errorf("asked %+v", all)
	}
	changes := 0
	for _, c := range calls.all() {
		if c.Tool == "change" {
			changes++
			if c.RunID != id || c.Approval == nil {
				t.Errorf("%+v is not a call of the flow with its yes", c)
			}
		}
	}
	if changes != 1 {
		t.Errorf("%d changes, want 1", changes)
	}
}

// A cancel goes down to the runs of a flow's flow, and everything has ended.
func TestCaseC13_CancelGoesDownTwoLevels(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, flowDocuments)
	thinking := make(chan struct{}, 8)
	m := &script{answer: func(ctx context.Context, _ runner.Request, _ int) (runner.Answer, error) {
		thinking <- struct{}{}
		<-ctx.Done()
		return runner.Answer{}, context.Cause(ctx)
	}}
	r.worker(m)
	r.tools(`1`)
	id := r.start(events.KindFlow, "top", `{"name":"it","items":[{"n":1},{"n":2}]}`)
	<-thinking
	<-thinking
	r.command(id, events.RunCancel, events.Command{})
	r.reaches(id, events.StatusCancelled)
	r.eventually("every run below is cancelled", func() bool {
		return r.count(`SELECT count(*) FROM runner.v_runs WHERE status = 'cancelled'`) == 6 && r.count(`SELECT count(*) FROM runner.v_runs WHERE status <> 'cancelled'`) == 0
	}, func() string { return r.journalText(id) })
}

func (r *rig) count(sql string) (n int) {
	r.t.Helper()
	if err := r.sql.QueryRow(r.t.Context(), sql).Scan(&n); err != nil {
		r.t.Fatal(err)
	}
	return n
}
