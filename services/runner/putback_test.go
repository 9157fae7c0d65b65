package runner_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// muted loses what it refuses to send, as a line to NATS that is silent.
type muted struct {
	runner.Publisher
	refuses func(events.Message) bool
}

func (m muted) Publish(ctx context.Context, x events.Message) error {
	if m.refuses(x) {
		return errors.New("nobody answers")
	}
	return m.Publisher.Publish(ctx, x)
}

// Timers fall due, and then questions about pending work, while nothing can be
// published. They are taken again and again, and when the line is back each run goes on
// within moments, not when the time is over for which a taken one is hidden.
func TestCaseC07_WhatFellDueMeanwhileIsNotHidden(t *testing.T) {
	r := newRig(t)
	var away atomic.Value
	var refused atomic.Int64
	away.Store(events.TypeTimerFired)
	r.sends = func(p runner.Publisher) runner.Publisher {
		return muted{p, func(m events.Message) bool {
			no := m.Type == away.Load()
			if no {
				refused.Add(1)
			}
			return no
		}}
	}
	m := &script{answer: func(_ context.Context, q runner.Request, n int) (runner.Answer, error) {
		switch {
		case n == 1:
			return runner.Answer{}, &runner.ModelError{Code: "overloaded", Retry: true, Err: errors.New("later")}
		case len(q.Entries) == 1:
			return asks(call("look", `{"n":1}`)), nil
		}
		return said("done"), nil
	}}
	r.worker(m, func(c *runner.Config) { c.DoctorEvery = 200 * time.Millisecond })
	const runs = 3
	var seen atomic.Int64
	calls := receive(r, events.StreamTools, events.ToolConsumer("default"), func(c events.CallTool) {
		if seen.Add(1) > runs { // what is asked the first time is lost
			r.finish(c, events.CallSucceeded, `1`)
		}
	})
	var ids []events.RunID
	for range runs {
		ids = append(ids, r.start(events.KindAgent, "clerk", `{}`))
	}
	now := func() string { return r.journalText(ids[0]) }
	r.eventually("every timer is taken twice", func() bool {
		return r.count(`SELECT count(*) FROM runner.timers WHERE tries >= 2`) == runs
	}, now)
	away.Store("")
	r.eventually("every call is out", func() bool { return len(calls.all()) == runs }, now)

	away.Store(events.TypeCallTool)
	refused.Store(0)
	r.exec(`UPDATE runner.pending SET next_nudge = clock_timestamp()`)
	r.eventually("they are asked about again and again", func() bool { return refused.Load() >= 2 }, now)
	away.Store("")
	for _, id := range ids {
		r.reaches(id, events.StatusCompleted)
		if n := m.count(id); n != 3 {
			t.Errorf("run %s: %d model calls, want 3", id, n)
		}
	}
	if n := len(calls.all()); n != 2*runs {
		t.Errorf("%d calls were sent, want each twice", n)
	}
	r.consistent(ids...)
}
