package lab

import (
	"context"
	"sync"
)

// Trap holds requests at the pricing API between their commit and their answer.
// Each shop that is set is caught once.
type Trap struct {
	mu     sync.Mutex
	shops  map[string]bool
	caught chan Caught
	open   chan struct{}
}

// Caught is one request that waits for its answer.
type Caught struct {
	Arrival Arrival
	Gone    <-chan struct{} // closed when the caller hung up
}

// Set arms the trap for shops. Requests are held until Release.
func (t *Trap) Set(shops ...string) <-chan Caught {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.shops, t.caught, t.open = map[string]bool{}, make(chan Caught, len(shops)), make(chan struct{})
	for _, s := range shops {
		t.shops[s] = true
	}
	return t.caught
}

// Release answers what is held and catches nothing more.
func (t *Trap) Release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.shops = nil
	if t.open != nil {
		close(t.open)
		t.open = nil
	}
}

// Pass is the pricing API's hook after the commit.
func (t *Trap) Pass(ctx context.Context, a Arrival) {
	t.mu.Lock()
	if !t.shops[a.Shop] {
		t.mu.Unlock()
		return
	}
	delete(t.shops, a.Shop)
	open := t.open
	t.caught <- Caught{Arrival: a, Gone: ctx.Done()}
	t.mu.Unlock()
	select {
	case <-open:
	case <-ctx.Done():
	}
}
