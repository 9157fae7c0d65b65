package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// TypeResync is the type of the notice that TailEvents hands out when events
// are gone: trimmed by age or size, or lost with NATS's data. Its body is a
// Resync. What was missed must be read from Postgres.
const TypeResync = "holdfast.bus.resync"

// Resync is the body of a notice of TypeResync.
type Resync struct {
	Epoch string `json:"epoch"` // of the stream from here on
	Next  uint64 `json:"next"`  // the stream sequence that follows
}

// EventsState returns the epoch of the EVENTS stream, which changes when the
// stream is made anew, and its first and last sequence. last is first-1 when it
// is empty.
func (b *Bus) EventsState(ctx context.Context) (epoch string, first, last uint64, err error) {
	s, err := b.js.Stream(ctx, events.StreamEvents)
	if err != nil {
		return "", 0, 0, fmt.Errorf("state of events: %w", err)
	}
	info := s.CachedInfo()
	first, last = info.State.FirstSeq, info.State.LastSeq
	if first == 0 {
		first = 1
	}
	return strconv.FormatInt(info.Created.UnixMilli(), 10), first, last, nil
}

// TailEvents calls handle for every event from stream sequence fromSeq on, zero
// meaning only those that are stored from now on, in stream order and one at a
// time, until ctx ends; then it returns nil. It reconnects and continues where
// it was. When events between are gone, it first hands out a notice of
// TypeResync, whose StreamSeq is that of the next event. A message that cannot
// be decoded is logged and left out.
func (b *Bus) TailEvents(ctx context.Context, fromSeq uint64, handle func(events.Received)) error {
	t := tail{bus: b, next: fromSeq, handle: handle}
	failures := 0
	for ctx.Err() == nil {
		before := t.next
		err := t.follow(ctx, patience(failures))
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil || t.next != before:
			failures = 0
		default:
			failures++
		}
		if err != nil {
			b.log.Warn("tail of events interrupted", telemetry.KeyErr, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(20*time.Millisecond<<min(failures, 6), time.Second)):
		}
	}
	return nil
}

type tail struct {
	bus    *Bus
	epoch  string
	next   uint64 // the sequence wanted next; zero before the first look
	handle func(events.Received)
}

// follow reads until the connection changes or something fails.
func (t *tail) follow(ctx context.Context, patience time.Duration) error {
	b := t.bus
	if err := b.waitConnected(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changed := b.watch()
	go func() {
		select {
		case <-changed:
			cancel() // the stream may be another one now
		case <-ctx.Done():
		}
	}()
	if err := t.place(ctx, patience); err != nil {
		return err
	}
	octx, cancelOpen := context.WithTimeout(ctx, patience)
	defer cancelOpen()
	oc, err := b.js.OrderedConsumer(octx, events.StreamEvents, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: t.next,
		InactiveThreshold: 30 * time.Second, MaxResetAttempts: 1,
	})
	if err != nil {
		return fmt.Errorf("tail events: %w", err)
	}
	it, err := oc.Messages(jetstream.PullExpiry(10*time.Second), jetstream.PullHeartbeat(time.Second), jetstream.PullMaxMessages(1000))
	if err != nil {
		return fmt.Errorf("tail events: %w", err)
	}
	defer it.Stop()
	for {
		msg, err := it.Next(jetstream.NextContext(ctx))
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("tail events: %w", err)
		}
		t.take(msg)
	}
}

// place compares the stream with where the tail is, and tells when it must skip.
func (t *tail) place(ctx context.Context, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	epoch, first, last, err := t.bus.EventsState(ctx)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if err = t.bus.reprovision(ctx); err == nil {
			epoch, first, last, err = t.bus.EventsState(ctx)
		}
	}
	if err != nil {
		return err
	}
	known := t.epoch
	t.epoch = epoch
	switch {
	case known == "" && t.next == 0:
		t.next = last + 1
	case known != "" && known != epoch, t.next < first, t.next > last+1:
		t.skipTo(first)
	}
	return nil
}

func (t *tail) skipTo(seq uint64) {
	t.next = seq
	body, err := json.Marshal(Resync{Epoch: t.epoch, Next: seq})
	if err != nil {
		panic(fmt.Sprintf("encode resync notice: %v", err)) // a string and a number
	}
	t.handle(events.Received{
		Message: events.Message{Type: TypeResync, ID: t.epoch + "-" + strconv.FormatUint(seq, 10), Source: "/bus", Time: time.Now().UTC(), Data: body},
		Stream:  events.StreamEvents, StreamSeq: seq, Delivered: 1,
	})
}

func (t *tail) take(msg jetstream.Msg) {
	meta, err := msg.Metadata()
	if err != nil {
		t.bus.log.Error("event without metadata", telemetry.KeyErr, err)
		return
	}
	seq := meta.Sequence.Stream
	switch {
	case seq < t.next:
		return
	case seq > t.next:
		t.skipTo(seq)
	}
	t.next = seq + 1
	m, err := events.DecodeHeaders(msg.Subject(), msg.Headers(), msg.Data())
	if err != nil {
		t.bus.log.Error("event cannot be decoded", telemetry.KeySeq, seq, telemetry.KeyErr, err)
		return
	}
	t.handle(events.Received{Message: m, Stream: meta.Stream, StreamSeq: seq, Delivered: meta.NumDelivered})
}
