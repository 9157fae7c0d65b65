package runner

import (
	"context"
	"sync"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// stateCache remembers folded states so that a load reads only newer rows. It
// never answers for the database: every decision starts from the run row.
type stateCache struct {
	mu     sync.Mutex
	max    int
	states map[events.RunID]*State
	bytes  int // of their inputs, which may be large
}

// cacheBytes bounds the inputs that a cache keeps in memory.
const cacheBytes = 64 << 20

func newStateCache(most int) *stateCache {
	return &stateCache{max: most, states: map[events.RunID]*State{}}
}

func (c *stateCache) get(id events.RunID) *State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.states[id]
}

// put keeps a committed state. Ended runs are forgotten; beyond the bounds
// arbitrary other ones go.
func (c *stateCache) put(s *State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.states[s.RunID]; s.End == "" && old != nil && old.Seq > s.Seq {
		return
	}
	c.drop(s.RunID)
	size := len(s.Started.Input)
	if s.End != "" || size > cacheBytes {
		return
	}
	for id := range c.states {
		if len(c.states) < c.max && c.bytes+size <= cacheBytes {
			break
		}
		c.drop(id)
	}
	c.states[s.RunID] = s
	c.bytes += size
}

func (c *stateCache) forget(id events.RunID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(id)
}

func (c *stateCache) drop(id events.RunID) {
	if old := c.states[id]; old != nil {
		c.bytes -= len(old.Started.Input)
		delete(c.states, id)
	}
}

// runLocks serialises work on one run within the process.
type runLocks struct {
	mu   sync.Mutex
	held map[events.RunID]*runLock
}

type runLock struct {
	ch   chan struct{} // holds one token while free
	uses int
}

// lock waits for the run and returns what frees it; it fails when ctx ends.
func (l *runLocks) lock(ctx context.Context, id events.RunID) (unlock func(), err error) {
	l.mu.Lock()
	if l.held == nil {
		l.held = map[events.RunID]*runLock{}
	}
	rl := l.held[id]
	if rl == nil {
		rl = &runLock{ch: make(chan struct{}, 1)}
		rl.ch <- struct{}{}
		l.held[id] = rl
	}
	rl.uses++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if rl.uses--; rl.uses == 0 {
			delete(l.held, id)
		}
	}
	select {
	case <-rl.ch:
		return func() { rl.ch <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}
