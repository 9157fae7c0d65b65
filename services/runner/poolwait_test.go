package runner_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

const narrow = `
apiVersion: holdfast/v1
kind: Budget
metadata: {name: night}
spec: {limit: 1000}
`

func (r *rig) waits() (n int) {
	r.t.Helper()
	if err := r.sql.QueryRow(r.t.Context(), `SELECT count(*) FROM runner.pool_waits`).Scan(&n); err != nil {
		r.t.Fatal(err)
	}
	return n
}

// Twenty runs share a pool that has room for one call at a time. While they
// wait no message and no slot is held; each goes on when the one before has
// settled, in the order in which they came.
func TestPoolWait_QueuesInOrderAndHoldsNothing(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, narrow)
	hold := make(chan struct{})
	var mu sync.Mutex
	var order []events.RunID
	m := &script{answer: func(ctx context.Context, q runner.Request, n int) (runner.Answer, error) {
		mu.Lock()
		order = append(order, q.RunID)
		mu.Unlock()
		select {
		case <-hold:
			return said("saved"), nil
		case <-ctx.Done():
			return runner.Answer{}, ctx.Err()
		}
	}}
	workers := []*worker{r.worker(m), r.worker(m)}
	var ids []events.RunID
	for i := range 20 {
		ids = append(ids, r.start(events.KindAgent, "saver", `{}`))
		r.eventually(fmt.Sprintf("run %d calls or waits", i), func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(order) == 1 && r.waits() == i
		}, func() string { return fmt.Sprint(r.waits(), order) })
	}
	r.eventually("no message is held but the one of the call", func() bool {
		fast, err := r.bus.Lag(t.Context(), events.StreamRuns, events.ConsumerRunner)
		steps, err2 := r.bus.Lag(t.Context(), events.StreamRuns, events.ConsumerRunnerStep)
		return err == nil && err2 == nil && fast.Pending+steps.Pending == 0 && fast.AckPending+steps.AckPending == 1
	}, func() string {
		fast, _ := r.bus.Lag(t.Context(), events.StreamRuns, events.ConsumerRunner)
		steps, _ := r.bus.Lag(t.Context(), events.StreamRuns, events.ConsumerRunnerStep)
		return fmt.Sprint(fast, steps)
	})
	r.eventually("the slots are free but the one of the call", func() bool {
		free := 0
		for _, w := range workers {
			taken := 0
			for w.Slots().TryAcquire() {
				taken++
			}
			for range taken {
				w.Slots().Release()
			}
			free += taken
		}
		return free == 31
	}, func() string { return "fewer" })
	began := time.Now()
	close(hold)
	for _, id := range ids {
		r.reaches(id, events.StatusCompleted)
	}
	// Woken by the clock alone they would take a second each.
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("19 hand-overs took %s", took)
	}
	if !slices.Equal(order, ids) {
		t.Errorf("calls in the order %v, runs came as %v", order, ids)
	}
	if _, used, reserved := r.pool(); used != 20*15 || reserved != 0 || r.waits() != 0 {
		t.Errorf("used %d, reserved %d, %d wait after all have ended", used, reserved, r.waits())
	}
}

// A run that is cancelled while it waits leaves the queue, and a raise lets the
// others go on at once.
func TestPoolWait_CancelLeavesAndARaiseWakes(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, narrow)
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	r.worker(&script{answer: func(ctx context.Context, q runner.Request, n int) (runner.Answer, error) {
		select {
		case <-hold:
		case <-ctx.Done():
		}
		return said("saved"), nil
	}})
	first := r.start(events.KindAgent, "saver", `{}`)
	r.reaches(first, events.StatusRunning)
	second, third := r.start(events.KindAgent, "saver", `{}`), r.start(events.KindAgent, "saver", `{}`)
	r.eventually("two wait", func() bool { return r.waits() == 2 }, func() string { return fmt.Sprint(r.waits()) })
	r.command(second, events.RunCancel, events.Command{})
	r.reaches(second, events.StatusCancelled)
	if n := r.waits(); n != 1 {
		t.Errorf("%d wait after the cancel, want 1", n)
	}
	r.command(third, events.RunRaiseBudget, events.Command{Budget: "pool:night", To: 100_000})
	r.eventually("the last got its booking", func() bool { _, _, reserved := r.pool(); return r.waits() == 0 && reserved > 1000 }, func() string { return fmt.Sprint(r.waits()) })
}
