package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// failing is a Publisher that fails to send rows of some kinds, before or after it has
// sent them.
type failing struct {
	runner.Publisher
	*failures
}

type failures struct {
	mu    sync.Mutex
	sent  bool           // they are sent, and it is not confirmed
	times map[string]int // how often rows of a kind still fail
	seen  int
}

func (f failing) PublishAll(ctx context.Context, all []events.Message) []error {
	f.mu.Lock()
	fails := false
	for _, m := range all {
		var e events.RunEvent
		if m.Type == events.TypeRunEvent && json.Unmarshal(m.Data, &e) == nil && f.times[e.Kind] > 0 {
			f.times[e.Kind]--
			f.seen++
			fails = true
		}
	}
	f.mu.Unlock()
	errs := make([]error, len(all))
	if !fails || f.sent {
		errs = f.Publisher.PublishAll(ctx, all)
	}
	if fails {
		errs[len(errs)-1] = errors.New("the line is cut")
	}
	return errs
}

// failSends makes the first sends of rows of each kind fail, whichever worker makes them.
func (r *rig) failSends(sent bool, times int, kinds ...string) *failures {
	f := &failures{sent: sent, times: map[string]int{}}
	for _, k := range kinds {
		f.times[k] = times
	}
	r.sends = func(p runner.Publisher) runner.Publisher { return failing{p, f} }
	return f
}

func (f *failures) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen
}

// end lets everything through again.
func (f *failures) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.times)
}

// A worker cannot send what it has committed, and its commit has the claim for the next
// model call. It lives on, so nobody can take the claim away: it lets go of it, and of
// what is reserved for the call, and whoever gets the message makes the call.
func TestRecovery_AFailedSendKeepsNoClaim(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{events.FactStarted, events.FactModelAnswered} {
		t.Run(kind, func(t *testing.T) {
			r := newRig(t)
			failed := r.failSends(false, 1000, kind)
			m := &script{answer: func(_ context.Context, q runner.Request, n int) (runner.Answer, error) {
				if n == 1 {
					return asks(call("nothing_like_it", `{}`)), nil // answered at once: the next call is owed with it
				}
				return said("done"), nil
			}}
			r.worker(m)
			id := r.start(events.KindAgent, "saver", `{}`)
			r.eventually("a send has failed", func() bool { return failed.count() > 0 }, func() string { return r.journalText(id) })
			r.eventually("nobody has the claim", func() bool { return r.claimed(id) == "" }, func() string { return r.claimed(id) })
			if status := r.status(id); status != events.StatusRunning {
				t.Errorf("it is %s", status)
			}
			failed.end()
			r.reaches(id, events.StatusCompleted)
			if n := m.count(id); n != 2 {
				t.Errorf("%d model calls, want 2", n)
			}
			r.consistent(id)
			var used, reserved int64
			if err := r.sql.QueryRow(t.Context(), `SELECT used, reserved FROM runner.pools WHERE pool = 'night'`).Scan(&used, &reserved); err != nil || used != 30 || reserved != 0 {
				t.Errorf("the pool has %d used and %d reserved (%v), want the 30 of two answers", used, reserved, err)
			}
		})
	}
}

// What a step's answer said was committed and not sent: the step comes again, and says
// it again.
func TestRecovery_AStepSaysAgainWhatItsAnswerSaid(t *testing.T) {
	r := newRig(t)
	failed := r.failSends(false, 1, events.FactModelAnswered)
	hold := make(chan struct{})
	m := &script{answer: func(ctx context.Context, q runner.Request, n int) (runner.Answer, error) {
		if q.Entries[0].User != `"second"` { // it has the only slot, and gives it back without an answer
			<-hold
			return runner.Answer{}, &runner.ModelError{Code: "overloaded", Retry: true, RetryAfter: 9 * time.Minute, Err: errors.New("later")}
		}
		if n == 1 {
			return asks(call("look", `{"n":1}`)), nil
		}
		return said("done"), nil
	}}
	r.tools(`1`)
	r.worker(m, func(c *runner.Config) { c.ModelSlots = 1 })
	first := r.start(events.KindAgent, "clerk", `"first"`)
	r.eventually("the slot is taken", func() bool { return m.count(first) == 1 }, func() string { return r.journalText(first) })
	id := r.start(events.KindAgent, "clerk", `"second"`)
	r.has(id, events.FactStarted)
	close(hold)
	r.reaches(id, events.StatusCompleted)
	if cause := r.journal(id)[1].Cause; failed.count() != 1 || !strings.HasPrefix(cause, "step:") || m.count(id) != 2 {
		t.Errorf("%d sends failed, the answer came of %s, %d model calls; want 1, a step, 2", failed.count(), cause, m.count(id))
	}
	r.consistent(id)
}
