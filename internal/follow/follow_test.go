package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// memory is a run's history and the tail of all runs, in memory.
type memory struct {
	mu    sync.Mutex
	facts []events.RunEvent
	reads int
}

const theRun = events.RunID("0198c2a4-0000-7000-8000-000000000001")

func (m *memory) Events(_ context.Context, _ string, _ events.RunID, after int64, limit int) ([]events.RunEvent, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	from := min(int(after), len(m.facts))
	return slices.Clone(m.facts[from:min(from+limit, len(m.facts))]), nil
}

func (m *memory) Head(context.Context, string, events.RunID) (int64, string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.facts) == 0 {
		return 0, events.StatusQueued, nil
	}
	last := m.facts[len(m.facts)-1]
	return last.Seq, last.Status, nil
}

func (m *memory) append(status string) events.RunEvent {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := events.RunEvent{RunID: theRun, Namespace: "default", Seq: int64(len(m.facts) + 1), Kind: "x", Status: status}
	m.facts = append(m.facts, e)
	return e
}

func newTestFollower(m *memory) *Follower {
	s := New(nil, m, slog.New(slog.DiscardHandler))
	s.hub.begin("e1", 0)
	return s
}

func received(t *testing.T, streamSeq uint64, e events.RunEvent) events.Received {
	t.Helper()
	data, err := events.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return events.Received{StreamSeq: streamSeq, Message: events.Message{
		Type: events.TypeRunEvent, ID: fmt.Sprintf("%s:%d", e.RunID, e.Seq), Namespace: e.Namespace, Data: data}}
}

// TestFollow_TailLosesRepeatsAndReorders appends facts while readers follow, and
// hands the tail only some of them, some twice and some late.
func TestFollow_TailLosesRepeatsAndReorders(t *testing.T) {
	t.Parallel()
	const facts = 300
	m := &memory{}
	s := newTestFollower(m)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()

	var wg sync.WaitGroup
	for reader := range 5 {
		wg.Go(func() {
			var got []int64
			err := s.Follow(ctx, "default", theRun, int64(reader*10), func(e events.RunEvent) error {
				got = append(got, e.Seq)
				return nil
			}, func() error { return nil })
			if err != nil {
				t.Errorf("reader %d: %v", reader, err)
			}
			for i, seq := range got {
				if seq != int64(reader*10+i+1) {
					t.Errorf("reader %d: event %d is number %d", reader, i, seq)
					return
				}
			}
			if len(got) != facts-reader*10 {
				t.Errorf("reader %d got %d events, want %d", reader, len(got), facts-reader*10)
			}
		})
	}
	rnd := rand.New(rand.NewPCG(7, 7))
	streamSeq := uint64(0)
	var late []events.RunEvent
	tell := func(e events.RunEvent) {
		streamSeq++
		s.hub.publish(received(t, streamSeq, e))
	}
	for i := range facts {
		status := events.StatusRunning
		if i == facts-1 {
			status = events.StatusCompleted
		}
		e := m.append(status)
		switch rnd.IntN(4) {
		case 0: // lost
		case 1:
			late = append(late, e)
		case 2:
			tell(e)
			tell(e)
		default:
			tell(e)
		}
		if len(late) > 3 {
			tell(late[0])
			late = late[1:]
		}
		if i%50 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	wg.Wait()
}

func TestFollow_ReaderThatFallsBehindReadsTheHistory(t *testing.T) {
	t.Parallel()
	m := &memory{}
	s := newTestFollower(m)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	m.append(events.StatusRunning)
	first := make(chan struct{})
	blocked := make(chan struct{})
	var got []int64
	done := make(chan error, 1)
	go func() {
		done <- s.Follow(ctx, "default", theRun, 0, func(e events.RunEvent) error {
			got = append(got, e.Seq)
			if e.Seq == 1 {
				close(first)
				<-blocked
			}
			return nil
		}, func() error { return nil })
	}()
	<-first
	const more = subscriptionEvents + 50
	for i := range more {
		status := events.StatusRunning
		if i == more-1 {
			status = events.StatusFailed
		}
		s.hub.publish(received(t, uint64(i+1), m.append(status)))
	}
	close(blocked)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if len(got) != more+1 || !slices.IsSorted(got) {
		t.Errorf("got %d events, want %d in order", len(got), more+1)
	}
}

func TestFollow_EndedBefore(t *testing.T) {
	t.Parallel()
	m := &memory{}
	m.append(events.StatusRunning)
	m.append(events.StatusCompleted)
	s := newTestFollower(m)
	for after, want := range map[int64]int{0: 2, 1: 1, 2: 0, 99: 0} {
		n := 0
		err := s.Follow(t.Context(), "default", theRun, after, func(events.RunEvent) error { n++; return nil }, func() error { return nil })
		if err != nil || n != want {
			t.Errorf("after %d: %d events, %v; want %d", after, n, err, want)
		}
	}
}

func TestFollow_ClientGone(t *testing.T) {
	t.Parallel()
	m := &memory{}
	m.append(events.StatusRunning)
	s := newTestFollower(m)
	gone := errors.New("client gone")
	if err := s.Follow(t.Context(), "default", theRun, 0, func(events.RunEvent) error { return gone }, func() error { return nil }); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
	if len(s.hub.runs) != 0 {
		t.Errorf("%d subscriptions are left", len(s.hub.runs))
	}
}

// reader collects what a feed says.
type reader struct {
	events  chan string
	resyncs chan string
	idle    chan Position
}

func newReader() *reader {
	return &reader{make(chan string, 1000), make(chan string, 10), make(chan Position, 1000)}
}

func (r *reader) Event(at Position, e Event) error {
	r.events <- fmt.Sprintf("%d %s", at.Seq, e.Message.ID)
	return nil
}
func (r *reader) Resync(at Position, reason string) error {
	r.resyncs <- at.String() + " " + reason
	return nil
}
func (r *reader) Idle(at Position) error { r.idle <- at; return nil }

// stream is an EVENTS stream in memory.
type stream struct {
	mu    sync.Mutex
	epoch string
	first uint64
	all   []events.Received
}

func (s *stream) EventsState(context.Context) (string, uint64, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epoch, s.first, s.first + uint64(len(s.all)) - 1, nil
}

func (s *stream) TailEvents(ctx context.Context, from uint64, handle func(events.Received)) error {
	for ctx.Err() == nil {
		s.mu.Lock()
		var next []events.Received
		for _, m := range s.all {
			if m.StreamSeq >= from {
				next = append(next, m)
			}
		}
		s.mu.Unlock()
		for _, m := range next {
			handle(m)
			from = m.StreamSeq + 1
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

func (s *stream) add(t *testing.T, hub *Hub, namespace string) {
	s.mu.Lock()
	seq := s.first + uint64(len(s.all))
	m := received(t, seq, events.RunEvent{RunID: theRun, Namespace: namespace, Seq: int64(seq), Status: events.StatusRunning})
	s.all = append(s.all, m)
	s.mu.Unlock()
	hub.publish(m)
}

func TestFeed_ResumesFromMemoryFromTheStreamAndSaysWhatIsGone(t *testing.T) {
	t.Parallel()
	s := newTestFollower(&memory{})
	tail := &stream{epoch: "e1", first: 1}
	s.tail = tail
	for range 20 {
		tail.add(t, s.hub, "default")
	}
	tail.add(t, s.hub, "other")

	feed := func(since *Position) (*reader, func()) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		r := newReader()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = s.Feed(ctx, "default", since, r) // ends by cancel
		}()
		<-r.idle
		return r, func() { cancel(); <-done }
	}

	r, stop := feed(nil)
	if len(r.events) != 0 || len(r.resyncs) != 0 {
		t.Errorf("a new reader got %d events", len(r.events))
	}
	stop()

	r, stop = feed(&Position{"e1", 15})
	if len(r.events) != 5 || <-r.events != "16 "+string(theRun)+":16" {
		t.Errorf("after 15 came %d more", len(r.events))
	}
	stop()

	s.hub.mu.Lock() // what memory has forgotten
	s.hub.ring = s.hub.ring[18:]
	s.hub.mu.Unlock()
	r, stop = feed(&Position{"e1", 2})
	if len(r.events) != 18 || len(r.resyncs) != 0 {
		t.Errorf("from the stream came %d events, %d resyncs", len(r.events), len(r.resyncs))
	}
	stop()

	tail.mu.Lock() // what the stream has forgotten
	tail.all, tail.first = tail.all[10:], 11
	tail.mu.Unlock()
	r, stop = feed(&Position{"e1", 2})
	if len(r.events) != 0 || len(r.resyncs) != 1 {
		t.Errorf("after the trim came %d events, %d resyncs", len(r.events), len(r.resyncs))
	}
	stop()

	r, stop = feed(&Position{"e0", 2})
	if len(r.events) != 0 || len(r.resyncs) != 1 {
		t.Errorf("of another stream came %d events, %d resyncs", len(r.events), len(r.resyncs))
	}
	tail.add(t, s.hub, "default")
	if got := <-r.events; got != "22 "+string(theRun)+":22" {
		t.Errorf("next is %s", got)
	}
	stop()
	if len(s.hub.all) != 0 {
		t.Errorf("%d subscriptions are left", len(s.hub.all))
	}
}

func TestFeed_SlowReaderIsCutNotWaitedFor(t *testing.T) {
	t.Parallel()
	s := newTestFollower(&memory{})
	tail := &stream{epoch: "e1", first: 1}
	s.tail = tail
	r := newReader()
	r.events = make(chan string) // takes nothing
	done := make(chan error, 1)
	go func() { done <- s.Feed(t.Context(), "default", nil, r) }()
	<-r.idle
	begun := time.Now()
	for range subscriptionEvents + 2 {
		tail.add(t, s.hub, "default")
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("publishing waited %s for a reader", took)
	}
	for range subscriptionEvents + 1 {
		select {
		case <-r.events:
		case err := <-done:
			if !errors.Is(err, ErrBehind) {
				t.Errorf("ended with %v", err)
			}
			return
		case <-time.After(10 * time.Second):
			t.Fatal("the reader was not cut")
		}
	}
	if err := <-done; !errors.Is(err, ErrBehind) {
		t.Errorf("ended with %v", err)
	}
}

func TestFeed_BeforeTheStreamWasReached(t *testing.T) {
	t.Parallel()
	s := &Follower{hub: NewHub(slog.New(slog.DiscardHandler))}
	if err := s.Feed(t.Context(), "default", nil, newReader()); !errors.Is(err, ErrNoTail) {
		t.Errorf("got %v", err)
	}
}

func TestPosition_RoundTrip(t *testing.T) {
	t.Parallel()
	for _, p := range []Position{{"1767", 0}, {"2026-03-05T02:14:00Z", 18446744073709551615}} {
		if got, ok := ParsePosition(p.String()); !ok || got != p {
			t.Errorf("%s became %v, %v", p, got, ok)
		}
	}
	for _, bad := range []string{"", "-", "-1", "x", "e-", "e-x"} {
		if got, ok := ParsePosition(bad); ok {
			t.Errorf("%q is the place %v", bad, got)
		}
	}
}
