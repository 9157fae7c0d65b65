package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

const keeperDocuments = `
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: plan}
spec: {builtin: plan}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: facts}
spec: {builtin: facts}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: keeper}
spec: {model: scripted, instructions: keep, tools: [plan, facts, look], budget: {toolCalls: 1}}
`

// keeps is a model that writes a plan and facts beside a call that acts, changes
// both, reads them, and says at the end what it read of each call.
func keeps() *script {
	return &script{answer: func(_ context.Context, q runner.Request, _ int) (runner.Answer, error) {
		var read []string
		turn := 0
		for _, e := range q.Entries {
			if e.Assistant != "" {
				turn++
			}
			for _, res := range e.Results {
				read = append(read, res.Text)
			}
		}
		switch turn {
		case 0:
			return asks(call("plan", `{"items":[{"id":"1","title":"look","state":"in_progress"},{"id":"2","title":"tell"}]}`),
				call("look", `{"n":1}`), call("facts", `{"set":{"order":9007199254740993}}`)), nil
		case 1:
			return asks(call("plan", `{"update":[{"id":"1","state":"done"}]}`), call("plan", `{"update":[{"id":"9","state":"done"}]}`),
				call("facts", `{"get":["order"]}`)), nil
		}
		return said(strings.Join(read, "\n")), nil
	}}
}

// childModel is the model of a runner process of its own.
func childModel() *script {
	keeper, lead := keeps(), twoHelpers()
	return &script{answer: func(ctx context.Context, q runner.Request, n int) (runner.Answer, error) {
		switch {
		case strings.Contains(q.Entries[0].User, "errand"):
			return lookThenChange(ctx, q, n)
		case strings.Contains(q.Entries[0].User, "greedy"):
			for _, e := range q.Entries {
				if len(e.Results) > 0 {
					return greedy(e.Results[0].Text), nil
				}
			}
			return asks(call("look", `{"n":1}`)), nil
		}
		switch q.System {
		case "keep":
			return keeper.answer(ctx, q, n)
		case "work":
			return said("done"), nil
		case "limited":
			return runner.Answer{}, &runner.ModelError{Code: "rate_limit_error", Retry: true, RetryAfter: 3 * time.Second, Err: errors.New("status 429")}
		}
		return lead.answer(ctx, q, n)
	}}
}

// wantKept checks everything that the keeper's run must have come to.
func (r *rig) wantKept(id events.RunID, sent *box[events.CallTool]) {
	r.t.Helper()
	var text string
	if err := json.Unmarshal([]byte(r.output(id)), &text); err != nil {
		text = r.output(id)
	}
	want := strings.Join([]string{
		`{"in_progress":1,"items":2,"pending":1}`, `1`, `{"known":1}`,
		`{"done":1,"items":2,"pending":1}`, `invalid_arguments: the plan has no item "9"; give a title to add it; nothing was changed`, `{"known":1,"facts":{"order":9007199254740993}}`,
	}, "\n")
	if diff := cmp.Diff(want, text); diff != "" {
		r.t.Errorf("the model read (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		events.FactStarted, events.FactModelAnswered, events.FactPlanChanged, events.FactFactsChanged, events.FactToolCompleted,
		events.FactModelAnswered, events.FactPlanChanged, events.FactToolCompleted, events.FactFactsChanged, events.FactModelAnswered, events.FactCompleted,
	}, r.kinds(id)); diff != "" {
		r.t.Errorf("journal (-want +got):\n%s", diff)
	}
	for _, c := range sent.all() {
		if c.Tool != "look" {
			r.t.Errorf("a call of %s was sent to the tools service", c.Tool)
		}
	}
	var toolCalls int
	if err := r.sql.QueryRow(r.t.Context(), `SELECT tool_calls FROM runner.v_runs WHERE run_id = $1`, string(id)).Scan(&toolCalls); err != nil || toolCalls != 1 {
		r.t.Errorf("%d tool calls count, want 1: %v", toolCalls, err)
	}
	r.consistent(id)
}

// Plan and facts need no tools worker: the answer's commit has them, beside a
// call of the same answer that is sent.
func TestRun_KeepsPlanAndFacts(t *testing.T) {
	r := newBuiltinRig(t)
	r.worker(keeps())
	sent := r.tools(`1`)
	id := r.start(events.KindAgent, "keeper", `{}`)
	r.reaches(id, events.StatusCompleted)
	r.wantKept(id, sent)
	var done, order string
	if err := r.sql.QueryRow(t.Context(), `SELECT string_agg(data->'items'->0->>'state', ',' ORDER BY seq) FILTER (WHERE kind = 'plan_changed'),
		max(data->'set'->>'order') FROM runner.v_known WHERE run_id = $1`, string(id)).Scan(&done, &order); err != nil || done != "in_progress,done" || order != "9007199254740993" {
		t.Errorf("the view has %q, %q: %v", done, order, err)
	}
}

// A runner is killed with an answer committed that wrote a plan and facts, before
// and after what follows was published. Who takes over has both, once, and sends
// the call that the dead one owed.
func TestRun_KilledWithAPlanJustWritten(t *testing.T) {
	t.Parallel()
	for point, nth := range map[string]int{"runner.answer_committed": 1, "runner.published": 2} {
		t.Run(point, func(t *testing.T) {
			r := newBuiltinRig(t)
			id := events.NewRunID()
			dead := r.spawn(fmt.Sprintf("%s[%s]=kill#%d", point, id, nth))
			r.startAs(id, events.KindAgent, "keeper", `{}`)
			dead()
			m := keeps()
			r.worker(m)
			sent := r.tools(`1`)
			r.reaches(id, events.StatusCompleted)
			r.wantKept(id, sent)
			if n := m.count(id); n != 2 {
				t.Errorf("the model was asked %d times after the kill, want 2: the answer was recorded", n)
			}
		})
	}
}
