package bus_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/linetest"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// Connections to NATS are dropped without a word: one that waits for work, one whose
// handlers are at work, one that a publisher waits at, one that is just being made.
// Each is given up and made anew, work goes on, and no handler runs twice.
func TestCaseC07_SilentLinesAreGivenUp(t *testing.T) {
	t.Parallel()
	const silence = 600 * time.Millisecond
	s := newServer(t)
	far := s.provisioned("far") // on a line of its own
	line := linetest.New(t, "tcp", strings.TrimPrefix(s.url(), "nats://"))
	b, err := bus.Connect(t.Context(), bus.Config{URL: config.Secret("nats://" + line.Addr), Name: "silent", Silence: silence})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	t.Cleanup(line.Close)
	if err := b.Provision(t.Context(), []string{"default"}); err != nil {
		t.Fatal(err)
	}
	var began, ended atomic.Int32
	var hold atomic.Pointer[chan struct{}]
	consume(t, b, bus.Consumption{Workers: 4, Handle: func(context.Context, events.Received) error {
		began.Add(1)
		if gate := hold.Load(); gate != nil {
			<-*gate
		}
		ended.Add(1)
		return nil
	}})
	sent := int32(0)
	send := func(t *testing.T, by *bus.Bus) {
		t.Helper()
		sent++
		publish(t, by, fact(int(sent)))
	}
	handled := func(t *testing.T) {
		t.Helper()
		eventually(t, 15*time.Second, fmt.Sprintf("%d handled", sent), func() bool { return ended.Load() >= sent })
		eventually(t, 15*time.Second, "acknowledged", empty(t, far, events.ConsumerRunner))
		if n := began.Load(); n != sent {
			t.Errorf("%d messages were handled %d times", sent, n)
		}
	}
	send(t, b)
	handled(t)
	t.Run("idle", func(t *testing.T) {
		line.Forget()
		send(t, far)
		handled(t)
	})
	t.Run("at work", func(t *testing.T) {
		gate := make(chan struct{})
		hold.Store(&gate)
		send(t, far)
		eventually(t, 5*time.Second, "at work", func() bool { return began.Load() == sent })
		line.Forget()
		// Longer than a message is kept for somebody who says nothing: it is said on the new line.
		for forgotten := time.Now(); time.Since(forgotten) < bus.AckWait+silence; time.Sleep(20 * time.Millisecond) {
			if n := began.Load(); n != sent {
				t.Fatalf("%d messages were handled %d times", sent, n)
			}
		}
		hold.Store(nil)
		close(gate)
		handled(t)
	})
	t.Run("in a publish", func(t *testing.T) {
		line.Forget()
		send(t, b) // it does not fail: it is repeated on the new line
		handled(t)
	})
	t.Run("while it is connected", func(t *testing.T) {
		line.Forget()
		line.Hold()
		eventually(t, 15*time.Second, "not ready", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			return b.Ready(ctx) != nil
		})
		time.AfterFunc(2*silence, line.Pass)
		send(t, far)
		handled(t)
	})
}
