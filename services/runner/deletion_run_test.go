package runner_test

import (
	"context"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// A deleted run stays deleted: its start, a result, a step and a command that come again
// are acknowledged and leave nothing behind, also with a process that has it in memory.
func TestDeletion_MessagesThatComeLateDoNotBringItBack(t *testing.T) {
	r := newRig(t)
	m := &script{answer: func(_ context.Context, _ runner.Request, n int) (runner.Answer, error) {
		if n == 1 {
			return asks(runner.ModelCall{Tool: "look"}), nil
		}
		return said("done"), nil
	}}
	r.worker(m)
	calls := r.tools(`{"page":"a"}`)
	id, other := r.start(events.KindAgent, "clerk", `{}`), r.start(events.KindAgent, "clerk", `{}`)
	r.reaches(id, events.StatusCompleted)
	r.reaches(other, events.StatusCompleted)
	if _, err := r.sql.Exec(t.Context(), `INSERT INTO console.deletions (run_id, namespace, principal, reason) VALUES ($1, 'default', 'op', 'it is over')`, string(id)); err != nil {
		t.Fatal(err)
	}
	r.eventually("the run to be purged", func() bool {
		return r.count(`SELECT count(*) FROM runner.v_deleted WHERE purged_at IS NOT NULL AND deleted_by = 'op' AND reason = 'it is over'`) == 1
	}, func() string { return r.status(id) })
	r.startAs(id, events.KindAgent, "clerk", `{"again":true}`)
	r.finish(calls.all()[0], events.CallSucceeded, `{"page":"late"}`)
	r.command(id, events.RunCancel, events.Command{})
	r.publish(events.RunSubject(id, "step"), "step:"+string(id)+":9:9", events.TypeStepRun, events.StepRun{RunID: id})
	r.eventually("the stream to be empty", func() bool {
		n, err := r.bus.Lag(t.Context(), events.StreamRuns, events.ConsumerRunner)
		s, err2 := r.bus.Lag(t.Context(), events.StreamRuns, events.ConsumerRunnerStep)
		return err == nil && err2 == nil && n.Pending+n.AckPending+s.Pending+s.AckPending == 0
	}, func() string { return r.status(id) })
	if n := r.count(`SELECT (SELECT count(*) FROM runner.runs) * 100 + (SELECT count(*) FROM runner.rejected) + (SELECT count(*) FROM runner.journal WHERE run_id = '` + string(id) + `')`); n != 100 {
		t.Errorf("late messages made runs, rows or rejections: %d, want 100", n)
	}
	if m.count(id) != 2 {
		t.Errorf("%d model calls, want 2", m.count(id))
	}
}

// Runs whose time is over go by themselves, with what is below them.
func TestDeletion_Retention(t *testing.T) {
	r := newRig(t)
	w := r.worker(&script{answer: func(context.Context, runner.Request, int) (runner.Answer, error) { return said("done"), nil }},
		func(c *runner.Config) { c.Retention = []string{"2h", "agent/saver=keep"} })
	flow, kept, young := r.start(events.KindFlow, "round", `{"items":[1,2]}`), r.start(events.KindAgent, "saver", `{}`), r.start(events.KindAgent, "clerk", `{}`)
	for _, id := range []events.RunID{flow, kept, young} {
		r.reaches(id, events.StatusCompleted)
	}
	if _, err := r.sql.Exec(t.Context(), `UPDATE runner.runs SET ended_at = ended_at - interval '3 h' WHERE run_id <> $1`, string(young)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.sql.Exec(t.Context(), `INSERT INTO runner.spend (namespace, hour, run_id, root_run_id, agent, model, calls, input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, cost_micro_usd, cost_estimated_micro_usd)
		SELECT 'default', clock_timestamp() - d * interval '1 day', 'r', 'r', 'clerk', 'old', 1, 1, 0, 0, 1, 1, 0 FROM unnest(ARRAY[399, 401]) d`); err != nil {
		t.Fatal(err)
	}
	if err := w.Retain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := r.count(`SELECT count(*) FROM runner.spend WHERE model = 'old'`); n != 1 {
		t.Errorf("%d rows of what was spent 399 and 401 days ago, want the younger one", n)
	}
	left := r.count(`SELECT count(*) FROM runner.runs WHERE run_id IN ('` + string(kept) + `', '` + string(young) + `')`)
	if all := r.count(`SELECT count(*) FROM runner.runs`); left != 2 || all != 2 {
		t.Errorf("%d runs are left, %d of them were to be kept; want 2 and 2", all, left)
	}
	if n := r.count(`SELECT count(*) FROM runner.v_deleted WHERE deleted_by = '` + runner.DeletedByRetention + `' AND root_run_id = '` + string(flow) + `'`); n != 4 {
		t.Errorf("%d runs went with the flow, want 4", n)
	}
}
