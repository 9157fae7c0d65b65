package runner_test

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/bustest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// Three NATS servers with a copy of every stream on each. While runs keep coming, all
// leaders of streams and consumers step down, the runner's consumer is deleted, and
// the node that leads RUNS is lost and comes back: after each, runs end again in less
// than 30 s with the same two runners, and in the end nothing is lost and nothing was
// done twice. HOLDFAST_LAB_LONG=1 steps down 20 times and loses each node in turn.
func TestCaseC08_ClusterLosesItsLeaders(t *testing.T) {
	t.Parallel()
	cluster := bustest.NewCluster(t)
	r := newRigOn(t, cluster.Connect)
	m := &script{answer: func(ctx context.Context, q runner.Request, n int) (runner.Answer, error) {
		time.Sleep(20 * time.Millisecond)
		return lookThenChange(ctx, q, n)
	}}
	r.worker(m, func(c *runner.Config) { c.DoctorEvery = time.Second })
	r.worker(m, func(c *runner.Config) { c.DoctorEvery = time.Second })
	calls := r.tools(`1`)
	r.approvals(events.Approve)
	operator := cluster.Operator()

	// Runs keep coming: one every 100 ms, for as long as a message can be stored.
	var mu sync.Mutex
	var ids []events.RunID
	begin := func() events.RunID {
		id := r.start(events.KindAgent, "clerk", `{}`)
		mu.Lock()
		defer mu.Unlock()
		ids = append(ids, id)
		return id
	}
	flowing, stop := context.WithCancel(t.Context())
	defer stop()
	var flow sync.WaitGroup
	flow.Go(func() {
		for flowing.Err() == nil {
			begin()
			select {
			case <-flowing.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	within := func(what string) {
		t.Helper()
		began := time.Now()
		id := begin()
		for r.status(id) != events.StatusCompleted {
			if time.Since(began) > 30*time.Second {
				t.Fatalf("30 s after %s a new run is %s\n%s", what, r.status(id), r.journalText(id))
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Logf("a run that began after %s ended %s later", what, time.Since(began).Round(10*time.Millisecond))
	}
	within("the set-up")
	rounds, lost := 2, []int{-1}
	if os.Getenv("HOLDFAST_LAB_LONG") != "" {
		rounds, lost = 20, []int{0, 1, 2}
	}
	for range rounds {
		stepped := 0
		for _, stream := range []string{events.StreamRuns, events.StreamTools, events.StreamApprovals, events.StreamEvents} {
			stepped += operator.StepDown(stream)
		}
		if stepped == 0 {
			t.Error("no leader stepped down")
		}
		within("the leaders had stepped down")
	}
	if err := operator.Forget(events.StreamRuns, events.ConsumerRunner); err != nil {
		t.Fatal(err)
	}
	within("the runner's consumer was deleted")
	for _, node := range lost {
		for node < 0 {
			node = operator.Leader(events.StreamRuns)
		}
		cluster.Kill(node)
		within("a node was lost")
		cluster.Start(node)
		within("it came back")
		for deadline := time.Now().Add(30 * time.Second); !operator.Whole(events.StreamRuns); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the node that came back has not caught up")
			}
		}
	}
	stop()
	flow.Wait()
	for _, id := range ids {
		for deadline := time.Now().Add(30 * time.Second); r.status(id) != events.StatusCompleted; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("run %s is %s\n%s", id, r.status(id), r.journalText(id))
			}
		}
		if n := m.count(id); n != 3 {
			t.Errorf("run %s: %d model calls, want 3", id, n)
		}
	}
	sent := map[events.RunID][]events.CallID{}
	for _, c := range calls.all() {
		if !slices.Contains(sent[c.RunID], c.CallID) {
			sent[c.RunID] = append(sent[c.RunID], c.CallID)
		}
	}
	for _, id := range ids {
		if n := len(sent[id]); n != 2 {
			t.Errorf("run %s made %d calls, want 2", id, n)
		}
	}
	if n := r.count(`SELECT coalesce(sum(attempts), 0) FROM runner.v_runs`); n != 0 {
		t.Errorf("%d takeovers of living workers", n)
	}
	t.Logf("%d runs", len(ids))
	r.consistent(ids...)
}
