package bus_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// A message that can never be stored fails alone; the others of its batch are
// stored once each, also when the batch is repeated.
func TestPublishAll_OneErrorEach(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.provisioned("a")
	batch := []events.Message{fact(1), fact(2), fact(3)}
	batch[1].Data = []byte(`"` + strings.Repeat("x", 2<<20) + `"`)
	for range 2 {
		for i, err := range b.PublishAll(t.Context(), batch) {
			code, terminal := fault.TerminalCode(err)
			if want := i == 1; terminal != want || err != nil != want || want && code != bus.CodeTooLarge {
				t.Errorf("message %d: %v", i, err)
			}
		}
	}
	var seen log
	consume(t, b, bus.Consumption{Handle: func(_ context.Context, m events.Received) error { seen.add(m.ID); return nil }})
	eventually(t, 5*time.Second, "both to be handled", func() bool { return seen.count() == 2 && empty(t, b, events.ConsumerRunner)() })
	if got, want := fmt.Sprint(seen.all()), "[signal:1 signal:3]"; got != want {
		t.Errorf("seen %s, want %s", got, want)
	}
}

// While the server is away nothing is reported as stored, and nobody waits for each
// message of the batch. Afterwards streams that are gone are made again.
func TestPublishAll_ServerAway(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.provisioned("a")
	var batch []events.Message
	for i := range 50 {
		batch = append(batch, fact(i))
	}
	s.stop()
	begun := time.Now()
	for i, err := range b.PublishAll(t.Context(), batch) {
		if err == nil {
			t.Errorf("message %d counts as stored", i)
		}
	}
	if took := time.Since(begun); took > 15*time.Second {
		t.Errorf("a batch of 50 took %s to fail, want the patience of one message", took)
	}
	s.wipe()
	s.start()
	eventually(t, 20*time.Second, "the batch to be stored", func() bool {
		return !slices.ContainsFunc(b.PublishAll(t.Context(), batch), func(err error) bool { return err != nil })
	})
	var seen log
	consume(t, b, bus.Consumption{Handle: func(_ context.Context, m events.Received) error { seen.add(m.ID); return nil }})
	eventually(t, 10*time.Second, "all to be handled", func() bool { return seen.count() == len(batch) })
}

// What NATS refuses is not stored: a stream that is gone is made again, and the
// batch is stored in it.
func TestPublishAll_StreamGone(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.provisioned("a")
	_, js := s.raw()
	if err := js.DeleteStream(t.Context(), events.StreamRuns); err != nil {
		t.Fatal(err)
	}
	for i, err := range b.PublishAll(t.Context(), []events.Message{fact(1), fact(2)}) {
		if err != nil {
			t.Errorf("message %d: %v", i, err)
		}
	}
	info, err := js.Stream(t.Context(), events.StreamRuns)
	if err != nil {
		t.Fatal(err)
	}
	if n := info.CachedInfo().State.LastSeq; n != 2 {
		t.Errorf("%d messages are stored, want 2", n)
	}
}

// A stream that is full refuses; what it refused is told apart from what it took.
func TestPublishAll_StreamFull(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.provisioned("a")
	_, js := s.raw()
	stream, err := js.Stream(t.Context(), events.StreamRuns)
	if err != nil {
		t.Fatal(err)
	}
	full := stream.CachedInfo().Config
	full.MaxMsgs = 2
	if _, err := js.UpdateStream(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	for i, err := range b.PublishAll(t.Context(), []events.Message{fact(1), fact(2), fact(3), fact(4)}) {
		if stored := i < 2; stored != (err == nil) {
			t.Errorf("message %d: %v", i, err)
		}
	}
}
