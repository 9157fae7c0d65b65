package runner_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// Ten runs, two workers with three slots each, and calls that are longer than a
// message is kept for somebody who says nothing: no call is made twice, both workers
// have work, and neither holds what it does not work on: a third one gets the rest
// while all the others still think.
func TestCaseC02_LongCallsOfManyRuns(t *testing.T) {
	r := newRig(t)
	var ids []events.RunID
	release := make(chan struct{})
	m := &script{answer: func(ctx context.Context, _ runner.Request, _ int) (runner.Answer, error) {
		select {
		case <-release:
		case <-ctx.Done():
			return runner.Answer{}, context.Cause(ctx)
		}
		return said("slow"), nil
	}}
	slots := func(c *runner.Config) { c.ModelSlots = 3 }
	r.worker(m, slots)
	r.worker(m, slots)
	for range 10 {
		ids = append(ids, r.start(events.KindAgent, "clerk", `{}`))
	}
	thinking := func(n int) {
		t.Helper()
		r.eventually(fmt.Sprintf("%d runs are in the model", n), func() bool {
			all := 0
			for _, id := range ids {
				all += m.count(id)
			}
			return all == n
		}, func() string { return r.journalText(ids[0]) })
	}
	thinking(6)
	r.eventually("the others are handled and wait for a slot", func() bool {
		lag, err := r.bus.Lag(t.Context(), events.StreamRuns, events.ConsumerRunner)
		return err == nil && int(lag.Pending+lag.AckPending) == r.count(`SELECT count(*) FROM runner.runs WHERE claim_cause LIKE 'start:%'`)
	}, func() string { return r.journalText(ids[9]) })
	r.worker(m, slots)
	thinking(9)
	held := time.Now()
	for time.Since(held) < bus.AckWait+600*time.Millisecond {
		thinking(9)
	}
	close(release)
	for _, id := range ids {
		r.reaches(id, events.StatusCompleted)
		if n := m.count(id); n != 1 {
			t.Errorf("run %s: %d model calls, want 1", id, n)
		}
	}
	by := map[string]int{}
	for _, id := range ids {
		by[r.journal(id)[1].Worker]++
	}
	if len(by) != 3 {
		t.Errorf("work was done by %v, want all three workers", by)
	}
	if n := r.count(`SELECT sum(attempts) FROM runner.v_runs`); n != 0 {
		t.Errorf("%d takeovers of living workers", n)
	}
	r.consistent(ids...)
}

// A run kills every process that works on it, each time after the model has been
// paid, beside 50 others: it is parked after five, whatever layer delivers it, the
// others end in normal time, and a person can let it go on.
func TestCaseC04_PoisonKillsEveryRunner(t *testing.T) {
	r := newRig(t)
	poison := events.NewRunID()
	var dead []func()
	for range 5 {
		dead = append(dead, r.spawn("runner.answered["+string(poison)+"]=kill"))
	}
	calls := r.tools(`1`)
	r.startAs(poison, events.KindAgent, "clerk", `{}`)
	var others []events.RunID
	for range 50 {
		others = append(others, r.start(events.KindAgent, "clerk", `{}`))
	}
	r.eventually("the others have ended", func() bool {
		return r.count(`SELECT count(*) FROM runner.v_runs WHERE status = 'completed'`) == len(others)
	}, func() string { return r.journalText(others[0]) })
	for _, wait := range dead {
		wait()
	}
	attempts := `SELECT attempts FROM runner.v_runs WHERE run_id = '` + string(poison) + `'`
	resumed := -1
	m := &script{answer: func(context.Context, runner.Request, int) (runner.Answer, error) {
		resumed = r.count(attempts)
		return said("cured"), nil
	}}
	r.worker(m)
	r.reaches(poison, events.StatusAttention)
	rows := r.journal(poison)
	if last := rows[len(rows)-1]; last.Kind != events.FactAttention || !strings.Contains(string(last.Data), `"code":"lost_workers"`) {
		t.Errorf("parked by %s %s", last.Kind, last.Data)
	}
	r.counts(`holdfast_runner_parked_total{code="lost_workers"}`, 1)
	if n := r.count(attempts); n != 5 {
		t.Errorf("the parked run shows %d lost workers, want 5", n)
	}
	if n := m.count(poison); n != 0 {
		t.Errorf("%d model calls after five processes were lost", n)
	}
	if n := len(calls.all()); n != 0 {
		t.Errorf("%d tool calls", n)
	}
	r.command(poison, events.RunResume, events.Command{Reason: "mended"})
	r.reaches(poison, events.StatusCompleted)
	if n := m.count(poison); n != 1 {
		t.Errorf("%d model calls after the resume, want 1", n)
	}
	if resumed != 0 {
		t.Errorf("the resumed run still counts %d lost workers", resumed)
	}
	r.consistent(append(others, poison)...)
}

// A run whose history panics the runner is parked at once, with the reason; the
// process lives and the others notice nothing.
func TestCaseC04_PanicParksTheRun(t *testing.T) {
	r := newRig(t)
	var poison atomic.Value
	poison.Store(events.RunID(""))
	m := &script{answer: func(_ context.Context, q runner.Request, n int) (runner.Answer, error) {
		if q.RunID == poison.Load() {
			panic("an impossible history")
		}
		return said("done"), nil
	}}
	r.worker(m)
	bad := events.NewRunID()
	poison.Store(bad)
	r.startAs(bad, events.KindAgent, "clerk", `{}`)
	other := r.start(events.KindAgent, "clerk", `{}`)
	r.reaches(bad, events.StatusAttention)
	r.reaches(other, events.StatusCompleted)
	if n := m.count(bad); n != 1 {
		t.Errorf("%d model calls, want 1", n)
	}
	if text := r.journalText(bad); !strings.Contains(text, `"code":"panic"`) || !strings.Contains(text, "impossible history") {
		t.Errorf("the reason is not in the journal:\n%s", text)
	}
	poison.Store(events.RunID(""))
	r.command(bad, events.RunResume, events.Command{})
	r.reaches(bad, events.StatusCompleted)
}

// Two workers ask about everything all the time while 200 short runs finish: no
// living run is adopted, no end is taken back, and no call is made twice.
func TestCaseC06_AskingAgainHarmsNobody(t *testing.T) {
	r := newRig(t)
	const runs = 200
	m := &script{answer: func(_ context.Context, q runner.Request, _ int) (runner.Answer, error) {
		time.Sleep(20 * time.Millisecond)
		return looksOnce(nil, q, 0)
	}}
	often := func(c *runner.Config) { c.DoctorEvery = 100 * time.Millisecond }
	r.worker(m, often)
	r.worker(m, often)
	r.tools(`1`)
	var ids []events.RunID
	for range runs {
		ids = append(ids, r.start(events.KindAgent, "clerk", `{}`))
	}
	asked := 0
	r.eventually("all have ended", func() bool {
		tag, err := r.sql.Exec(t.Context(), `UPDATE runner.pending p SET next_nudge = clock_timestamp()
			FROM (SELECT run_id, item FROM runner.pending FOR UPDATE SKIP LOCKED) d WHERE p.run_id = d.run_id AND p.item = d.item`) // a commit has many of them, in another order
		if err != nil {
			t.Fatal(err)
		}
		asked += int(tag.RowsAffected())
		return r.count(`SELECT count(*) FROM runner.v_runs WHERE ended_at IS NOT NULL`) == runs
	}, func() string { return r.journalText(ids[0]) })
	r.drained()
	if asked < 10 { // how often depends on how fast the machine is
		t.Errorf("only %d times something was due to be asked about", asked)
	}
	want := []string{events.FactStarted, events.FactModelAnswered, events.FactToolCompleted, events.FactModelAnswered, events.FactCompleted}
	for _, id := range ids {
		if got := r.kinds(id); !slices.Equal(got, want) {
			t.Errorf("run %s: %v", id, got)
		}
		if n := m.count(id); n != 2 {
			t.Errorf("run %s: %d model calls, want 2", id, n)
		}
	}
	if n := r.count(`SELECT coalesce(sum(attempts), 0) + (SELECT count(*) FROM runner.pending) + (SELECT count(*) FROM runner.runs WHERE claim_worker IS NOT NULL) FROM runner.v_runs`); n != 0 {
		t.Errorf("%d takeovers, things to wait for and claims are left", n)
	}
}

// deliver gives a worker a command as its inbox would.
func (r *rig) deliver(w *worker, id events.RunID, what string) {
	r.t.Helper()
	c := events.Command{ID: fmt.Sprintf("%s-%s", what, id), RunID: id, Principal: "op"}
	data := mustMarshal(r.t, c)
	m := events.Message{Subject: events.RunSubject(id, what), ID: "command:" + c.ID, Type: events.TypeCommandRun, Namespace: "default", Data: data}
	if err := w.Handle(r.t.Context(), events.Received{Message: m, Stream: events.StreamRuns, StreamSeq: 1, Delivered: 1}); err != nil {
		r.t.Errorf("%s: %v", what, err)
	}
}

// racing lets something happen just before the commit of each answer.
type racing struct {
	runner.Store
	before func()
}

func (s racing) Commit(ctx context.Context, c runner.Commit) (int64, time.Time, error) {
	for _, f := range c.Facts {
		if f.Kind == events.FactModelAnswered {
			s.before()
		}
	}
	return s.Store.Commit(ctx, c)
}

// Another worker commits a pause, a cancel with its end, or both between the
// reading and the commit of an answer: decided again, the answer is kept with
// its cost and none of its calls is sent.
func TestCaseC13_RebasedAnswerSendsNoCall(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		commands []string
		status   string
		kept     string
	}{
		"pause":               {[]string{events.RunPause}, events.StatusPaused, events.FactModelAnswered},
		"cancel and end":      {[]string{events.RunCancel}, events.StatusCancelled, events.FactLateResult},
		"pause, then the end": {[]string{events.RunPause, events.RunCancel}, events.StatusCancelled, events.FactLateResult},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			other := r.worker(&script{answer: func(context.Context, runner.Request, int) (runner.Answer, error) {
				return runner.Answer{}, errors.New("not mine")
			}})
			_ = other.inbox.Stop(t.Context()) // it takes what it is given and nothing else
			calls := r.tools(`1`)
			id := events.NewRunID()
			var once sync.Once
			r.wrap = func(s runner.Store) runner.Store {
				return racing{s, func() {
					once.Do(func() {
						for _, what := range tc.commands {
							r.deliver(other, id, what)
						}
					})
				}}
			}
			m := &script{answer: looksOnce}
			r.worker(m)
			r.startAs(id, events.KindAgent, "clerk", `{}`)
			r.eventually("the answer is kept", func() bool { k := r.kinds(id); return len(k) > 2 && k[len(k)-1] == tc.kept }, func() string { return r.journalText(id) })
			r.drained()
			if got := r.status(id); got != tc.status || len(calls.all()) != 0 {
				t.Errorf("the run is %s and %d calls were sent, want %s and none", got, len(calls.all()), tc.status)
			}
			rows := r.journal(id)
			if last := string(rows[len(rows)-1].Data); !strings.Contains(last, `"input_tokens":10`) {
				t.Errorf("the cost is not kept: %s", last)
			}
			if tc.status == events.StatusPaused {
				r.command(id, events.RunResume, events.Command{})
				r.reaches(id, events.StatusCompleted)
				if n, sent := m.count(id), len(calls.all()); n != 2 || sent != 1 {
					t.Errorf("%d model and %d tool calls after the resume, want 2 and 1", n, sent)
				}
			}
			r.consistent(id)
		})
	}
}

// A cancel at each moment of a run: nothing is called afterwards, the outcome of
// what was sent is recorded, and the end never changes again.
func TestCaseC13_CancelAtEachMoment(t *testing.T) {
	r := newRig(t)
	thinking, release := make(chan struct{}), make(chan struct{})
	m := &script{answer: func(_ context.Context, q runner.Request, _ int) (runner.Answer, error) {
		if len(q.Entries) == 1 && strings.Contains(q.Entries[0].User, "slow") {
			close(thinking)
			<-release
		}
		return looksOnce(nil, q, 0)
	}}
	w := r.worker(m, func(c *runner.Config) { c.ModelSlots = 1 })
	calls := r.tools("")
	wantEnd := func(id events.RunID, models, tools int, kinds ...string) {
		t.Helper()
		r.reaches(id, events.StatusCancelled)
		r.drained()
		sent := 0
		for _, c := range calls.all() {
			if c.RunID == id {
				sent++
			}
		}
		if got := m.count(id); got != models || sent != tools {
			t.Errorf("%d model calls and %d tool calls, want %d and %d", got, sent, models, tools)
		}
		if got := r.kinds(id); !slices.Equal(got, kinds) {
			t.Errorf("journal %v, want %v", got, kinds)
		}
		if got := r.status(id); got != events.StatusCancelled {
			t.Errorf("the end became %s", got)
		}
		r.consistent(id)
	}

	// While its tool acts, which then succeeds.
	acting := r.start(events.KindAgent, "clerk", `{}`)
	r.reaches(acting, events.StatusWaiting)
	r.eventually("the call is out", func() bool { return len(calls.all()) == 1 }, func() string { return r.journalText(acting) })
	r.command(acting, events.RunCancel, events.Command{})
	r.reaches(acting, events.StatusCancelling)
	r.command(acting, events.RunCancel, events.Command{ID: "twice"})
	r.eventually("the second is recorded", func() bool { return len(r.kinds(acting)) == 4 }, func() string { return r.journalText(acting) })
	r.finish(calls.all()[0], events.CallSucceeded, `{"order":7}`)
	wantEnd(acting, 1, 1, events.FactStarted, events.FactModelAnswered, events.FactCancelRequested, events.FactLateResult, events.FactToolCompleted, events.FactCancelled)
	if row := r.journal(acting)[4]; !strings.Contains(string(row.Data), `{"order":7}`) {
		t.Errorf("the true outcome is not recorded: %s", row.Data)
	}

	// While it waits for the one slot: it never gets one.
	slow := r.start(events.KindAgent, "clerk", `"slow"`)
	<-thinking
	queued := r.start(events.KindAgent, "clerk", `{}`)
	r.reaches(queued, events.StatusRunning)
	r.command(queued, events.RunCancel, events.Command{})
	r.reaches(queued, events.StatusCancelled)
	close(release)
	r.reaches(slow, events.StatusWaiting)
	wantEnd(queued, 0, 0, events.FactStarted, events.FactCancelRequested, events.FactCancelled)

	// Between the claim and the call: the worker looks again before it asks.
	claimed := events.NewRunID()
	defer arm(t, fmt.Sprintf("runner.published[%s]=sleep:1s", claimed))()
	other := r.worker(m)
	_ = other.inbox.Stop(t.Context())
	r.startAs(claimed, events.KindAgent, "clerk", `{}`)
	r.eventually("the claim is taken", func() bool {
		return r.count(`SELECT count(*) FROM runner.runs WHERE claim_worker = '`+w.name+`' AND run_id = '`+string(claimed)+`'`) == 1
	}, func() string { return r.status(claimed) })
	r.deliver(other, claimed, events.RunCancel)
	wantEnd(claimed, 0, 0, events.FactStarted, events.FactCancelRequested, events.FactCancelled)

	// Before its start arrived: the cancel waits for it.
	early := events.NewRunID()
	c := events.Command{ID: "early", RunID: early, Principal: "op"}
	m0 := events.Message{Subject: events.RunSubject(early, events.RunCancel), ID: "command:early", Type: events.TypeCommandRun, Namespace: "default", Data: mustMarshal(t, c)}
	if wait, ok := fault.Wait(w.Handle(t.Context(), events.Received{Message: m0})); !ok || wait > 5*time.Second {
		t.Errorf("an early cancel comes back after %s (%v)", wait, ok)
	}

	// After the end.
	for _, call := range calls.all() {
		if call.RunID == slow {
			r.finish(call, events.CallSucceeded, `1`)
		}
	}
	r.reaches(slow, events.StatusCompleted)
	r.command(slow, events.RunCancel, events.Command{})
	r.eventually("the late cancel is recorded", func() bool { k := r.kinds(slow); return k[len(k)-1] == events.FactLateResult }, func() string { return r.journalText(slow) })
	if got := r.status(slow); got != events.StatusCompleted {
		t.Errorf("a completed run became %s", got)
	}
}
