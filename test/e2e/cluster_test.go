package e2e

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/bustest"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// Every service is a process, on three NATS servers with a copy of every stream on each.
// While jobs keep coming, all leaders step down, the runner's consumer is deleted, and the
// server that leads RUNS is lost and comes back: each time a new job is done within 30 s
// by the processes that are there, and in the end each was done once. HOLDFAST_LAB_LONG=1
// steps down 20 times and loses each server in turn.
func TestCaseC08_ServicesOnAClusterLoseItsLeaders(t *testing.T) {
	t.Parallel()
	cluster := bustest.NewCluster(t)
	d := deployOn(t, servers{database: fresh(t), nats: cluster.URL().Reveal()}).runners(2)
	operator := cluster.Operator()
	started := map[events.RunID]job{}
	var mu sync.Mutex
	n := 0
	begin := func() (events.RunID, job) {
		mu.Lock()
		n++
		j := job{Job: fmt.Sprint("cluster-", n), Do: []string{"pay"}}
		mu.Unlock()
		id := d.startJob(t, j)
		mu.Lock()
		defer mu.Unlock()
		started[id] = j
		return id, j
	}
	flowing, stop := context.WithCancel(t.Context())
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
	t.Cleanup(flow.Wait)
	t.Cleanup(stop)
	within := func(what string) {
		t.Helper()
		began := time.Now()
		id, _ := begin()
		d.runOf(t, id, events.StatusCompleted) // it is waited for 30 s
		t.Logf("a job that began after %s was done %s later", what, time.Since(began).Round(10*time.Millisecond))
	}
	within("the set-up")
	rounds, lost := 1, []int{-1}
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
		until(t, "a leader", func() bool {
			if node < 0 {
				node = operator.Leader(events.StreamRuns)
			}
			return node >= 0
		})
		cluster.Kill(node)
		within("a server was lost")
		cluster.Start(node)
		within("it came back")
		if len(lost) > 1 {
			until(t, "it to catch up", func() bool { return operator.Whole(events.StreamRuns) })
		}
	}
	stop()
	flow.Wait()
	for id, j := range started {
		d.finished(t, id, j, 0)
	}
	if n := d.count(t, `SELECT coalesce(sum(attempts), 0) FROM runner.v_runs`); n != 0 {
		t.Errorf("%d takeovers of living runners", n)
	}
	t.Logf("%d jobs", len(started))
}
