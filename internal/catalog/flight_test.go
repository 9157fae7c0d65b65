package catalog

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Whoever asks while a read is under way gets the next one, all together: what
// they get began after they asked.
func TestFlights_ShareTheNextRead(t *testing.T) {
	t.Parallel()
	var f flights
	var reads atomic.Int32
	first, open := make(chan struct{}), make(chan struct{})
	read := func(context.Context) (*entry, error) {
		n := reads.Add(1)
		if n == 1 {
			close(first)
			<-open
		}
		return &entry{version: Version{Name: string('0' + n)}}, nil
	}
	n := asked{"default", "agent", "a"}
	var wg sync.WaitGroup
	ask := func(want string) {
		wg.Go(func() {
			if e, err := f.do(t.Context(), n, read); err != nil || e.version.Name != want {
				t.Errorf("got %+v, %v, want the result of read %s", e, err, want)
			}
		})
	}
	ask("1")
	<-first
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := f.do(gone, n, read); !errors.Is(err, context.Canceled) {
		t.Errorf("who left: %v", err)
	}
	joined := f.join(t.Context(), n, read)
	for range 20 {
		ask("2")
	}
	// Each asks before the first read ends: then nobody is left for a third.
	time.Sleep(50 * time.Millisecond)
	close(open)
	wg.Wait()
	<-joined.done
	if got := reads.Load(); got != 2 {
		t.Errorf("%d reads, want 2", got)
	}
	if e, err := f.do(t.Context(), n, read); err != nil || e.version.Name != "3" {
		t.Errorf("afterwards: %+v, %v, want a read of its own", e, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.now) > 1 {
		t.Errorf("%d names are kept", len(f.now))
	}
}
