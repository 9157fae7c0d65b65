package catalog

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// flightTime bounds a read that several callers wait for.
const flightTime = 10 * time.Second

// readNames reads what names mean; those that mean nothing are absent.
type readNames func(context.Context, []Name) (map[Name]events.Digest, error)

// flights lets callers who ask at the same time share a read, whatever they ask
// for. Each gets what a query found that began after the caller asked: one that
// is under way may have missed what the caller knows of, so it is not joined; the
// next one is. Nothing is kept.
type flights struct {
	mu  sync.Mutex
	now *flight // under way
}

// flight is one read.
type flight struct {
	next  *flight           // begins when this one has landed; guarded by flights.mu
	names map[Name]struct{} // guarded by flights.mu until it begins
	done  chan struct{}     // closed once means and err are set
	means map[Name]events.Digest
	err   error
}

// do returns what names mean by a read that begins from now on. A caller that
// leaves does not end it for the others.
func (f *flights) do(ctx context.Context, names []Name, read readNames) ([]events.Digest, error) {
	mine := f.join(ctx, names, read)
	select {
	case <-mine.done:
	case <-ctx.Done():
		return nil, fmt.Errorf("read %s %q in namespace %s: %w", names[0].Kind, names[0].Name, names[0].Namespace, context.Cause(ctx))
	}
	if mine.err != nil {
		return nil, mine.err
	}
	digests := make([]events.Digest, len(names))
	for i, n := range names {
		digests[i] = mine.means[n]
	}
	return digests, nil
}

func (f *flights) join(ctx context.Context, names []Name, read readNames) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now == nil {
		f.now = newFlight(names)
		go f.fly(context.WithoutCancel(ctx), f.now, read)
		return f.now
	}
	if f.now.next == nil {
		f.now.next = newFlight(nil)
	}
	f.now.next.add(names)
	return f.now.next
}

func newFlight(names []Name) *flight {
	f := &flight{names: make(map[Name]struct{}, 2), done: make(chan struct{})}
	f.add(names)
	return f
}

func (f *flight) add(names []Name) {
	for _, n := range names {
		f.names[n] = struct{}{}
	}
}

// fly reads for current, and then for those who asked meanwhile.
func (f *flights) fly(ctx context.Context, current *flight, read readNames) {
	for current != nil {
		names := slices.Collect(maps.Keys(current.names)) // nobody joins it any more
		rctx, cancel := context.WithTimeout(ctx, flightTime)
		current.means, current.err = read(rctx, names)
		cancel()
		close(current.done)
		f.mu.Lock()
		current = current.next
		f.now = current
		f.mu.Unlock()
	}
}
