package e2e

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// TestStop asks processes to stop, as a deploy does.
func TestStop(t *testing.T) {
	t.Parallel()
	d := deploy(t, fresh(t))
	for _, grace := range []string{"1s", "20s"} { // the call outlasts both
		for _, name := range []string{"runner-1", "runner-2"} {
			if p := d.live[name]; p != nil {
				p.term(t)
			}
			d.plan(name, "runner", "--shutdown-grace", grace)
		}
		d.start("runner-1", "runner-2")
		t.Run("a runner in a model call hands it over with a grace of "+grace, func(t *testing.T) { stopRunner(t, d, grace) })
	}
	t.Run("every service in turn under load", func(t *testing.T) { stopEverythingInTurn(t, d) })
}

// stopRunner stops the runner that waits for the model. The call is made again
// by the other one, at once: nobody has to be found dead first. What was handed over
// is a clean end.
func stopRunner(t *testing.T, d *deployment, grace string) {
	j := job{Job: "stop-runner-" + grace, Do: []string{"read", "pay"}}
	h := d.out.hold(t, j.Job, 1)
	id := d.startJob(t, j)
	h.wait(t)
	var victim string
	for name := range d.claimed(t, []events.RunID{id}) {
		victim = name
	}
	before := d.runOf(t, id, events.StatusRunning).Seq
	d.process(victim).term(t)
	exit := time.Now()
	again := h.wait(t)
	if late := again.Arrived.Sub(exit); late > 900*time.Millisecond {
		t.Errorf("the model was asked again %s after the exit, want well under a second", late)
	}
	h.release()
	journal := d.finished(t, id, j, 1)
	if next := journal[before]; next.Kind != events.FactModelAnswered || d.runnerOf(t, next.Worker) == victim {
		t.Errorf("run %s went on with %s by %s", id, next.Kind, next.Worker)
	}
	d.start(victim)
}

// stopEverythingInTurn starts errands all the time, and says yes to each, while
// one process after the other is stopped and started again, NATS as well.
func stopEverythingInTurn(t *testing.T, d *deployment) {
	d.out.think(150 * time.Millisecond) // so that every stop meets runs in flight
	stop := make(chan struct{})
	var load sync.WaitGroup
	var mu sync.Mutex
	started := map[events.RunID]job{}
	refused := 0
	var answered atomic.Int64
	load.Go(func() {
		for i := 0; ; {
			select {
			case <-stop:
				return
			case <-time.After(30 * time.Millisecond):
			}
			mu.Lock()
			open := int64(len(started)) - answered.Load()
			mu.Unlock()
			if open >= 40 {
				continue // enough are in flight, however slow the machine is
			}
			i++
			j := job{Job: fmt.Sprintf("stop-load-%d", i), Do: []string{"pay", "order", "send"}}
			// A sender that gets no answer sends again; the key makes it one run.
			for {
				s, err := d.operator.Start(t.Context(), j.request())
				mu.Lock()
				if err == nil {
					started[s.RunID] = j
					mu.Unlock()
					break
				}
				refused++
				mu.Unlock()
				if t.Context().Err() != nil {
					return
				}
			}
		}
	})
	over := make(chan struct{})
	var deciding sync.WaitGroup
	deciding.Go(func() {
		seen := map[events.ApprovalID]bool{}
		for {
			page, err := d.approver.Approvals(t.Context(), client.ApprovalFilter{Kind: events.ApprovalAction, State: "pending"}, client.PageRequest{Limit: 500})
			for _, a := range page.Items {
				seen[a.ApprovalID] = true
			}
			if err == nil {
				answered.Store(int64(len(seen) - len(page.Items)))
			}
			for _, a := range page.Items { // one whose answer is lost is still pending, or decided
				_, _ = d.approver.Decide(t.Context(), a.ApprovalID, client.Decision{Decision: "approve"})
			}
			select {
			case <-over:
				return
			case <-t.Context().Done():
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	defer deciding.Wait()
	defer close(over)
	for _, name := range []string{"runner-1", "tools", "trigger", "approvals", "console", "runner-2", "nats", "edge"} {
		mu.Lock()
		from := len(started)
		mu.Unlock()
		d.process(name).term(t)
		d.start(name)
		until(t, "starts after "+name+" came back", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(started) >= from+5
		})
	}
	close(stop)
	load.Wait()
	lostCalls := 0
	for id, j := range started {
		d.runOf(t, id, events.StatusCompleted)
		// A stop may cost the call in flight, no more: what is recorded is not asked
		// for again.
		extra := d.out.model.Count(string(id)).Requests - len(j.Do) - 1
		if extra < 0 || extra > 2 {
			t.Errorf("the model was asked %d times more than it answered for %s", extra, j.Job)
		}
		lostCalls += extra
		d.finished(t, id, j, extra)
		for _, act := range j.Do {
			if n := len(d.out.of(act, j.Job)); n != 1 {
				t.Errorf("%s of %s arrived %d times", act, j.Job, n)
			}
		}
	}
	if n := d.count(t, `SELECT count(*) FROM runner.v_runs WHERE input->>'job' LIKE 'stop-load-%'`); n != len(started) {
		t.Errorf("%d runs for %d accepted starts", n, len(started))
	}
	if n := d.count(t, `SELECT count(*) FROM tools.v_effects WHERE state <> 'succeeded'`); n != 0 {
		t.Errorf("%d effects did not succeed", n)
	}
	t.Logf("%d runs through 8 stops, %d refused starts, %d model calls made again", len(started), refused, lostCalls)
}
