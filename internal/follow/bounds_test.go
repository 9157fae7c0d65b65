package follow

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// What a hub remembers is bounded in number and in bytes.
func TestHub_RemembersSoMuchAndNoMore(t *testing.T) {
	t.Parallel()
	h := NewHub(slog.New(slog.DiscardHandler))
	h.begin("e1", 0)
	seq := uint64(0)
	add := func(data string) {
		seq++
		h.publish(events.Received{StreamSeq: seq, Message: events.Message{Type: "x", Namespace: "default", Data: []byte(data)}})
	}
	for range ringEvents + 10 {
		add(`{}`)
	}
	if len(h.ring) != ringEvents || h.ring[0].Seq != 11 {
		t.Errorf("%d events from %d on", len(h.ring), h.ring[0].Seq)
	}
	for range 20 {
		add(strings.Repeat("x", 1<<20))
	}
	if h.bytes > ringBytes || len(h.ring) != 16 {
		t.Errorf("%d bytes in %d events", h.bytes, len(h.ring))
	}
}

type losses struct {
	counter
	lost int
}

func (l *losses) Lost() { l.lost++ }

// A stream that begins anew is told to who hears all of it, and a place of the old one
// is gone, whatever its number.
func TestFeed_AStreamThatBeginsAnew(t *testing.T) {
	t.Parallel()
	tail := &stream{epoch: "e2", first: 1}
	f := New(tail, &memory{}, slog.New(slog.DiscardHandler))
	heard := &losses{}
	f.Tap(heard)
	f.hub.begin("e1", 0)
	tail.add(t, f.hub, "default")
	before := heard.lost
	f.hub.begin("e2", 1)
	if heard.lost != before+1 {
		t.Errorf("told of %d losses, want 1", heard.lost-before)
	}
	r := newReader()
	done := make(chan error, 1)
	go func() { done <- f.Feed(t.Context(), "default", &Position{"e1", 1}, r) }() // ends with the test
	<-r.idle
	if len(r.resyncs) != 1 {
		t.Error("the same number in another stream is taken for the same place")
	}
}

// A history with a gap ends a run's stream: nothing is left out in silence.
func TestFollow_AGapInTheHistoryIsAnError(t *testing.T) {
	t.Parallel()
	m := &memory{}
	m.append(events.StatusRunning)
	m.append(events.StatusRunning)
	m.facts[1].Seq = 3
	p := &pipe{make(chan string, 10)}
	if err := newTestFollower(m).Stream(t.Context(), "default", theRun, 0, false, p); err == nil || !strings.Contains(err.Error(), "event 3 follows 1") {
		t.Errorf("a gap: %v", err)
	}
}
