package runner_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// A run's clocks come apart by five minutes while its model answers, in either
// direction: it is not taken over and nothing is asked twice.
func TestCaseC14_AClockStepsDuringARun(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]time.Duration{"the database's back": -5 * time.Minute, "the runners' back": 5 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			forward := r.db.Clock(t)
			asked, release := make(chan struct{}), make(chan struct{})
			var once sync.Once
			m := &script{answer: func(ctx context.Context, q runner.Request, n int) (runner.Answer, error) {
				once.Do(func() {
					close(asked)
					select {
					case <-release:
					case <-ctx.Done():
					}
				})
				return looksOnce(nil, q, n)
			}}
			r.worker(m)
			r.worker(m)
			r.tools(`1`)
			id := r.start(events.KindAgent, "clerk", `{}`)
			<-asked
			forward(by)
			// Both must be fresh by the new time, which is when one could take over.
			r.eventually("both are fresh", func() bool {
				return r.count(`SELECT count(*) FROM runner.workers WHERE fresh_since BETWEEN moved.clock_timestamp() - interval '1 min' AND moved.clock_timestamp() - interval '2 s' AND beat > moved.clock_timestamp() - interval '1 s'`) == 2
			}, func() string { return r.journalText(id) })
			if n := m.count(id); n != 1 {
				t.Fatalf("%d model calls after the step, want 1", n)
			}
			close(release)
			r.reaches(id, events.StatusCompleted)
			if n := m.count(id); n != 2 {
				t.Errorf("%d model calls, want 2", n)
			}
			if n := r.count(`SELECT sum(attempts) FROM runner.v_runs`); n != 0 {
				t.Errorf("%d takeovers of living workers", n)
			}

			r.consistent(id)
		})
	}
}

// How long a message for a run without a row is kept is not decided by the clock of
// the runner: one that is 45 minutes ahead of the others lets it wait for its start.
func TestCaseC14_AnEarlyMessageIsJudgedByTheDatabase(t *testing.T) {
	r := newRig(t)
	forward := r.db.Clock(t)
	w := r.worker(&script{answer: looksOnce})
	forward(-45 * time.Minute)
	fresh := events.NewRunID()
	id := events.RunID(fmt.Sprintf("%s%s", hexTime(time.Now().Add(-45*time.Minute)), string(fresh)[13:]))
	if age := time.Since(id.Time()); age < 44*time.Minute {
		t.Fatalf("the id is %s old", age)
	}
	c := events.Command{ID: "early", RunID: id, Principal: "op"}
	m := events.Message{Subject: events.RunSubject(id, events.RunCancel), ID: "command:early", Type: events.TypeCommandRun, Namespace: "default", Data: mustMarshal(t, c)}
	err := w.Handle(t.Context(), events.Received{Message: m})
	if wait, ok := fault.Wait(err); !ok || wait > 5*time.Second {
		t.Errorf("the message is not kept: %v", err)
	}
	forward(40 * time.Minute)
	err = w.Handle(t.Context(), events.Received{Message: m})
	if code, ok := fault.TerminalCode(err); !ok || code != "unknown_run" {
		t.Errorf("after 40 minutes without a start: %v", err)
	}
}

// hexTime is how an id made at that time begins.
func hexTime(at time.Time) string {
	s := fmt.Sprintf("%012x", at.UnixMilli())
	return s[:8] + "-" + s[8:]
}
