package runner_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
	"github.com/holdfast-run/holdfast/services/runner/postgres"
)

const limits = `
apiVersion: holdfast/v1
kind: Model
metadata: {name: priced}
spec: {provider: anthropic, model: priced, apiKey: {env: KEY}, prices: {input: 0, output: 4000}}
---
apiVersion: holdfast/v1
kind: Budget
metadata: {name: dollar}
spec: {unit: usd, limit: 1}
---
apiVersion: holdfast/v1
kind: Budget
metadata: {name: calls}
spec: {unit: toolCalls, limit: 6}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: spender}
spec: {model: priced, instructions: work, maxTokens: 100, budget: {pools: [dollar]}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: caller}
spec: {model: scripted, instructions: work, tools: [look], budget: {pools: [calls]}}
---
apiVersion: holdfast/v1
kind: Flow
metadata: {name: crowd}
spec:
  budget: {modelCalls: 3, onExceeded: fail}
  steps:
    - {name: each, flow: inner, forEach: "${input.items}", limit: 10, onFailure: continue}
---
apiVersion: holdfast/v1
kind: Flow
metadata: {name: inner}
spec:
  steps:
    - {name: work, agent: clerk}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: unpriced}
spec: {model: scripted, instructions: work, budget: {cost: 1}}
`

func (r *rig) poolNamed(name string) (ceiling, used, reserved int64, unit string) {
	r.t.Helper()
	if err := r.sql.QueryRow(r.t.Context(), `SELECT ceiling, used, reserved, unit FROM runner.v_pools WHERE pool = $1`, name).Scan(&ceiling, &used, &reserved, &unit); err != nil {
		r.t.Fatal(err)
	}
	return ceiling, used, reserved, unit
}

// Four calls that may cost 0.40 each under a shared dollar, on two runners: never
// more than two at once, and what a call did not cost is given back. Lowering the
// limit stops the next call, and a limit in money needs prices.
func TestCaseH01_SharedMoneyHoldsAcrossRunners(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, limits)
	var now, peak atomic.Int64
	m := &script{answer: func(_ context.Context, q runner.Request, n int) (runner.Answer, error) {
		for at := now.Add(1); ; {
			if old := peak.Load(); at <= old || peak.CompareAndSwap(old, at) {
				break
			}
		}
		time.Sleep(100 * time.Millisecond)
		now.Add(-1)
		return said("ok"), nil // five tokens of output: 0.02
	}}
	r.worker(m)
	r.worker(m)
	ids := []events.RunID{}
	for range 4 {
		ids = append(ids, r.start(events.KindAgent, "spender", `{}`))
	}
	for _, id := range ids {
		r.reaches(id, events.StatusCompleted)
	}
	if ceiling, used, reserved, unit := r.poolNamed("dollar"); ceiling != 1_000_000 || used != 80_000 || reserved != 0 || unit != "micro_usd" || peak.Load() > 2 {
		t.Errorf("%d of %d %s used, %d reserved, %d calls at once; want 80000 of 1000000 micro_usd, 0 and at most 2", used, ceiling, unit, reserved, peak.Load())
	}
	r.defs.apply(t, strings.Replace(limits, "limit: 1}", `limit: "0.45"}`, 1))
	id := r.start(events.KindAgent, "spender", `{}`)
	r.reaches(id, events.StatusPaused)
	if text := r.journalText(id); !strings.Contains(text, "80000 of 450000 micro_usd used") || m.count(id) != 0 {
		t.Errorf("after the limit was lowered: %d calls\n%s", m.count(id), text)
	}
	id = r.start(events.KindAgent, "unpriced", `{}`)
	r.reaches(id, events.StatusFailed)
	if text := r.journalText(id); !strings.Contains(text, "model scripted has no prices") {
		t.Error(text)
	}
}

// Two runs that ask for eight calls each under a shared six: six begin, whoever
// asks first, and the rest is answered with a refusal.
func TestCaseH01_SharedToolCallsNeverOvershoot(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, limits)
	m := &script{answer: func(_ context.Context, q runner.Request, n int) (runner.Answer, error) {
		if len(q.Entries) > 1 {
			return said("done"), nil
		}
		return asks(slices.Repeat([]runner.ModelCall{{Tool: "look"}}, 8)...), nil
	}}
	r.worker(m)
	r.worker(m)
	calls := r.tools(`"seen"`)
	ids := []events.RunID{r.start(events.KindAgent, "caller", `{}`), r.start(events.KindAgent, "caller", `{}`)}
	refused := 0
	for _, id := range ids {
		r.reaches(id, events.StatusCompleted)
		refused += strings.Count(fmt.Sprintf("%s", r.journal(id)[1].Data), "the shared budget calls of tool calls is used up")
	}
	if _, used, reserved, _ := r.poolNamed("calls"); used != 6 || reserved != 0 || len(calls.all()) != 6 || refused != 10 {
		t.Errorf("%d used, %d reserved, %d calls sent, %d refused; want 6, 0, 6 and 10", used, reserved, len(calls.all()), refused)
	}
}

// Five runs two levels under a flow share its three model calls, or steps: no more
// are made, and who finds none fails with the numbers. One alert is told at each
// threshold, and names the flow's run and the one that passed it.
func TestCaseH01_RunsUnderAFlowShareItsCeiling(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"modelCalls", "steps"} {
		t.Run(unit, func(t *testing.T) {
			r := newRig(t)
			r.defs.apply(t, strings.Replace(limits, "modelCalls: 3", unit+": 3", 1))
			var made atomic.Int64
			m := &script{answer: func(_ context.Context, q runner.Request, n int) (runner.Answer, error) {
				made.Add(1)
				return said("ok"), nil
			}}
			r.worker(m)
			r.worker(m)
			id := r.start(events.KindFlow, "crowd", `{"items":[1,2,3,4,5]}`)
			r.reaches(id, events.StatusCompleted)
			pool := "flow-" + string(id) + "-" + strings.ToLower(unit)
			if ceiling, used, reserved, of := r.poolNamed(pool); made.Load() != 3 || ceiling != 3 || used != 3 || reserved != 0 || of != unit {
				t.Errorf("%d calls made; %d of %d %s used, %d reserved", made.Load(), used, ceiling, of, reserved)
			}
			var failed int
			if err := r.sql.QueryRow(t.Context(), `SELECT count(*) FROM runner.v_runs WHERE name = 'clerk' AND status = 'failed' AND error->>'code' = 'budget' AND error->>'message' LIKE '%3 of 3 ' || $1 || ' used%'`, unit).Scan(&failed); err != nil || failed != 2 {
				t.Errorf("%d runs failed for the budget (%v), want 2", failed, err)
			}
			due, err := postgres.New(r.db.Open(t, "holdfast_runner")).DueAlerts(t.Context(), 10)
			if err != nil || len(due) != 2 {
				t.Fatalf("%d alerts (%v), want 2", len(due), err)
			}
			for _, one := range due {
				var a events.BudgetAlert
				if err := events.Decode(one, &a); err != nil || a.Pool != pool || a.RunID != id || r.status(a.PassedBy) == "no row" || a.PassedBy == id {
					t.Errorf("alert %+v (%v)", a, err)
				}
			}
		})
	}
}

// Passing a threshold of a run's own ceiling is one event that names the run.
func TestOwnAlerts_AreAnnouncedOnce(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, strings.Replace(documents, "budget: {toolCalls: 12}", "budget: {modelCalls: 5}", 1))
	m := &script{answer: func(_ context.Context, q runner.Request, n int) (runner.Answer, error) {
		return asks(runner.ModelCall{Tool: "look"}), nil
	}}
	r.worker(m)
	r.tools(`"seen"`)
	id := r.start(events.KindAgent, "clerk", `{}`)
	r.reaches(id, events.StatusPaused)
	due, err := postgres.New(r.db.Open(t, "holdfast_runner")).DueAlerts(t.Context(), 10)
	if err != nil || len(due) != 2 {
		t.Fatalf("%d alerts (%v), want 2", len(due), err)
	}
	for i, percent := range []int{80, 100} {
		var a events.BudgetAlert
		if err := events.Decode(due[i], &a); err != nil || a.RunID != id || a.PassedBy != id || a.Percent != percent || a.Pool != "run:modelCalls" || a.Limit != 5 {
			t.Errorf("alert %d: %+v (%v)", i, a, err)
		}
	}
}
