package runner_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

const neighbours = `
apiVersion: holdfast/v1
kind: Agent
metadata: {name: loud}
spec: {model: scripted, instructions: loud}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: quiet}
spec: {model: scripted, instructions: quiet}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: nightly}
spec: {model: scripted, instructions: nightly, priority: batch}
`

// gate is a model whose calls end one at a time, when the test says so.
type gate struct {
	r     *rig
	mu    sync.Mutex
	begun []string // instructions, in the order in which calls began
	pass  chan struct{}
}

func (r *rig) gate() *gate { return &gate{r: r, pass: make(chan struct{})} }

func (g *gate) Answer(ctx context.Context, q runner.Request) (runner.Answer, error) {
	g.mu.Lock()
	g.begun = append(g.begun, q.System)
	g.mu.Unlock()
	select {
	case <-g.pass:
		return said("done"), nil
	case <-ctx.Done():
		return runner.Answer{}, ctx.Err()
	}
}

func (g *gate) calls() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.begun)
}

// next ends one call and waits for the one that begins in its place.
func (g *gate) next() string {
	g.r.t.Helper()
	n := len(g.calls())
	g.pass <- struct{}{}
	g.r.eventually("another call begins", func() bool { return len(g.calls()) > n }, func() string { return fmt.Sprint(g.calls()) })
	return g.calls()[n]
}

// owed counts the steps that nobody has begun, as RUNS has them.
func (r *rig) owed() (n uint64) {
	for _, what := range events.StepKinds() {
		lag, err := r.bus.Lag(r.t.Context(), events.StreamRuns, events.StepConsumer(what))
		if err != nil {
			r.t.Fatal(err)
		}
		n += lag.Pending + lag.AckPending
	}
	return n
}

func (r *rig) owe(agent string, n int) (ids []events.RunID) {
	r.t.Helper()
	before := r.owed()
	for range n {
		ids = append(ids, r.start(events.KindAgent, agent, `{}`))
	}
	r.eventually(fmt.Sprintf("%d steps of %s wait", n, agent), func() bool { return r.owed() == before+uint64(n) }, func() string { return fmt.Sprint(r.owed()) })
	return ids
}

// One agent owes a flood of calls and has the only slot; the other's one call
// begins after about one call, not after the flood. Interactive calls go before a
// flood of batch calls in the same way.
func TestLanes_AFloodHoldsNobodyUp(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, neighbours)
	g := r.gate()
	w := r.worker(g, func(c *runner.Config) { c.ModelSlots = 1 })
	r.start(events.KindAgent, "loud", `{}`)
	r.eventually("the slot is taken", func() bool { return len(g.calls()) == 1 }, func() string { return "no call" })
	r.owe("loud", 60)
	r.owe("nightly", 60)
	r.owe("quiet", 1)
	const soon = 4 // of 120 that came earlier
	after := 0
	for ; g.next() != "quiet"; after++ {
		if after > soon {
			t.Fatalf("the quiet agent's call has not begun after %d others: %v", after, g.calls())
		}
	}
	// From here on the loud agent alone is before the batch runs, which get their share.
	var batch int
	for range 24 {
		if g.next() == "nightly" {
			batch++
		}
	}
	if batch != 3 {
		t.Errorf("%d of 24 calls were batch runs', want one in eight: %v", batch, g.calls())
	}
	_ = w
}

// Who goes on with its slot after an answer waits for its turn like the others.
func TestLanes_ALongRunGivesItsSlotUp(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, strings.ReplaceAll(neighbours, "instructions: loud", "instructions: loud, tools: [plan]")+"\n---\n"+`
apiVersion: holdfast/v1
kind: Tool
metadata: {name: plan}
spec: {builtin: plan}
`)
	var mu sync.Mutex
	var begun []string
	started := make(chan struct{}, 1)
	goOn := make(chan struct{})
	m := &script{answer: func(ctx context.Context, q runner.Request, n int) (runner.Answer, error) {
		mu.Lock()
		begun = append(begun, q.System)
		mu.Unlock()
		if q.System == "quiet" || n == 40 {
			return said("done"), nil
		}
		if n == 1 {
			started <- struct{}{}
			select {
			case <-goOn:
			case <-ctx.Done():
				return runner.Answer{}, ctx.Err()
			}
		}
		return asks(runner.ModelCall{Tool: "plan", Args: fmt.Appendf(nil, `{"items":[{"id":"a","title":"part %d"}]}`, n)}), nil
	}}
	r.worker(m, func(c *runner.Config) { c.ModelSlots = 1 })
	long := r.start(events.KindAgent, "loud", `{}`)
	<-started
	r.owe("quiet", 5)
	close(goOn)
	r.reaches(long, events.StatusCompleted)
	mu.Lock()
	defer mu.Unlock()
	if i := slices.Index(begun, "quiet"); i < 0 || i > 6 {
		t.Errorf("the first call of the other agent was number %d: %v", i, begun)
	}
	if got := begun[min(len(begun), 20):]; slices.Contains(got, "quiet") {
		t.Errorf("five short calls waited for most of a run of 40: %v", begun)
	}
}

// A step that an older release published, or publishes beside this one, is in the
// lane of all and is taken; so is a lane's after NATS came back without anything.
func TestLanes_BesideAnOlderRelease(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, neighbours)
	g := r.gate()
	r.worker(g, func(c *runner.Config) { c.ModelSlots = 1 })
	first := r.start(events.KindAgent, "loud", `{}`)
	r.eventually("the slot is taken", func() bool { return len(g.calls()) == 1 }, func() string { return "no call" })
	owed := r.owe("loud", 3)
	step := runner.StepMessage(owed[2], "default", 1, 0)
	if !strings.HasSuffix(step.Subject, ".step") {
		t.Fatalf("an older release's step goes to %s", step.Subject)
	}
	step.MsgID += ":old"
	if err := r.bus.Publish(t.Context(), step); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		g.next()
	}
	close(g.pass)
	for _, id := range append(owed, first) {
		r.reaches(id, events.StatusCompleted)
	}
	r.eventually("every step was taken", func() bool { return r.owed() == 0 }, func() string { return fmt.Sprint(r.owed()) })
	if n := len(g.calls()); n != 4 {
		t.Errorf("%d calls for four runs", n)
	}
}
