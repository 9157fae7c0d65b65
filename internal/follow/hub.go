package follow

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// Tail is the EVENTS stream as the bus shows it.
type Tail interface {
	// TailEvents hands over every event from fromSeq on, in order, until ctx
	// ends; 0 means new ones only.
	TailEvents(ctx context.Context, fromSeq uint64, handle func(events.Received)) error
	// EventsState names the stream's incarnation and its first and last sequence.
	EventsState(ctx context.Context) (epoch string, first, last uint64, err error)
}

// Event is one message of the EVENTS stream.
type Event struct {
	Seq     uint64 // in the stream
	Message events.Message
	Run     *events.RunEvent // when it is a run's
}

const (
	ringEvents = 4096
	ringBytes  = 16 << 20
	// subscriptionEvents is how far a reader may fall behind before it is cut.
	subscriptionEvents = 256
)

// Hub fans one tail out to many readers in memory. A reader that falls behind
// is cut off, never waited for. It is safe for concurrent use.
type Hub struct {
	log *slog.Logger

	mu    sync.Mutex
	epoch string
	last  uint64
	ring  []Event
	bytes int
	runs  map[events.RunID]map[*Subscription]struct{}
	all   map[*Subscription]struct{}
	taps  []Tap
}

// NewHub returns a hub that has heard nothing yet.
func NewHub(log *slog.Logger) *Hub {
	return &Hub{log: log, runs: map[events.RunID]map[*Subscription]struct{}{}, all: map[*Subscription]struct{}{}}
}

// Subscription is one reader. C is closed when the reader fell behind, when the
// stream began anew, or by Close.
type Subscription struct {
	C <-chan Event

	hub  *Hub
	c    chan Event
	run  events.RunID // empty for every event
	done bool
}

// typeResync is the notice of a tail that events are gone: its body names the
// stream's epoch and the sequence that follows. It is the bus's, which this
// package does not import.
const typeResync = "holdfast.bus.resync"

// Run reads tail until ctx ends. Before the stream can be reached it tries
// every second.
func (h *Hub) Run(ctx context.Context, tail Tail) error {
	for ctx.Err() == nil {
		epoch, first, last, err := tail.EventsState(ctx)
		if err == nil {
			err = tail.TailEvents(ctx, h.lookBack(h.begin(epoch, last), first), h.publish)
		}
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			h.log.WarnContext(ctx, "event tail lost", telemetry.KeyErr, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	return nil
}

// ringBefore is how many events from before this process began are read for who
// looks back.
const ringBefore = 500

// lookBack moves the beginning of a tail back while nothing is in memory: what is
// older than the hub's beginning goes into memory and to nobody.
func (h *Hub) lookBack(from, first uint64) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.ring) > 0 || from <= first {
		return from
	}
	return max(first, from-min(from, ringBefore))
}

// begin takes up a stream, or one that lost events, and says where to read on.
func (h *Hub) begin(epoch string, last uint64) (from uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.epoch != epoch || h.last < last {
		h.epoch, h.last, h.ring, h.bytes = epoch, last, nil, 0
		h.cutAll()
		for _, t := range h.taps {
			t.Lost()
		}
	}
	return h.last + 1
}

// publish hands m to its readers.
func (h *Hub) publish(m events.Received) {
	if m.Type == typeResync {
		var at struct {
			Epoch string `json:"epoch"`
			Next  uint64 `json:"next"`
		}
		if events.Decode(m.Message, &at) == nil && at.Next > 0 {
			h.begin(at.Epoch, at.Next-1)
		}
		return
	}
	e := readEvent(m)
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.ring); m.StreamSeq <= h.last && n > 0 && h.ring[n-1].Seq >= m.StreamSeq {
		return
	}
	h.ring = append(h.ring, e)
	h.bytes += len(m.Data)
	for len(h.ring) > ringEvents || h.bytes > ringBytes && len(h.ring) > 1 {
		h.bytes -= len(h.ring[0].Message.Data)
		h.ring[0] = Event{}
		h.ring = h.ring[1:]
	}
	if m.StreamSeq <= h.last {
		return // from before the beginning
	}
	h.last = m.StreamSeq
	if e.Run != nil {
		for s := range h.runs[e.Run.RunID] {
			h.offer(s, e)
		}
	}
	for s := range h.all {
		h.offer(s, e)
	}
	for _, t := range h.taps {
		t.Heard(Position{h.epoch, e.Seq}, e)
	}
}

// cutAll sends every reader to where events are kept; the lock is held.
func (h *Hub) cutAll() {
	for s := range h.all {
		h.cut(s)
	}
	for _, readers := range h.runs {
		for s := range readers {
			h.cut(s)
		}
	}
}

// readEvent looks into a run's event. One that cannot be read is passed on as
// it is, without a namespace nobody sees it.
func readEvent(m events.Received) Event {
	e := Event{Seq: m.StreamSeq, Message: m.Message}
	if m.Type != events.TypeRunEvent {
		return e
	}
	var run events.RunEvent
	if events.Decode(m.Message, &run) == nil {
		e.Run, e.Message.Namespace = &run, run.Namespace
	}
	return e
}

func (h *Hub) offer(s *Subscription, e Event) {
	select {
	case s.c <- e:
	default:
		h.cut(s)
	}
}

// cut ends s; the lock is held.
func (h *Hub) cut(s *Subscription) {
	if s.done {
		return
	}
	s.done = true
	close(s.c)
	delete(h.all, s)
	if readers := h.runs[s.run]; readers != nil {
		delete(readers, s)
		if len(readers) == 0 {
			delete(h.runs, s.run)
		}
	}
}

// Subscribe reads the events of one run from now on. They are a hint: what
// counts is the run's history.
func (h *Hub) Subscribe(run events.RunID) *Subscription {
	c := make(chan Event, subscriptionEvents)
	s := &Subscription{C: c, c: c, hub: h, run: run}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.runs[run] == nil {
		h.runs[run] = map[*Subscription]struct{}{}
	}
	h.runs[run][s] = struct{}{}
	return s
}

// SubscribeAll reads every event. It returns the stream's incarnation, the
// events that are still in memory and the subscription, without a gap between them.
func (h *Hub) SubscribeAll() (epoch string, last uint64, recent []Event, s *Subscription, err error) {
	c := make(chan Event, subscriptionEvents)
	s = &Subscription{C: c, c: c, hub: h}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.epoch == "" {
		return "", 0, nil, nil, ErrNoTail
	}
	h.all[s] = struct{}{}
	return h.epoch, h.last, append([]Event(nil), h.whole()...), s, nil
}

// whole is what is in memory, unless it is still being filled; the lock is held.
func (h *Hub) whole() []Event {
	if n := len(h.ring); n > 0 && h.ring[n-1].Seq == h.last {
		return h.ring
	}
	return nil
}

// Position is the newest event that the hub has heard; epoch is empty before
// the stream was reached.
func (h *Hub) Position() Position {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Position{Epoch: h.epoch, Seq: h.last}
}

// Close ends the subscription.
func (s *Subscription) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.hub.cut(s)
}
