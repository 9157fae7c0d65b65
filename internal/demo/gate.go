package demo

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-run/holdfast/internal/scriptmodel"
)

// gate stands between the scripted model's answers and their callers. While a
// runner is about to be killed it holds back the answers to that runner, so that
// the runs which it has claimed gather, and lets all others pass.
type gate struct {
	// owner names the worker that has claimed the run of a conversation.
	owner func(ctx context.Context, key string) string

	mu     sync.Mutex
	focus  func(e scriptmodel.Exchange) bool // the request that the kill waits for; nil for none
	found  chan scriptmodel.Exchange
	victim string        // worker whose answers are held; "" for none
	opened chan struct{} // closed when holding ends
}

func newGate(owner func(context.Context, string) string) *gate {
	return &gate{owner: owner}
}

// expect arms the gate: the next request that is the one is held until release,
// and sent to the channel.
func (g *gate) expect(focus func(scriptmodel.Exchange) bool) <-chan scriptmodel.Exchange {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.focus, g.found, g.opened = focus, make(chan scriptmodel.Exchange, 1), make(chan struct{})
	return g.found
}

// hold keeps back the answers to a worker.
func (g *gate) hold(victim string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.victim = victim
	if g.opened == nil {
		g.opened = make(chan struct{})
	}
}

// release lets everything pass again.
func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.victim, g.focus = "", nil
	if g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
}

// pass is the model server's hook before an answer. It returns when the answer
// may go, or when the caller has hung up.
func (g *gate) pass(ctx context.Context, e scriptmodel.Exchange) {
	g.mu.Lock()
	opened, isFocus := g.opened, g.focus != nil && g.focus(e)
	if isFocus {
		g.focus = nil
		g.found <- e
	}
	g.mu.Unlock()
	if isFocus {
		select {
		case <-opened:
		case <-ctx.Done():
		}
		return
	}
	for {
		g.mu.Lock()
		victim, opened := g.victim, g.opened
		g.mu.Unlock()
		if victim == "" || g.owner(ctx, e.Key) != victim {
			return
		}
		select {
		case <-opened:
			return
		case <-ctx.Done():
			return
		case <-time.After(25 * time.Millisecond):
		}
	}
}
