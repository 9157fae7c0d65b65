package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// consistent checks what must hold for every run, whatever happened to it: no
// gap in its rows, an event for each, each message recorded once.
func (r *rig) consistent(ids ...events.RunID) {
	r.t.Helper()
	for _, id := range ids {
		for i, row := range r.journal(id) {
			if row.Seq != int64(i)+1 {
				r.t.Errorf("run %s: row %d stands at place %d", id, row.Seq, i+1)
			}
		}
	}
	r.eventually("every row of every run is an event", func() bool {
		seqs := r.eventSeqs(ids...)
		for _, id := range ids {
			for _, row := range r.journal(id) {
				if seqs[id][row.Seq] == 0 {
					return false
				}
			}
		}
		return true
	}, func() string { return fmt.Sprint(r.eventSeqs(ids...)) })
}

// A second worker moves the run on; the first one's memory of it is stale. A
// stale memory must never call a result "known" or "unknown".
func TestRecovery_StaleCacheNeverDropsAResult(t *testing.T) {
	r := newRig(t)
	m := &script{answer: func(_ context.Context, q runner.Request, n int) (runner.Answer, error) {
		if len(q.Entries) < 21 {
			return asks(runner.ModelCall{Tool: "look", Args: json.RawMessage(fmt.Sprintf(`{"n":%d}`, len(q.Entries)))}), nil
		}
		return said("ten turns"), nil
	}}
	r.worker(m)
	r.worker(m)
	r.worker(m)
	r.tools(`1`)
	var ids []events.RunID
	for range 8 {
		ids = append(ids, r.start(events.KindAgent, "clerk", `{}`))
	}
	for _, id := range ids {
		r.reaches(id, events.StatusCompleted)
		if n := m.count(id); n != 11 {
			t.Errorf("run %s: %d model calls, want 11", id, n)
		}
		workers := map[string]bool{}
		for _, row := range r.journal(id) {
			workers[row.Worker] = true
		}
		if len(workers) < 2 {
			t.Logf("run %s stayed on one worker", id)
		}
	}
	r.consistent(ids...)
}

// Parallel results arrive at two workers at once: each is recorded once and the
// model is asked once.
func TestRecovery_ParallelResultsRace(t *testing.T) {
	r := newRig(t)
	m := &script{answer: func(_ context.Context, q runner.Request, n int) (runner.Answer, error) {
		if len(q.Entries) >= 9 {
			return said("done"), nil
		}
		var calls []runner.ModelCall
		for i := range 3 {
			calls = append(calls, runner.ModelCall{ProviderID: fmt.Sprintf("t%d_%d", len(q.Entries), i), Tool: "look"})
		}
		return asks(calls...), nil
	}}
	r.worker(m)
	r.worker(m)
	r.tools(`1`)
	var ids []events.RunID
	for range 10 {
		ids = append(ids, r.start(events.KindAgent, "clerk", `{}`))
	}
	for _, id := range ids {
		r.reaches(id, events.StatusCompleted)
		if n := m.count(id); n != 5 {
			t.Errorf("run %s: %d model calls, want 5", id, n)
		}
		results := 0
		for _, k := range r.kinds(id) {
			if k == events.FactToolCompleted {
				results++
			}
		}
		if results != 12 {
			t.Errorf("run %s: %d results recorded, want 12", id, results)
		}
	}
	r.consistent(ids...)
}

// The process dies between commit and publish: the redelivered message sends
// what every row of its cause says, events too.
func TestRecovery_CrashBetweenCommitAndPublish(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"runner.committed", "runner.answer_committed", "runner.published"} {
		t.Run(point, func(t *testing.T) {
			r := newRig(t)
			m := &script{answer: lookThenChange}
			r.worker(m)
			r.tools(`1`)
			r.approvals(events.Approve)
			id := events.NewRunID()
			for n := 1; n <= 12; n += 2 { // each message once: what comes again waits longer each time
				defer arm(t, fmt.Sprintf("%s[%s]=error#%d", point, id, n))()
			}
			r.startAs(id, events.KindAgent, "clerk", `{}`)
			r.reaches(id, events.StatusCompleted)
			if n := m.count(id); n != 3 {
				t.Errorf("%d model calls, want 3: a recorded answer was asked for again", n)
			}
			r.consistent(id)
		})
	}
}

// The message's cause is recorded but the model call it owes was never made:
// the state is driven, not just the outbox.
func TestRecovery_RecordedCauseStillOwesTheCall(t *testing.T) {
	r := newRig(t)
	m := &script{answer: lookThenChange}
	r.worker(m)
	r.tools(`1`)
	r.approvals(events.Approve)
	id := events.NewRunID()
	defer arm(t, fmt.Sprintf("runner.claimed[%s]=error#1", id))()
	defer arm(t, fmt.Sprintf("runner.claimed[%s]=error#3", id))()
	r.startAs(id, events.KindAgent, "clerk", `{}`)
	r.reaches(id, events.StatusCompleted)
	if n := m.count(id); n != 3 {
		t.Errorf("%d model calls, want 3", n)
	}
	r.consistent(id)
}

func arm(t *testing.T, point string) func() {
	t.Helper()
	off, err := failpoint.Arm(point, "")
	if err != nil {
		t.Fatal(err)
	}
	return off
}

// A worker stops in the middle of a model call, is taken over, and wakes up
// with an answer while the other is still at the call: it neither writes nor
// sends.
func TestCaseC01_FencedWorkerNeverActs(t *testing.T) {
	r := newRig(t)
	asleep, wake := make(chan struct{}), make(chan struct{})
	woken := make(chan struct{})
	var once sync.Once
	a := r.worker(&script{answer: func(ctx context.Context, q runner.Request, n int) (runner.Answer, error) {
		once.Do(func() { close(asleep) })
		<-wake
		defer close(woken)
		return asks(runner.ModelCall{Tool: "look", Args: json.RawMessage(`{"n":666}`)}), nil
	}})
	calls := r.tools(`1`)
	id := r.start(events.KindAgent, "clerk", `{}`)
	<-asleep
	taken, release := make(chan struct{}), make(chan struct{})
	b := r.worker(&script{answer: func(_ context.Context, q runner.Request, n int) (runner.Answer, error) {
		if len(q.Entries) == 1 {
			close(taken)
			<-release
			return asks(runner.ModelCall{Tool: "look", Args: json.RawMessage(`{"n":1}`)}), nil
		}
		return said("by the other"), nil
	}})
	time.Sleep(2100 * time.Millisecond) // b must have been fresh for two seconds before it may judge
	a.freeze()
	began := time.Now()
	<-taken
	t.Logf("taken over %s after the freeze", time.Since(began).Round(time.Millisecond))
	close(wake)
	<-woken
	time.Sleep(500 * time.Millisecond) // time for it to do harm
	if got := r.kinds(id); len(got) != 1 {
		t.Errorf("the fenced worker wrote: %v", got)
	}
	if n := len(calls.all()); n != 0 {
		t.Errorf("the fenced worker sent %d calls", n)
	}
	r.counts("holdfast_runner_fenced_total", 1)
	r.counts("holdfast_runner_takeovers_total", 1)
	close(release)
	r.reaches(id, events.StatusCompleted)
	for _, row := range r.journal(id) {
		if row.Kind == events.FactModelAnswered && row.Worker != b.name {
			t.Errorf("row %d was written by the fenced worker", row.Seq)
		}
	}
	r.consistent(id)
}

// An answer that races a pause, a cancel or an end is recorded with its cost,
// and none of its calls is sent.
func TestCaseC13_AnswerRacesACommand(t *testing.T) {
	t.Parallel()
	for what, wantStatus := range map[string]string{events.RunPause: events.StatusPaused, events.RunCancel: events.StatusCancelled} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t)
			asked, release := make(chan struct{}), make(chan struct{})
			m := &script{answer: func(ctx context.Context, q runner.Request, n int) (runner.Answer, error) {
				if n == 1 {
					close(asked)
					<-release
					return asks(runner.ModelCall{Tool: "look"}), nil
				}
				return said("done"), nil
			}}
			r.worker(m)
			calls := r.tools(`1`)
			id := r.start(events.KindAgent, "clerk", `{}`)
			<-asked
			r.command(id, what, events.Command{Reason: "wait"})
			r.reaches(id, wantStatus)
			close(release)
			kept := events.FactModelAnswered
			if what == events.RunCancel {
				kept = events.FactLateResult
			}
			r.eventually("the answer is kept", func() bool { return slices.Contains(r.kinds(id), kept) }, func() string { return r.journalText(id) })
			time.Sleep(200 * time.Millisecond)
			if n := len(calls.all()); n != 0 {
				t.Fatalf("%d calls were sent", n)
			}
			if got := r.status(id); got != wantStatus {
				t.Fatalf("status %s, want %s", got, wantStatus)
			}
			if what == events.RunPause {
				r.command(id, events.RunResume, events.Command{})
				r.reaches(id, events.StatusCompleted)
				if n, sent := m.count(id), len(calls.all()); n != 2 || sent != 1 {
					t.Errorf("%d model calls and %d tool calls after the resume, want 2 and 1", n, sent)
				}
			}
			r.consistent(id)
		})
	}
}

// The same message again, under its own id or a fresh one, adds no row and
// sends its commands again; a nudge's fresh id is what gets it through.
func TestRecovery_RepeatsAddNothing(t *testing.T) {
	r := newRig(t)
	m := &script{answer: lookThenChange}
	r.worker(m)
	calls := r.tools(`1`)
	r.approvals("")
	id := r.start(events.KindAgent, "clerk", `{}`)
	r.reaches(id, events.StatusWaiting)
	r.eventually("the approval is waited for", func() bool { return len(r.kinds(id)) == 4 }, func() string { return r.journalText(id) })
	before := len(r.journal(id))
	sent := calls.all()
	for n := range 5 {
		done := events.ToolCompleted{CallID: sent[0].CallID, RunID: id, Tool: "look", Status: events.CallSucceeded, Result: json.RawMessage(`1`), Epoch: 1}
		r.publish(events.RunSubject(id, events.RunToolCompleted), fmt.Sprintf("tool:%s:succeeded:1", sent[0].CallID), events.TypeToolCompleted, done, fmt.Sprintf(":n%d", n))
	}
	r.drained()
	if after := len(r.journal(id)); after != before {
		t.Errorf("repeats added %d rows", after-before)
	}
	if n := m.count(id); n != 2 {
		t.Errorf("%d model calls, want 2", n)
	}
}

// drained waits until RUNS is empty.
func (r *rig) drained() {
	r.t.Helper()
	r.eventually("RUNS is empty", func() bool {
		lag, err := r.bus.Lag(r.t.Context(), events.StreamRuns, events.ConsumerRunner)
		return err == nil && lag.Pending+lag.AckPending == 0 && r.owed() == 0
	}, func() string {
		lag, err := r.bus.Lag(r.t.Context(), events.StreamRuns, events.ConsumerRunner)
		return fmt.Sprint(lag, err)
	})
}

// NATS loses everything it had; the doctor asks again and every run goes on.
func TestCaseC08_AllMessagesLost(t *testing.T) {
	r := newRig(t)
	m := &script{answer: lookThenChange}
	r.worker(m, func(c *runner.Config) { c.DoctorEvery = 200 * time.Millisecond })
	id := r.start(events.KindAgent, "clerk", `{}`)
	r.eventually("the call is out", func() bool { return r.status(id) == events.StatusWaiting }, func() string { return r.status(id) })
	r.nats.Wipe()
	if _, err := r.sql.Exec(t.Context(), `UPDATE runner.pending SET next_nudge = clock_timestamp()`); err != nil {
		t.Fatal(err)
	}
	r.tools(`1`)
	r.approvals(events.Approve)
	r.reaches(id, events.StatusCompleted)
	if n := m.count(id); n != 3 {
		t.Errorf("%d model calls, want 3", n)
	}
}

// A NATS restart with 200 runs in model calls repeats none of them and takes over no
// live worker.
func TestCaseC08_NATSRestartRepeatsNoModelCall(t *testing.T) {
	r := newRig(t)
	var calls atomic.Int64
	m := &script{answer: func(ctx context.Context, q runner.Request, n int) (runner.Answer, error) {
		calls.Add(1)
		time.Sleep(4 * time.Second) // longer than all take to get here, and than AckWait
		return said("done"), nil
	}}
	const runs = 200
	slots := func(c *runner.Config) { c.ModelSlots = 160 }
	r.worker(m, slots)
	r.worker(m, slots)
	var ids []events.RunID
	for range runs {
		ids = append(ids, r.start(events.KindAgent, "clerk", `{}`))
	}
	r.eventually("all are in the model", func() bool { return calls.Load() == runs }, func() string { return fmt.Sprint(calls.Load()) })
	r.nats.Stop()
	time.Sleep(300 * time.Millisecond)
	r.nats.Start()
	for _, id := range ids {
		r.reaches(id, events.StatusCompleted)
	}
	if n := calls.Load(); n != runs {
		t.Errorf("%d model calls, want %d", n, runs)
	}
	var takeovers int
	if err := r.sql.QueryRow(t.Context(), `SELECT coalesce(sum(attempts), 0) FROM runner.v_runs`).Scan(&takeovers); err != nil || takeovers != 0 {
		t.Errorf("%d takeovers of living workers (%v)", takeovers, err)
	}
}

// Stopping hands model calls over at once instead of letting them run out.
func TestRecovery_StopHandsOver(t *testing.T) {
	r := newRig(t)
	started := make(chan struct{})
	var once sync.Once
	a := r.worker(&script{answer: func(ctx context.Context, q runner.Request, n int) (runner.Answer, error) {
		once.Do(func() { close(started) })
		<-ctx.Done()
		return runner.Answer{}, ctx.Err()
	}})
	id := r.start(events.KindAgent, "clerk", `{}`)
	<-started
	r.worker(&script{answer: func(ctx context.Context, q runner.Request, n int) (runner.Answer, error) { return said("other"), nil }})
	now, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	began := time.Now()
	_ = a.inbox.Stop(now)
	r.reaches(id, events.StatusCompleted)
	if took := time.Since(began); took > time.Second {
		t.Errorf("handed over after %s, want well under a second", took)
	}
}

// The tools service took a call and lost it. Asking again under the message id
// that the stream still remembers would be swallowed; a fresh one gets through.
func TestRecovery_NudgeGetsThroughTheDuplicateWindow(t *testing.T) {
	r := newRig(t)
	m := &script{answer: lookThenChange}
	r.worker(m, func(c *runner.Config) { c.DoctorEvery = 200 * time.Millisecond })
	var seen atomic.Int64
	calls := receive(r, events.StreamTools, events.ToolConsumer("default"), func(c events.CallTool) {
		if seen.Add(1) > 1 {
			r.finish(c, events.CallSucceeded, `1`)
		}
	})
	r.approvals(events.Approve)
	id := r.start(events.KindAgent, "clerk", `{}`)
	r.eventually("the call was taken", func() bool { return len(calls.all()) == 1 }, func() string { return r.journalText(id) })
	if _, err := r.sql.Exec(t.Context(), `UPDATE runner.pending SET next_nudge = clock_timestamp()`); err != nil {
		t.Fatal(err)
	}
	r.reaches(id, events.StatusCompleted)
	if first, second := calls.all()[0], calls.all()[1]; first.CallID != second.CallID || first.Key != second.Key {
		t.Errorf("asked again about another call: %+v, then %+v", first, second)
	}
}

// A message may come back to another worker while its owner lives (a late
// InProgress, a restart of NATS): the other leaves the claim alone.
func TestCaseC02_RedeliveryLeavesTheLivingAlone(t *testing.T) {
	r := newRig(t)
	asked := make(chan struct{})
	var once sync.Once
	m := &script{answer: func(ctx context.Context, q runner.Request, n int) (runner.Answer, error) {
		once.Do(func() { close(asked) })
		time.Sleep(6 * time.Second) // three AckWaits
		return said("slow"), nil
	}}
	a := r.worker(m)
	id := r.start(events.KindAgent, "clerk", `{}`)
	<-asked
	a.mute()
	r.worker(m)
	r.reaches(id, events.StatusCompleted)
	if n := m.count(id); n != 1 {
		t.Errorf("%d model calls, want 1: a living worker was taken over", n)
	}
	var epoch, attempts int
	if err := r.sql.QueryRow(t.Context(), `SELECT claim_epoch, attempts FROM runner.v_runs WHERE run_id = $1`, string(id)).Scan(&epoch, &attempts); err != nil || epoch != 1 || attempts != 0 {
		t.Errorf("epoch %d, %d attempts (%v), want 1 and 0", epoch, attempts, err)
	}
}

// A pause and a resume reach the runner the wrong way round, each twice: the run goes
// on, as the last word says, and its journal names what the pause gave way to. The
// other way round it stands still.
func TestRecovery_TheLastWordHolds(t *testing.T) {
	for last, tc := range map[string]struct{ earlier, want string }{
		events.RunResume: {events.RunPause, events.StatusCompleted},
		events.RunPause:  {events.RunResume, events.StatusPaused},
	} {
		t.Run(last, func(t *testing.T) {
			r := newRig(t)
			m := &script{answer: func(_ context.Context, _ runner.Request, n int) (runner.Answer, error) {
				if n == 1 {
					return asks(runner.ModelCall{Tool: "look"}), nil
				}
				return said("done"), nil
			}}
			r.worker(m)
			calls := r.tools("")
			id := r.start(events.KindAgent, "clerk", `{}`)
			r.eventually("a call is out", func() bool { return len(calls.all()) == 1 }, func() string { return r.journalText(id) })
			for i, what := range []string{last, tc.earlier} {
				r.command(id, what, events.Command{Place: 2 - i})
				r.eventually("it is recorded", func() bool { return len(r.kinds(id)) == 3+i }, func() string { return r.journalText(id) })
				r.command(id, what, events.Command{Place: 2 - i})
			}
			r.finish(calls.all()[0], events.CallSucceeded, `1`)
			r.eventually("the result is recorded", func() bool { return slices.Contains(r.kinds(id), events.FactToolCompleted) }, func() string { return r.journalText(id) })
			r.drained()
			r.reaches(id, tc.want)
			if text := r.journalText(id); !strings.Contains(text, `"overtaken":"`+last+`-`+string(id)+`"`) {
				t.Errorf("no row says that the %s was overtaken:\n%s", tc.earlier, text)
			}
			r.consistent(id)
		})
	}
}
