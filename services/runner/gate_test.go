package runner

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// gateWorld is a gate whose time and rests are the test's.
type gateWorld struct {
	*gate
	t     *testing.T
	clock time.Time
	rests []time.Duration
	over  []func()
}

func newGateWorld(t *testing.T) *gateWorld {
	w := &gateWorld{gate: newGate(), t: t, clock: time.Unix(1000, 0)}
	w.now = func() time.Time { return w.clock }
	w.after = func(d time.Duration, f func()) { w.rests, w.over = append(w.rests, d), append(w.over, f) }
	return w
}

func (w *gateWorld) begin(batch bool) (leave func()) {
	w.t.Helper()
	leave, err := w.enter(w.t.Context(), batch, stageFact)
	if err != nil {
		w.t.Fatal(err)
	}
	return leave
}

// queue lets batch work wait and says when it stands in the queue.
func (w *gateWorld) queue(ctx context.Context, at stage, begun chan<- func()) {
	w.t.Helper()
	n := w.queued()
	go func() {
		if leave, err := w.enter(ctx, true, at); err == nil {
			begun <- leave
		} else {
			close(begun)
		}
	}()
	for deadline := time.Now().Add(10 * time.Second); w.queued() == n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatal("batch work did not have to wait")
		}
	}
}

func (w *gateWorld) queued() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range w.waiting {
		n += len(q)
	}
	return n
}

func TestGate_InteractiveWorkNeverWaits(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t)
	for range batchAtOnce {
		w.begin(true)
	}
	for range 1000 {
		w.begin(false)
	}
}

// Alone, batch work is as wide as ever; beside interactive work it is done one by
// one, and rests as long as it took.
func TestGate_BatchWorkYields(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t)
	var leave []func()
	for range batchAtOnce {
		leave = append(leave, w.begin(true))
	}
	begun := make(chan func(), 1)
	w.queue(t.Context(), stageFact, begun)
	leave[0]()
	(<-begun)()
	for _, l := range leave[1:] {
		l()
	}
	if len(w.rests) != 0 {
		t.Fatalf("it rested %v with nobody else there", w.rests)
	}

	w.begin(false)()
	one := w.begin(true)
	w.queue(t.Context(), stageFact, begun)
	w.clock = w.clock.Add(40 * time.Millisecond)
	one()
	if !slices.Equal(w.rests, []time.Duration{40 * time.Millisecond}) || w.queued() != 1 {
		t.Fatalf("after 40 ms of work it rests %v, %d wait", w.rests, w.queued())
	}
	w.over[0]()
	last := <-begun
	w.clock = w.clock.Add(time.Hour)
	last()
	if n := w.batch; n != 0 {
		t.Errorf("%d places are taken when all is over", n)
	}
}

// What has begun goes before what begins.
func TestGate_FinishesBeforeItBegins(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t)
	w.begin(false)()
	leave := w.begin(true)
	first := make(chan string, 3)
	next := map[stage]string{stageStart: "start", stageFact: "fact", stageAnswer: "answer"}
	for _, at := range []stage{stageStart, stageFact, stageAnswer} {
		begun := make(chan func(), 1)
		w.queue(t.Context(), at, begun)
		go func() { l := <-begun; first <- next[at]; l() }()
	}
	leave()
	var order []string
	for range 3 {
		order = append(order, <-first)
	}
	if !slices.Equal(order, []string{"answer", "fact", "start"}) {
		t.Errorf("it went on with %v", order)
	}
}

// Who gives up while waiting leaves no place taken and no turn unused.
func TestGate_AWaitThatIsGivenUp(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t)
	w.begin(false)()
	leave := w.begin(true)
	ctx, stop := context.WithCancelCause(t.Context())
	gone, begun := make(chan func()), make(chan func(), 1)
	w.queue(ctx, stageFact, gone)
	w.queue(t.Context(), stageFact, begun)
	stop(errors.New("the process stops"))
	<-gone
	leave()
	(<-begun)()
	if n := w.batch; n != 0 || w.queued() != 0 {
		t.Errorf("%d places are taken and %d wait when all is over", n, w.queued())
	}
}

// Whose turn comes in the moment in which he gives up either has it or gives it on.
func TestGate_AWaitThatEndsAsItsTurnComes(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	gone := 0
	for n := range 10 * batchAtOnce { // a place that stayed taken would be missed soon
		leave, err := w.enter(ctx, true, stageFact)
		if err == nil {
			leave()
		} else if gone++; w.queued() != 0 {
			t.Fatalf("at the %d. time it still waits for a turn that it has given up", n)
		}
		if w.batch != 0 {
			t.Fatalf("after the %d. time %d places are taken", n, w.batch)
		}
	}
	if gone == 0 {
		t.Error("nobody gave up; the test proves nothing")
	}
}

// So many starts wait here that handlers are left for others; the rest comes again.
func TestGate_MoreStartsWaitOnTheBus(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t)
	w.begin(false)()
	w.begin(true)
	for range startsWaiting {
		w.queue(t.Context(), stageStart, make(chan func(), 1))
	}
	now, stop := context.WithCancel(t.Context())
	stop() // who is told to come again is told at once
	_, err := w.enter(now, true, stageStart)
	for delivered, want := range map[uint64]time.Duration{1: time.Second, 3: 3 * time.Second, 100: 4 * time.Second} {
		again := comeAgain(err, delivered)
		if wait, ok := fault.Wait(again); !ok || wait != want || !errors.Is(again, fault.ErrTurn) {
			t.Errorf("the next start got %v when it came for the %d. time, want another turn in %s", again, delivered, want)
		}
	}
	w.queue(t.Context(), stageFact, make(chan func(), 1)) // nothing else does
}

// A start of a batch run is told so by its handler.
func TestGate_AStartComesAgainLater(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t)
	w.begin(false)()
	w.begin(true)
	for range startsWaiting {
		w.queue(t.Context(), stageStart, make(chan func(), 1))
	}
	id := events.NewRunID()
	data, err := events.Marshal(events.StartRun{RunID: id, Namespace: "default", Ref: events.Ref{Kind: events.KindAgent, Name: "a", Digest: "sha256:1"}, Input: []byte(`1`),
		Parent: &events.Parent{RunID: events.NewRunID(), Priority: events.PriorityBatch}})
	if err != nil {
		t.Fatal(err)
	}
	now, stop := context.WithCancel(t.Context())
	stop()
	s := &Service{gate: w.gate, cache: newStateCache(1)}
	err = s.Handle(now, events.Received{Message: events.Message{Subject: events.RunSubject(id, events.RunStart), ID: "start", Type: events.TypeStartRun, Namespace: "default", Data: data}, Delivered: 3})
	if wait, ok := fault.Wait(err); !ok || wait != 3*time.Second {
		t.Errorf("%v, want another turn in 3 s", err)
	}
}

// A panic in a handler frees its place.
func TestGate_APanicTakesNoPlace(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t)
	func() {
		defer func() { _ = recover() }()
		_ = w.run(t.Context(), true, stageFact, func() error { panic("in a handler") })
	}()
	if w.batch != 0 {
		t.Error("the place of a handler that panicked is taken for ever")
	}
}

func TestIsBatch(t *testing.T) {
	t.Parallel()
	flow := func(priority string) *Plan {
		return &Plan{Flow: &spec.Flow{Priority: priority, Steps: []spec.Step{{Name: "each", ForEach: &spec.Template{}}, {Name: "sum"}}}}
	}
	many, said := flow(""), flow(events.PriorityInteractive)
	ended := func(item string) Input { return Input{Child: &events.ChildCompleted{Item: item}} }
	for name, tc := range map[string]struct {
		priority string
		plan     *Plan
		in       Input
		want     bool
	}{
		"a result of a batch run":            {events.PriorityBatch, nil, Input{Tool: &events.ToolCompleted{}}, true},
		"a result of an interactive run":     {"", nil, Input{Tool: &events.ToolCompleted{}}, false},
		"a command to a batch run":           {events.PriorityBatch, nil, Input{Command: &events.Command{}}, false},
		"a message to a batch run":           {events.PriorityBatch, nil, Input{Say: &events.SayRun{}}, false},
		"a decision in a batch run":          {events.PriorityBatch, nil, Input{Decided: &events.ApprovalDecision{}}, false},
		"the end of one of many":             {"", many, ended("each/17"), true},
		"the end of another attempt":         {"", many, ended("each/17/2"), true},
		"the end of the one item of a step":  {"", many, ended("sum/0"), false},
		"the end of one of an urgent flow's": {"", said, ended("each/17"), false},
		"the end of what an agent started":   {"", &Plan{Agent: &spec.Agent{}}, ended("call/2-0"), false},
	} {
		st := NewState("r", "default")
		st.Started.Priority = tc.priority
		if got := st.isBatch(tc.plan, tc.in); got != tc.want {
			t.Errorf("%s is batch work: %t, want %t", name, got, tc.want)
		}
		if tc.in.Child == nil {
			continue
		}
		want := ""
		if tc.want {
			want = events.PriorityBatch
		}
		if got := st.priorityFor(tc.plan, tc.in.Child.Item); got != want {
			t.Errorf("%s: the child is started with the priority %q, want %q", name, got, want)
		}
	}
}
