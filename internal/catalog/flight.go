package catalog

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// flightTime bounds a read that several callers wait for.
const flightTime = 10 * time.Second

// asked is what a reader asks for.
type asked struct{ namespace, kind, name string }

// flights lets callers who ask for one name at the same time share a read. Each
// gets what a query found that began after the caller asked: one that is under
// way may have missed what the caller knows of, so it is not joined; the next
// one is. Nothing is kept.
type flights struct {
	mu  sync.Mutex
	now map[asked]*flight // under way
}

// flight is one read.
type flight struct {
	next  *flight       // begins when this one has landed; guarded by flights.mu
	done  chan struct{} // closed once entry and err are set
	entry *entry
	err   error
}

// do returns what a read that begins from now on finds. A caller that leaves
// does not end it for the others.
func (f *flights) do(ctx context.Context, n asked, read func(context.Context) (*entry, error)) (*entry, error) {
	mine := f.join(ctx, n, read)
	select {
	case <-mine.done:
		return mine.entry, mine.err
	case <-ctx.Done():
		return nil, fmt.Errorf("read %s %q in namespace %s: %w", n.kind, n.name, n.namespace, context.Cause(ctx))
	}
}

func (f *flights) join(ctx context.Context, n asked, read func(context.Context) (*entry, error)) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	current := f.now[n]
	switch {
	case current == nil:
		current = &flight{done: make(chan struct{})}
		if f.now == nil {
			f.now = map[asked]*flight{}
		}
		f.now[n] = current
		go f.fly(context.WithoutCancel(ctx), n, current, read)
		return current
	case current.next == nil:
		current.next = &flight{done: make(chan struct{})}
	}
	return current.next
}

// fly reads for current, and then for those who asked meanwhile.
func (f *flights) fly(ctx context.Context, n asked, current *flight, read func(context.Context) (*entry, error)) {
	for current != nil {
		rctx, cancel := context.WithTimeout(ctx, flightTime)
		current.entry, current.err = read(rctx)
		cancel()
		close(current.done)
		f.mu.Lock()
		if current = current.next; current == nil {
			delete(f.now, n)
		} else {
			f.now[n] = current
		}
		f.mu.Unlock()
	}
}
