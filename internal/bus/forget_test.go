package bus_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Of a run that was deleted the stream of events keeps nothing, and of others all: who
// reads on behind it misses none of theirs.
func TestForgetEvents_OnlyThoseOfTheRun(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.connect("runner")
	gone, stays := event(1), event(2)
	run := events.RunID(gone.About)
	if err := b.ForgetEvents(t.Context(), run); err != nil {
		t.Fatalf("without a stream: %v", err)
	}
	b = s.provisioned("other")
	for i := range 3 {
		again := gone
		again.ID, again.MsgID = event(10+i).ID, event(10+i).MsgID
		publish(t, b, again)
	}
	publish(t, b, stays)
	for range 2 { // a repeat changes nothing
		if err := b.ForgetEvents(t.Context(), run); err != nil {
			t.Fatal(err)
		}
	}
	_, js := s.raw()
	st, err := js.Stream(t.Context(), events.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	info, err := st.Info(t.Context(), jetstream.WithSubjectFilter(">"))
	if err != nil {
		t.Fatal(err)
	}
	if left := info.State.Subjects; len(left) != 1 || left[stays.Subject] != 1 {
		t.Errorf("the stream has %v, want the one event of the other run", left)
	}
	publish(t, b, event(3))
	l := follow(t, b, 1)
	deadline := time.Now().Add(5 * time.Second)
	for len(l.all()) < 3 && time.Now().Before(deadline) {
		time.Sleep(5 * time.Millisecond)
	}
	// Whoever was at the beginning is told that something is missing, and gets the rest.
	wantLog(t, l, "resync 4", "event:2@4", "event:3@5")
}
