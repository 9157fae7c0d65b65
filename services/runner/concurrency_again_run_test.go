package runner_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// A fork and a retry take a place anew, behind who is there already: neither inherits
// that of the run that it goes on from, and none of them is lost.
func TestConcurrency_ForkAndRetryTakeTheirPlaceAnew(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, documents+under("seller", `{max: 1}`))
	m := newMeter(func(string) bool { return true })
	var asked atomic.Bool // the first call is the last of its run
	r.worker(&script{answer: func(ctx context.Context, q runner.Request, _ int) (runner.Answer, error) {
		if !asked.Swap(true) {
			no := said("no")
			no.StopReason = runner.StopRefusal
			return no, nil
		}
		return m.Answer(ctx, q)
	}})
	failed := r.start(events.KindAgent, "seller", `{}`)
	r.reaches(failed, events.StatusFailed)
	holder := r.start(events.KindAgent, "seller", `{}`)
	r.eventually("it has begun", func() bool { return len(m.order()) == 1 }, func() string { return r.journalText(holder) })

	again := events.NewRunID()
	r.orderFork(events.ForkRun{RunID: again, ID: "retry-" + string(again), From: failed, Retry: true, Principal: "op", AcceptedAt: time.Now().UTC(),
		Ref: events.Ref{Kind: events.KindAgent, Name: "seller"}})
	r.reaches(again, events.StatusQueued)
	fork := events.NewRunID()
	r.orderFork(events.ForkRun{RunID: fork, ID: "fork-" + string(fork), From: holder, At: 1, Principal: "op", AcceptedAt: time.Now().UTC(),
		Ref: events.Ref{Kind: events.KindAgent, Name: "seller"}})
	r.reaches(fork, events.StatusQueued)
	for _, id := range []events.RunID{holder, again, fork} {
		m.pass <- struct{}{}
		r.reaches(id, events.StatusCompleted)
	}
	if want := []events.RunID{holder, again, fork}; !slices.Equal(m.order(), want) {
		t.Errorf("order %v, want %v", m.order(), want)
	}
	if n := m.peak("{}"); n != 1 {
		t.Errorf("%d at once, want 1", n)
	}
	r.eventually("every place is free", func() bool { return r.openSlots() == 0 }, r.slotsText)
}

// A run whose deadline passes in the queue ends without ever having run, and who is
// behind it moves up.
func TestConcurrency_DeadlineInTheQueue(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, documents+under("seller", `{max: 1}`))
	m := newMeter(func(string) bool { return true })
	r.worker(m)
	holder := r.start(events.KindAgent, "seller", `{}`)
	r.eventually("it has begun", func() bool { return len(m.order()) == 1 }, func() string { return r.journalText(holder) })
	hasty := events.NewRunID()
	digest, err := r.defs.CurrentDigest(t.Context(), "", events.KindAgent, "seller")
	if err != nil {
		t.Fatal(err)
	}
	r.publish(events.RunSubject(hasty, events.RunStart), "start:"+string(hasty), events.TypeStartRun, events.StartRun{
		RunID: hasty, Namespace: "default", Ref: events.Ref{Kind: events.KindAgent, Name: "seller", Digest: digest}, Input: json.RawMessage(`{}`),
		Trigger: events.Trigger{Kind: "api"}, AcceptedAt: time.Now().UTC(), Deadline: "1s",
	})
	r.eventually("it has its row", func() bool { return r.status(hasty) != "no row" }, func() string { return "" })
	next := r.start(events.KindAgent, "seller", `{}`)
	r.reaches(next, events.StatusQueued)
	r.reaches(hasty, events.StatusExpired)
	if want := "run_started slots_awaited deadline_passed run_expired"; joined(slices.DeleteFunc(r.kinds(hasty), func(k string) bool { return k == events.FactTimerFired })) != want {
		t.Errorf("the journal is %s, want %s", joined(slices.DeleteFunc(r.kinds(hasty), func(k string) bool { return k == events.FactTimerFired })), want)
	}
	for _, id := range []events.RunID{holder, next} {
		m.pass <- struct{}{}
		r.reaches(id, events.StatusCompleted)
	}
	if want := []events.RunID{holder, next}; !slices.Equal(m.order(), want) {
		t.Errorf("order %v, want %v: the model was asked behind the deadline", m.order(), want)
	}
	r.eventually("every place is free", func() bool { return r.openSlots() == 0 }, r.slotsText)
}
