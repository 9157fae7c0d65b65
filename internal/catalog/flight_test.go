package catalog

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Whoever asks while a read is under way gets the next one, all together: what
// they get began after they asked.
func TestFlights_ShareTheNextRead(t *testing.T) {
	t.Parallel()
	var f flights
	var reads atomic.Int32
	first, open := make(chan struct{}), make(chan struct{})
	var asked []Name // by the second read
	read := func(_ context.Context, names []Name) (map[Name]events.Digest, error) {
		n := reads.Add(1)
		switch n {
		case 1:
			close(first)
			<-open
		case 2:
			asked = names
		}
		return map[Name]events.Digest{{"default", "agent", "a"}: events.Digest('0' + n)}, nil
	}
	n := []Name{{"default", "agent", "a"}}
	var wg sync.WaitGroup
	ask := func(want string) {
		wg.Go(func() {
			if got, err := f.do(t.Context(), n, read); err != nil || string(got[0]) != want {
				t.Errorf("got %v, %v, want the result of read %s", got, err, want)
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
	wg.Go(func() { // other names share it too
		got, err := f.do(t.Context(), []Name{{"default", "webhook", "w"}, n[0]}, read)
		if err != nil || got[0] != "" || got[1] != "2" {
			t.Errorf("two names: %v, %v, want nothing and the result of read 2", got, err)
		}
	})
	// Each asks before the first read ends: then nobody is left for a third.
	time.Sleep(50 * time.Millisecond)
	close(open)
	wg.Wait()
	<-joined.done
	if got := reads.Load(); got != 2 {
		t.Errorf("%d reads, want 2", got)
	}
	if len(asked) != 2 {
		t.Errorf("the second read asked for %v, want each name once", asked)
	}
	if got, err := f.do(t.Context(), n, read); err != nil || got[0] != "3" {
		t.Errorf("afterwards: %v, %v, want a read of its own", got, err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		f.mu.Lock()
		idle := f.now == nil
		f.mu.Unlock()
		if idle {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a read is kept")
		}
	}
}
