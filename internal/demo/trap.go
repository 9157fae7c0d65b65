package demo

import (
	"context"
	"sync"
)

// trap holds requests at the pricing API between their commit and their answer.
// Each shop that is set is caught once.
type trap struct {
	mu     sync.Mutex
	shops  map[string]bool
	caught chan caught
	open   chan struct{}
}

// caught is one request that waits for its answer.
type caught struct {
	arrival arrival
	gone    <-chan struct{} // closed when the caller hung up
}

// set arms the trap for shops. Requests are held until release.
func (t *trap) set(shops ...string) <-chan caught {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.shops, t.caught, t.open = map[string]bool{}, make(chan caught, len(shops)), make(chan struct{})
	for _, s := range shops {
		t.shops[s] = true
	}
	return t.caught
}

// release answers what is held and catches nothing more.
func (t *trap) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.shops = nil
	if t.open != nil {
		close(t.open)
		t.open = nil
	}
}

// pass is the pricing API's hook after the commit.
func (t *trap) pass(ctx context.Context, a arrival) {
	t.mu.Lock()
	if !t.shops[a.Shop] {
		t.mu.Unlock()
		return
	}
	delete(t.shops, a.Shop)
	open := t.open
	t.caught <- caught{arrival: a, gone: ctx.Done()}
	t.mu.Unlock()
	select {
	case <-open:
	case <-ctx.Done():
	}
}
