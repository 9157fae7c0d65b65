package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// gate leaves processors and the database to interactive runs. Beside their work, what
// batch runs need between model and tool calls, which is to load, decide, commit and
// publish, is done one message after the other, and half of the time. Interactive work
// never waits here. It is safe for concurrent use.
type gate struct {
	most int // batch work at once while no interactive run has work here
	now  func() time.Time
	// after runs f when a rest is over.
	after func(d time.Duration, f func())

	mu      sync.Mutex
	batch   int       // at work
	others  int       // interactive, at work
	last    time.Time // when interactive work was seen
	waiting [stages][]chan struct{}
}

// stage orders batch work that waits: what a run has begun comes before what it
// begins, so that little is under way and little is held.
type stage int

const (
	stageAnswer stage = iota // of a model: it holds a slot and a claim
	stageFact
	stageStart // holds nothing
	stages
)

const (
	// calm is how long after interactive work the next is expected.
	calm = time.Second
	// beside is how much batch work is done at once beside interactive work.
	beside = 1
	// batchAtOnce is how much otherwise: enough to keep a database busy that is
	// not near.
	batchAtOnce = 16
	// startsWaiting is how many starts of batch runs wait here; the rest waits on
	// the bus, so that none of the handlers' places is taken which others need.
	startsWaiting = 48
	// longestRest bounds the rest after batch work.
	longestRest = time.Second
)

func newGate() *gate {
	return &gate{most: batchAtOnce, now: time.Now, after: func(d time.Duration, f func()) { time.AfterFunc(d, f) }}
}

var errLater = fmt.Errorf("other runs of a batch come first: %w", fault.ErrTurn)

// comeAgain says when a start that found no room here comes again: the more often it
// did, the later, because each time costs the bus and this process what work costs.
func comeAgain(err error, delivered uint64) error {
	if !errors.Is(err, errLater) {
		return err
	}
	return fault.RetryAfter(min(time.Duration(delivered), 4)*time.Second, err)
}

// run runs f when work of a run may begin.
func (g *gate) run(ctx context.Context, batch bool, at stage, f func() error) error {
	leave, err := g.enter(ctx, batch, at)
	if err != nil {
		return err
	}
	defer leave()
	return f()
}

// enter waits until work of a run may begin and returns what ends it.
func (g *gate) enter(ctx context.Context, batch bool, at stage) (leave func(), err error) {
	g.mu.Lock()
	if !batch {
		g.others++
		g.last = g.now()
		g.mu.Unlock()
		return g.leaveOther, nil
	}
	if at == stageStart && len(g.waiting[at]) >= startsWaiting {
		g.mu.Unlock()
		return nil, errLater
	}
	turn := make(chan struct{})
	g.waiting[at] = append(g.waiting[at], turn)
	g.admit()
	g.mu.Unlock()
	select {
	case <-turn:
		return g.batchWork(), nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.waiting[at], turn); i >= 0 {
		g.waiting[at] = slices.Delete(g.waiting[at], i, i+1)
	} else { // it came in the same moment
		g.batch--
		g.admit()
	}
	return nil, context.Cause(ctx)
}

func (g *gate) batchWork() (leave func()) {
	began := g.now()
	return func() { g.leaveBatch(began) }
}

// narrow reports whether interactive runs have work here.
func (g *gate) narrow() bool { return g.others > 0 || g.now().Sub(g.last) < calm }

// room reports whether batch work may begin. Some always may, so it is never
// starved, and whoever waits is admitted when it ends.
func (g *gate) room() bool {
	if g.narrow() {
		return g.batch < beside
	}
	return g.batch < g.most
}

func (g *gate) admit() {
	for at := range g.waiting {
		for len(g.waiting[at]) > 0 && g.room() {
			close(g.waiting[at][0])
			g.waiting[at] = g.waiting[at][1:]
			g.batch++
		}
	}
}

func (g *gate) leaveOther() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.others--
	g.last = g.now()
}

// leaveBatch ends batch work that began at a time. Beside interactive work its place
// stays taken for as long again: what the machine is short of makes the work longer,
// and so the rest.
func (g *gate) leaveBatch(began time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if took := min(g.now().Sub(began), longestRest); g.narrow() && took > 0 {
		g.after(took, g.free)
		return
	}
	g.batch--
	g.admit()
}

// free gives a place of batch work back.
func (g *gate) free() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.batch--
	g.admit()
}

// errBehind is a message that turned out to be batch work after its run was read.
var errBehind = errors.New("it is batch work")

// gated runs f, which locks the run and reads it, behind the gate. Whose work it is
// is known from what this process remembers or, for a start, from the message; else
// f finds out, and says errBehind if it was not gated as batch work.
func (s *Service) gated(ctx context.Context, id events.RunID, in Input, at stage, f func(asBatch bool) error) error {
	batch := in.Start != nil && in.Start.Body.Parent != nil && in.Start.Body.Parent.Priority == events.PriorityBatch
	if known := s.cache.get(id); known != nil && !batch {
		batch = known.isBatch(nil, in)
	}
	for {
		err := s.gate.run(ctx, batch, at, func() error { return f(batch) })
		if !errors.Is(err, errBehind) || batch {
			return err
		}
		batch = true
	}
}

// isBatch reports whether what a message brings into a run can wait: the run is a
// batch run, or one of many items of a flow has ended. What a person says cannot.
func (s *State) isBatch(plan *Plan, in Input) bool {
	switch {
	case in.Command != nil, in.Say != nil, in.Decided != nil:
		return false
	case s.Started.Priority == events.PriorityBatch:
		return true
	}
	return in.Child != nil && plan != nil && plan.ofMany(in.Child.Item)
}

// ofMany reports whether a child is an item of a list, which is batch work unless
// its flow says otherwise.
func (p *Plan) ofMany(item string) bool {
	if p == nil || p.Flow == nil || p.Flow.Priority != "" {
		return false
	}
	name, _, _ := cutItem(item)
	i := slices.IndexFunc(p.Flow.Steps, func(s spec.Step) bool { return s.Name == name })
	return i >= 0 && p.Flow.Steps[i].ForEach != nil
}

// priorityFor is the priority below this run of a child.
func (s *State) priorityFor(plan *Plan, item string) string {
	if plan.ofMany(item) {
		return events.PriorityBatch
	}
	return s.Started.Priority
}
