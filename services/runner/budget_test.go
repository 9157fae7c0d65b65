package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
	"github.com/holdfast-run/holdfast/services/runner/postgres"
)

func (r *rig) pool() (ceiling, used, reserved int64) {
	r.t.Helper()
	if err := r.sql.QueryRow(r.t.Context(), `SELECT ceiling, used, reserved FROM runner.v_pools WHERE pool = 'night'`).Scan(&ceiling, &used, &reserved); err != nil {
		r.t.Fatal(err)
	}
	return ceiling, used, reserved
}

// Twelve runs of 500 tokens each share a pool of 4,000: it is never exceeded,
// the rest pause, one alert is raised at each threshold, a raise wakes all.
func TestBudget_SharedPoolIsACeiling(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, strings.Replace(documents, "alertAt: [50, 100]}", "alertAt: [50, 100], channel: money}", 1))
	m := &script{answer: func(_ context.Context, q runner.Request, n int) (runner.Answer, error) {
		time.Sleep(50 * time.Millisecond)
		a := said("saved")
		a.Usage = events.Usage{InputTokens: 450, OutputTokens: 50}
		return a, nil
	}}
	r.worker(m)
	r.worker(m)
	var ids []events.RunID
	for range 12 {
		ids = append(ids, r.start(events.KindAgent, "saver", `{}`))
	}
	settled := func() map[string]int {
		n := map[string]int{}
		for _, id := range ids {
			n[r.status(id)]++
		}
		return n
	}
	r.eventually("every run has ended or pauses", func() bool {
		n := settled()
		return n[events.StatusCompleted]+n[events.StatusPaused] == 12
	}, func() string { return fmt.Sprint(settled()) })
	n := settled()
	ceiling, used, reserved := r.pool()
	if used > ceiling || reserved != 0 || used != int64(n[events.StatusCompleted])*500 {
		t.Errorf("used %d and reserved %d of %d with %d runs done", used, reserved, ceiling, n[events.StatusCompleted])
	}
	if n[events.StatusPaused] == 0 {
		t.Fatal("no run was paused")
	}
	alerts := func() (out []int) {
		rows, err := r.sql.Query(t.Context(), `SELECT percent FROM runner.alerts ORDER BY percent`)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var p int
			if err := rows.Scan(&p); err != nil {
				t.Fatal(err)
			}
			out = append(out, p)
		}
		return out
	}
	if got := alerts(); !slices.Equal(got, []int{50, 100}) {
		t.Errorf("alerts at %v percent, want one at 50 and one at 100", got)
	}
	var paused events.RunID
	for _, id := range ids {
		if r.status(id) == events.StatusPaused {
			paused = id
		}
	}
	r.command(paused, events.RunRaiseBudget, events.Command{Budget: "pool:night", To: 100_000})
	for _, id := range ids {
		r.reaches(id, events.StatusCompleted)
		if n := m.count(id); n != 1 {
			t.Errorf("run %s: %d model calls, want 1", id, n)
		}
	}
	if _, used, reserved := r.pool(); used != 6000 || reserved != 0 {
		t.Errorf("used %d and reserved %d after all, want 6000 and 0", used, reserved)
	}
	if got := alerts(); !slices.Equal(got, []int{50, 100}) {
		t.Errorf("alerts at %v percent after the raise, want no new one", got)
	}
	if n := r.count(`SELECT count(*) FROM runner.notices n JOIN runner.alerts a USING (alert_id) WHERE n.channel = 'money'`); n != 2 {
		t.Errorf("%d notices of the alerts, want one for each", n)
	}
	store := postgres.New(r.db.Open(t, "holdfast_runner"))
	due, err := store.DueAlerts(t.Context(), 10)
	if err != nil || len(due) != 2 {
		t.Fatalf("%d alerts to announce (%v), want 2", len(due), err)
	}
	if err := store.MarkAlerts(t.Context(), []string{due[0].ID, due[1].ID}); err != nil {
		t.Fatal(err)
	}
	if due, err := store.DueAlerts(t.Context(), 10); err != nil || len(due) != 0 {
		t.Errorf("%d alerts to announce after the announcement (%v)", len(due), err)
	}
}

// A worker lost in a model call may have spent its whole reservation.
func TestBudget_AbandonedCallCountsAsSpent(t *testing.T) {
	r := newRig(t)
	asleep, wake := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(wake) })
	a := r.worker(&script{answer: func(ctx context.Context, q runner.Request, n int) (runner.Answer, error) {
		close(asleep)
		<-wake
		return said("late"), nil
	}})
	id := r.start(events.KindAgent, "saver", `{}`)
	<-asleep
	_, _, booked := r.pool()
	r.worker(&script{answer: func(ctx context.Context, q runner.Request, n int) (runner.Answer, error) { return said("ok"), nil }})
	time.Sleep(2100 * time.Millisecond)
	a.freeze()
	r.reaches(id, events.StatusCompleted)
	if _, used, reserved := r.pool(); booked == 0 || used != booked+15 || reserved != 0 {
		t.Errorf("used %d and reserved %d; the lost call had booked %d and the other used 15", used, reserved, booked)
	}
}

func TestModelFailure_WaitsAsATimer(t *testing.T) {
	r := newRig(t)
	m := &script{answer: func(_ context.Context, q runner.Request, n int) (runner.Answer, error) {
		if n < 3 {
			return runner.Answer{}, &runner.ModelError{Code: "overloaded", Retry: true, Err: errors.New("status 529")}
		}
		return said("at last"), nil
	}}
	w := r.worker(m, func(c *runner.Config) { c.ModelSlots = 1 })
	id := r.start(events.KindAgent, "clerk", `{}`)
	r.eventually("the first attempt failed", func() bool { return slices.Contains(r.kinds(id), events.FactModelFailed) }, func() string { return r.journalText(id) })
	r.eventually("the wait holds no model slot", func() bool {
		if !w.Slots().TryAcquire() {
			return false
		}
		w.Slots().Release()
		return slices.Equal(r.kinds(id), []string{events.FactStarted, events.FactModelFailed})
	}, func() string { return r.journalText(id) })
	r.reaches(id, events.StatusCompleted)
	want := []string{events.FactStarted, events.FactModelFailed, events.FactTimerFired, events.FactModelFailed, events.FactTimerFired, events.FactModelAnswered, events.FactCompleted}
	if got := r.kinds(id); !slices.Equal(got, want) {
		t.Errorf("journal %v, want %v", got, want)
	}
	var timers int
	if err := r.sql.QueryRow(t.Context(), `SELECT count(*) FROM runner.timers`).Scan(&timers); err != nil || timers != 0 {
		t.Errorf("%d timers left (%v)", timers, err)
	}
}

func TestModelFailure_NothingToRetryParksTheRun(t *testing.T) {
	r := newRig(t)
	fixed := make(chan struct{})
	m := &script{answer: func(_ context.Context, q runner.Request, n int) (runner.Answer, error) {
		select {
		case <-fixed:
			return said("ok"), nil
		default:
			return runner.Answer{}, &runner.ModelError{Code: "authentication_error", Err: errors.New("status 401")}
		}
	}}
	r.worker(m)
	id := r.start(events.KindAgent, "clerk", `{}`)
	r.reaches(id, events.StatusAttention)
	close(fixed)
	r.command(id, events.RunResume, events.Command{})
	r.reaches(id, events.StatusCompleted)
}

// A thousand runs that wait for a person cost rows and nothing else.
func TestWaiting_AThousandApprovalsCostNothing(t *testing.T) {
	r := newRig(t)
	m := &script{answer: func(_ context.Context, q runner.Request, n int) (runner.Answer, error) {
		if len(q.Entries) == 1 {
			return asks(runner.ModelCall{Tool: "change"}), nil
		}
		return said("done"), nil
	}}
	r.worker(m)
	r.approvals("")
	warm := r.start(events.KindAgent, "clerk", `{}`)
	r.reaches(warm, events.StatusWaiting)
	r.drained()
	idle := runtime.NumGoroutine()
	for range 1000 {
		r.start(events.KindAgent, "clerk", `{}`)
	}
	var waiting int
	r.eventually("1,001 runs wait", func() bool {
		err := r.sql.QueryRow(t.Context(), `SELECT count(*) FROM runner.v_pending WHERE kind = 'approval'`).Scan(&waiting)
		return err == nil && waiting == 1001
	}, func() string { return fmt.Sprint(waiting) })
	r.drained()
	for stream, durable := range map[string]string{events.StreamRuns: events.ConsumerRunner, events.StreamApprovals: events.ConsumerApprovals} {
		r.eventually("no message of "+durable+" is held", func() bool {
			lag, err := r.bus.Lag(t.Context(), stream, durable)
			return err == nil && lag.AckPending == 0
		}, func() string { return "some are" })
	}
	r.eventually("goroutines are back within 20 of idle", func() bool { return runtime.NumGoroutine() <= idle+20 }, func() string {
		return fmt.Sprintf("%d, idle was %d", runtime.NumGoroutine(), idle)
	})
	var open int
	if err := r.sql.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'`).Scan(&open); err != nil || open != 0 {
		t.Errorf("%d open transactions (%v)", open, err)
	}
}

func TestCancel_TellsTheTruthAboutCallsInFlight(t *testing.T) {
	r := newRig(t)
	m := &script{answer: func(_ context.Context, q runner.Request, n int) (runner.Answer, error) {
		return asks(runner.ModelCall{Tool: "look"}, runner.ModelCall{ProviderID: "gated", Tool: "change"}), nil
	}}
	r.worker(m)
	calls := r.tools("")
	controls := receive[events.ControlTool](r, events.StreamTools, events.ConsumerToolCtl, nil)
	type anyApproval struct {
		events.AskApproval
		Reason string `json:"reason"`
	}
	asked := receive[anyApproval](r, events.StreamApprovals, events.ConsumerApprovals, nil)
	id := r.start(events.KindAgent, "clerk", `{}`)
	r.eventually("call and question are out", func() bool { return len(calls.all()) == 1 && len(asked.all()) == 1 }, func() string { return r.journalText(id) })
	r.command(id, events.RunCancel, events.Command{Reason: "enough"})
	r.reaches(id, events.StatusCancelling)
	r.eventually("call is revoked, question withdrawn", func() bool { return len(controls.all()) == 1 && len(asked.all()) == 2 }, func() string { return fmt.Sprint(controls.all(), asked.all()) })
	r.finish(calls.all()[0], events.CallSucceeded, `"it had begun"`)
	r.reaches(id, events.StatusCancelled)
	if n := m.count(id); n != 1 {
		t.Errorf("%d model calls, want 1", n)
	}
	// A decision after the end changes nothing but is kept.
	r.decide(asked.all()[0].AskApproval, events.Approve)
	r.eventually("the late decision is kept", func() bool { return slices.Contains(r.kinds(id), events.FactLateResult) }, func() string { return r.journalText(id) })
	if got := r.status(id); got != events.StatusCancelled {
		t.Errorf("status %s after a late decision", got)
	}
	if n := len(calls.all()); n != 1 {
		t.Errorf("%d calls were sent, want 1", n)
	}
	var result json.RawMessage
	if err := r.sql.QueryRow(t.Context(), `SELECT data FROM runner.v_events WHERE run_id = $1 AND kind = 'tool_completed'`, string(id)).Scan(&result); err != nil {
		t.Error("the true outcome of the call in flight is not in the journal:", err)
	}
}
