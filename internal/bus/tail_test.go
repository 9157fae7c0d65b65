package bus_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/pkg/events"
)

func event(i int) events.Message {
	m := fact(i)
	m.Subject = events.RunEventSubject(events.RunID(m.About))
	m.ID = "event:" + strconv.Itoa(i)
	m.MsgID = m.ID
	return m
}

// follow tails into a log: ids, or "resync <next>".
func follow(t *testing.T, b *bus.Bus, from uint64) *log {
	t.Helper()
	var l log
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := b.TailEvents(ctx, from, func(m events.Received) {
			if m.Type == bus.TypeResync {
				var r bus.Resync
				if err := json.Unmarshal(m.Data, &r); err != nil || r.Next != m.StreamSeq || r.Epoch == "" {
					t.Errorf("notice %s, seq %d: %v", m.Data, m.StreamSeq, err)
				}
				l.add(fmt.Sprintf("resync %d", r.Next))
				return
			}
			l.add(fmt.Sprintf("%s@%d", m.ID, m.StreamSeq))
		}); err != nil {
			t.Errorf("tail: %v", err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case <-done:
		case <-time.After(5 * time.Second):
			t.Error("the tail does not end with its context")
		}
	})
	return &l
}

func wantLog(t *testing.T, l *log, want ...string) {
	t.Helper()
	w := fmt.Sprint(want)
	eventually(t, 10*time.Second, w, func() bool { return len(l.all()) >= len(want) })
	if got := fmt.Sprint(l.all()); got != w {
		t.Errorf("tail saw %s, want %s", got, w)
	}
}

func TestTailEvents(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.provisioned("a")
	publish(t, b, event(1), event(2), event(3))

	all := follow(t, b, 1)
	wantLog(t, all, "event:1@1", "event:2@2", "event:3@3")
	some := follow(t, b, 3)
	wantLog(t, some, "event:3@3")
	fresh := follow(t, b, 0)
	eventually(t, 5*time.Second, "three tails are open", func() bool {
		_, js := s.raw()
		st, err := js.Stream(t.Context(), events.StreamEvents)
		return err == nil && st.CachedInfo().State.Consumers == 3
	})

	// A restart loses the tails' consumers, not their places.
	s.stop()
	s.start()
	publish(t, b, event(4))
	wantLog(t, all, "event:1@1", "event:2@2", "event:3@3", "event:4@4")
	wantLog(t, some, "event:3@3", "event:4@4")
	wantLog(t, fresh, "event:4@4")
}

func TestTailEvents_Trimmed(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.provisioned("a")
	publish(t, b, event(1), event(2), event(3), event(4))
	_, js := s.raw()
	stream, err := js.Stream(t.Context(), events.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context(), jetstream.WithPurgeSequence(3)); err != nil {
		t.Fatal(err)
	}
	l := follow(t, b, 1)
	wantLog(t, l, "resync 3", "event:3@3", "event:4@4")

	// From the future: an id of another epoch.
	ahead := follow(t, b, 1000)
	wantLog(t, ahead, "resync 3", "event:3@3", "event:4@4")
}

func TestTailEvents_DataLoss(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.provisioned("a")
	before, _, _, err := b.EventsState(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l := follow(t, b, 1)
	publish(t, b, event(1), event(2))
	wantLog(t, l, "event:1@1", "event:2@2")
	s.stop()
	s.wipe()
	s.start()
	publish(t, b, event(3), event(4))
	wantLog(t, l, "event:1@1", "event:2@2", "resync 1", "event:3@1", "event:4@2")
	after, first, last, err := b.EventsState(t.Context())
	if err != nil || after == before || first != 1 || last != 2 {
		t.Errorf("state = %s %d %d %v, want another epoch than %s, 1 and 2", after, first, last, err, before)
	}
}

func TestEventsState_Empty(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.provisioned("a")
	epoch, first, last, err := b.EventsState(t.Context())
	if err != nil || epoch == "" || first != 1 || last != 0 {
		t.Errorf("state = %q %d %d %v, want an epoch, 1, 0", epoch, first, last, err)
	}
}
