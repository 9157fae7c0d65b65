package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/internal/lifecycle"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// Handler works on one message. What it returns decides about the
// acknowledgement; see rule. Its context carries the sender's trace and ends,
// with the cause lifecycle.ErrStopping, only when the consumer gives it up. A
// panic is a terminal fault with code "panic".
type Handler func(ctx context.Context, m events.Received) error

// Slots bounds work that several callers share, such as model calls. TryAcquire
// never blocks; each true is paid back by one Release.
type Slots interface {
	TryAcquire() bool
	Release()
}

// Consumption says what to consume and how.
type Consumption struct {
	// Stream and Durable name a consumer that Provision has set up.
	Stream, Durable string
	// Workers is how many handlers run at once when Slots and Lane are nil; zero means 1.
	Workers int
	// Slots, when set, is asked for each handler. A waiting pull holds no slot.
	Slots Slots
	// Lane, when set, shares slots with other consumptions in turn.
	Lane Lane
	// Handle is required.
	Handle Handler
	// Hold reports whether the process may still claim what it holds; while it
	// is false no InProgress is sent. Nil means always.
	Hold func() bool
	// Take reports whether the process may take new work; while it is false
	// nothing is pulled. A worker that others would judge dead must not be given
	// what it could not work on. Nil means always.
	Take func() bool
	// Reject stores a message that no retry can cure: a terminal fault of Handle
	// (code and err are the fault's) or one that could not be decoded (code
	// "decode"; then only Subject, Data, Stream, StreamSeq and Delivered are
	// sure to be set). When it returns nil the message is terminated, else it
	// comes back. Nil logs the message and lets it come back every five seconds.
	Reject func(ctx context.Context, m events.Received, code string, err error) error
}

// Codes of terminal faults that the bus itself finds.
const (
	CodeDecode = "decode"
	CodePanic  = "panic"
)

const (
	pullExpiry = time.Second            // a stopped worker's open pull may swallow one delivery; keep it short
	pullSlack  = 500 * time.Millisecond // the server's answer to an expired pull may take this long
	slotWait   = 200 * time.Millisecond // how long the doorbell's message waits for a slot
	slotPoll   = 5 * time.Millisecond
	pullBatch  = 256
	// handOver is how much of a stop's time is kept for the handlers that are
	// cancelled, at most half of it.
	handOver = time.Second
	// abandonAfter is how long Stop waits for cancelled handlers. A handler that
	// ignores its context is left behind.
	abandonAfter = 5 * time.Second
)

// Consumer is one running consumption.
type Consumer struct {
	bus *Bus
	c   Consumption
	log *slog.Logger

	base   context.Context // of the handlers
	cancel context.CancelCauseFunc

	tokens   chan struct{} // free workers, when Slots is nil
	handlers sync.WaitGroup
	running  atomic.Int64
	handed   atomic.Int64 // messages given back because the process stops

	puller puller

	stopOnce sync.Once
	stop     chan struct{} // closed: pull no more
	stopped  chan struct{} // closed: the pull loop has ended
}

// Consume starts to consume. ctx bounds the set-up only and lends its values to
// the handlers; the consumer runs until Stop, or until Close of the Bus. It
// pulls for free capacity only, survives restarts of NATS, and sets the streams
// up again when NATS came back without them.
func (b *Bus) Consume(ctx context.Context, c Consumption) (*Consumer, error) {
	switch {
	case c.Handle == nil:
		return nil, errors.New("consume: no handler")
	case c.Stream == "" || c.Durable == "":
		return nil, errors.New("consume: stream and durable are required")
	}
	base, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	k := &Consumer{
		bus: b, c: c, base: base, cancel: cancel,
		log:  b.log.With(telemetry.KeyStream, c.Stream, telemetry.KeyConsumer, c.Durable),
		stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	k.puller = puller{consumer: k}
	k.puller.verified.Store(-1)
	if c.Slots == nil && c.Lane == nil {
		k.tokens = make(chan struct{}, max(c.Workers, 1))
		for range cap(k.tokens) {
			k.tokens <- struct{}{}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		cancel(lifecycle.ErrStopping)
		return nil, errors.New("consume: the bus is closed")
	}
	b.consumers[k] = struct{}{}
	go k.loop()
	return k, nil
}

// Stop pulls no more and lets the handlers finish until a second, or half of the
// time, before ctx ends; then it cancels them with the cause lifecycle.ErrStopping
// and waits for them. What they were working on is delivered to another worker at
// once, and that is a clean end: it returns an error only when a handler ignored its
// context for five seconds. Calling it again waits for the same end.
func (k *Consumer) Stop(ctx context.Context) error {
	k.stopOnce.Do(func() { close(k.stop) })
	done := make(chan struct{})
	go func() {
		<-k.stopped // no handler starts after this
		k.handlers.Wait()
		close(done)
	}()
	var err error
	drained, cancel := untilHandOver(ctx)
	defer cancel()
	select {
	case <-done:
	case <-drained.Done():
		k.cancel(lifecycle.ErrStopping)
		select {
		case <-done:
		case <-time.After(abandonAfter):
			err = fmt.Errorf("stop consumer %s: %d handlers ignore their context", k.c.Durable, k.running.Load())
		}
	}
	k.cancel(lifecycle.ErrStopping)
	if n := k.handed.Swap(0); n > 0 {
		k.log.Info("handed over what was in flight: others go on with it", "steps", n)
	}
	k.bus.mu.Lock()
	delete(k.bus.consumers, k)
	k.bus.mu.Unlock()
	if k.bus.nc.IsConnected() {
		_ = k.bus.nc.FlushTimeout(time.Second) // acknowledgements leave before the caller closes anything
	}
	return err
}

// untilHandOver ends earlier than ctx by what handing over may take.
func untilHandOver(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, end.Add(-min(handOver, max(time.Until(end)/2, 0))))
}

func (k *Consumer) stopping() bool {
	select {
	case <-k.stop:
		return true
	default:
		return false
	}
}

// current reports whether this consumer has looked at its stream since the
// connection was made: before that, what it says about a message might hit
// another message in a new stream.
func (k *Consumer) current() bool {
	return k.bus.nc.IsConnected() && k.puller.verified.Load() == k.bus.connection()
}

// start runs the handler for a delivery, unless it was adopted by the one that
// works on the message already; then it returns false. free is called when the
// handler has ended and its message is settled.
func (k *Consumer) start(msg *nats.Msg, free func()) bool {
	meta, err := msg.Metadata()
	if err != nil {
		k.log.Error("delivery without metadata", telemetry.KeyErr, err)
		return false
	}
	key := heldKey{stream: meta.Stream, seq: meta.Sequence.Stream, stored: meta.Timestamp.UnixNano()}
	h, adopted := k.bus.held.take(key, k, msg.Reply, meta.NumDelivered)
	if adopted {
		k.log.Debug("redelivery adopted", telemetry.KeySeq, key.seq, telemetry.KeyAttempt, meta.NumDelivered)
		return false
	}
	k.running.Add(1)
	k.handlers.Go(func() {
		defer free()
		defer k.running.Add(-1)
		defer k.bus.held.release(h)
		m, err := receive(msg, meta)
		if err != nil {
			err = fault.Terminal(CodeDecode, err)
		} else if err = failpoint.Hit("bus.received", m.Subject); err == nil {
			err = k.call(m)
		}
		k.settle(h, m, err)
	})
	return true
}

// call runs the handler and turns a panic into a terminal fault.
func (k *Consumer) call(m events.Received) (err error) {
	ended := false
	defer func() {
		if ended {
			return
		}
		if p := recover(); p != nil {
			err = fault.Terminal(CodePanic, fmt.Errorf("handler of %s panicked: %v\n%s", m.Type, p, debug.Stack()))
			return
		}
		err = errors.New("handler ended its goroutine")
	}()
	err = k.c.Handle(telemetry.WithTraceParent(k.base, m.TraceParent), m)
	ended = true
	return err
}

// settle does what rule says.
func (k *Consumer) settle(h *held, m events.Received, err error) {
	log := k.log.With(telemetry.KeySeq, m.StreamSeq, telemetry.KeyEvent, m.Type, telemetry.KeyMessageID, m.ID)
	r := rule(err, context.Cause(k.base) == lifecycle.ErrStopping, h.newest())
	if r.action == actReject {
		if rerr := k.reject(m, r.code, err); rerr != nil {
			log.Error("rejecting a message failed", telemetry.KeyErr, rerr, "fault", err)
			r = rule(fmt.Errorf("reject: %w", rerr), context.Cause(k.base) == lifecycle.ErrStopping, h.newest())
		}
	}
	switch r.action {
	case actAck:
		if failpoint.Hit("bus.handled", m.Subject) != nil {
			return // as if the process had ended here
		}
		k.finish(h, wireAck)
		_ = failpoint.Hit("bus.acked", m.Subject) // nothing is left that could fail
	case actDrop:
		log.Info("message belongs to another worker now", telemetry.KeyErr, err)
	case actReject:
		log.Error("message rejected", telemetry.KeyCode, r.code, telemetry.KeyErr, err)
		k.finish(h, append(append([]byte{}, wireTerm...), " "+r.code...))
	case actNak:
		if context.Cause(k.base) == lifecycle.ErrStopping {
			k.handed.Add(1)
		}
		if r.delay > 0 && !errors.Is(err, fault.ErrTurn) {
			log.Warn("message will be tried again", telemetry.KeyErr, err, "delay", r.delay, telemetry.KeyAttempt, h.newest())
		}
		h.mu.Lock()
		if !h.lost && k.current() { // else the server forgets this delivery by itself
			h.released = true
			_ = k.bus.nc.Publish(h.reply, wireNakDelay(spread(r.delay)))
		}
		h.mu.Unlock()
	}
}

func (k *Consumer) reject(m events.Received, code string, err error) error {
	if k.c.Reject == nil {
		return fault.RetryAfter(nakMost, errors.New("nobody stores rejected messages of this consumer"))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.base), 10*time.Second)
	defer cancel()
	return k.c.Reject(telemetry.WithTraceParent(ctx, m.TraceParent), m, code, err)
}

// finish removes the message from its queue. It waits for a connection that is
// known to lead to the same stream, for as long as the consumer runs: without
// the acknowledgement the message would come back and be handled again, which
// is harmless but costs.
func (k *Consumer) finish(h *held, wire []byte) {
	for {
		h.mu.Lock()
		if h.lost {
			h.mu.Unlock()
			k.log.Warn("message is gone with its stream", telemetry.KeySeq, h.key.seq)
			return
		}
		if k.current() && k.bus.nc.Publish(h.reply, wire) == nil {
			h.acked = true
			h.mu.Unlock()
			return
		}
		h.mu.Unlock()
		select {
		case <-k.base.Done():
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (h *held) newest() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.delivered
}

// receive decodes a delivery. Programs that are not ours publish on IN, so a
// message there needs no envelope: its id is ce-id, else Nats-Msg-Id, else its
// place in the stream.
func receive(msg *nats.Msg, meta *nats.MsgMetadata) (events.Received, error) {
	r := events.Received{
		Message: events.Message{Subject: msg.Subject, Data: msg.Data},
		Stream:  meta.Stream, StreamSeq: meta.Sequence.Stream, Delivered: meta.NumDelivered,
	}
	headers := map[string][]string(msg.Header)
	if meta.Stream == events.StreamIn {
		headers = withEnvelope(headers, meta)
	}
	m, err := events.DecodeHeaders(msg.Subject, headers, msg.Data)
	if err != nil {
		return r, err
	}
	r.Message = m
	return r, nil
}
