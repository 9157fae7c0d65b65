package runner_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// heldStarts is a store in which the first row of some agents' runs is not written
// before the test says so.
type heldStarts struct {
	runner.Store
	held    map[string]*atomic.Int64 // by agent: how many are at it
	release chan struct{}
}

func (h *heldStarts) Create(ctx context.Context, c runner.Commit) (int64, time.Time, error) {
	if n := h.held[c.After.Started.Ref.Name]; n != nil {
		n.Add(1)
		select {
		case <-h.release:
		case <-ctx.Done():
		}
	}
	return h.Store.Create(ctx, c)
}

// While a process has work of an interactive run, the messages of batch runs are
// worked on one after the other, and those of other interactive runs at once.
func TestGate_BatchRunsWaitForInteractiveOnes(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, neighbours)
	var loud, nightly atomic.Int64
	release := make(chan struct{})
	r.wrap = func(s runner.Store) runner.Store {
		return &heldStarts{Store: s, held: map[string]*atomic.Int64{"loud": &loud, "nightly": &nightly}, release: release}
	}
	r.worker(&script{answer: func(context.Context, runner.Request, int) (runner.Answer, error) { return said("done"), nil }})
	var ids []events.RunID
	start := func(agent string, at *atomic.Int64) {
		t.Helper()
		ids = append(ids, r.start(events.KindAgent, agent, `{}`))
		r.eventually("a start of "+agent+" is worked on", func() bool { return at.Load() == 1 }, func() string { return fmt.Sprint(at.Load()) })
	}
	start("loud", &loud)
	start("nightly", &nightly)
	ids = append(ids, r.start(events.KindAgent, "nightly", `{}`))
	r.eventually("the third start has come", func() bool {
		lag, err := r.bus.Lag(t.Context(), events.StreamRuns, events.ConsumerRunner)
		return err == nil && lag.Pending == 0 && lag.AckPending == 3
	}, func() string { return "it has not" })
	r.reaches(r.start(events.KindAgent, "quiet", `{}`), events.StatusCompleted)
	if n := nightly.Load(); n != 1 {
		t.Errorf("%d starts of batch runs were worked on beside an interactive one, want 1", n)
	}
	close(release)
	for _, id := range ids {
		r.reaches(id, events.StatusCompleted)
	}
}

func TestGate_ItemsOfAListAreBatch(t *testing.T) {
	r := newRig(t)
	r.worker(&script{answer: func(context.Context, runner.Request, int) (runner.Answer, error) { return said("done"), nil }})
	id := r.start(events.KindFlow, "round", `{"items":[{"n":1},{"n":2}]}`)
	r.reaches(id, events.StatusCompleted)
	for item, want := range map[string]string{"each/0": events.PriorityBatch, "each/1": events.PriorityBatch, "sum/0": events.PriorityInteractive} {
		var got string
		err := r.sql.QueryRow(t.Context(), `SELECT priority FROM runner.runs WHERE parent_run_id = $1 AND parent_item = $2`, string(id), item).Scan(&got)
		if err != nil || got != want {
			t.Errorf("%s has the priority %q (%v), want %q", item, got, err, want)
		}
	}
}

// A start whose run turns out to be batch work is begun all the same, with what the
// message said.
func TestGate_AStartThatTurnsOutToBeBatch(t *testing.T) {
	r := newRig(t)
	r.worker(&script{answer: lookThenChange})
	r.approvals("")
	r.tools(`{}`)
	r.reaches(r.start(events.KindAgent, "clerk", `{}`), events.StatusWaiting)
	id := events.NewRunID()
	digest, err := r.defs.CurrentDigest(t.Context(), "", events.KindAgent, "clerk")
	if err != nil {
		t.Fatal(err)
	}
	r.publish(events.RunSubject(id, events.RunStart), "start:"+string(id), events.TypeStartRun, events.StartRun{
		RunID: id, Namespace: "default", Ref: events.Ref{Kind: events.KindAgent, Name: "clerk", Digest: digest}, Input: []byte(`{}`),
		Trigger: events.Trigger{Kind: "schedule"}, Principal: "tester", AcceptedAt: time.Now().UTC(),
	})
	r.reaches(id, events.StatusWaiting)
}
