package follow

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// A process that begins reads the newest events of before into its memory, hands
// them to nobody who follows from now on, and until it has all of them nobody
// resumes from a part.
func TestHub_WhoBeginsLaterLooksBack(t *testing.T) {
	t.Parallel()
	tail := &stream{epoch: "e1", first: 1}
	other := NewHub(slog.New(slog.DiscardHandler))
	other.begin("e1", 0)
	for range 20 {
		tail.add(t, other, "default")
	}
	f := New(tail, &memory{}, slog.New(slog.DiscardHandler))
	heard := &counter{}
	f.Tap(heard)

	from := f.hub.lookBack(f.hub.begin("e1", 20), 1)
	if from != 1 {
		t.Fatalf("it reads from %d", from)
	}
	for _, m := range tail.all[:10] {
		f.hub.publish(m)
	}
	if _, last, recent, sub, err := f.hub.SubscribeAll(); err != nil || last != 20 || len(recent) != 0 {
		t.Errorf("half of memory is handed out: last %d, %d events, %v", last, len(recent), err)
	} else {
		sub.Close()
	}
	if _, ok := f.Since(t.Context(), "default", Position{"e1", 5}); ok {
		t.Error("half of memory says that nothing else is missing")
	}
	for _, m := range tail.all[10:] {
		f.hub.publish(m)
	}
	f.hub.publish(tail.all[3]) // again, late
	if missed, ok := f.Since(t.Context(), "default", Position{"e1", 5}); !ok || missed != 15 {
		t.Errorf("after 5 were %d, %v", missed, ok)
	}
	if found, looked := f.Recent("default", 3, func(Event) bool { return true }); len(found) != 3 || looked != 3 || found[0].Seq != 20 {
		t.Errorf("the newest are %d of %d", len(found), looked)
	}
	if heard.n != 0 {
		t.Errorf("%d old events were told as new ones", heard.n)
	}
	tail.add(t, f.hub, "default")
	if heard.n != 1 {
		t.Errorf("a new event was told %d times", heard.n)
	}
	// A place ahead of this process is one of the stream, or it is none.
	tail.add(t, other, "default")
	for seq, want := range map[uint64]bool{22: true, 23: false} {
		if _, ok := f.Since(t.Context(), "default", Position{"e1", seq}); ok != want {
			t.Errorf("the place %d is there: %v", seq, ok)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r := newReader()
	go func() { _ = f.Feed(ctx, "default", &Position{"e1", 23}, r) }() // ends by cancel
	<-r.idle
	if len(r.resyncs) != 1 {
		t.Error("a place in the future is taken in silence")
	}
}

type counter struct{ n int }

func (c *counter) Heard(Position, Event) { c.n++ }
func (c *counter) Lost()                 {}

// A run's stream that is asked to go on after what the run has not reached says
// so and begins anew.
func TestCaseG01_AnotherRunsPlace(t *testing.T) {
	t.Parallel()
	m := &memory{}
	m.append(events.StatusRunning)
	m.append(events.StatusCompleted)
	f := newTestFollower(m)
	p := &pipe{make(chan string, 10)}
	if err := f.Stream(t.Context(), "default", theRun, 500, false, p); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"resync", "1  row", "2  row", "end"} {
		if got := p.next(t); len(got) < len(want) || got[:len(want)] != want {
			t.Errorf("got %q, want %s", got, want)
		}
	}
}
