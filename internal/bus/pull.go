package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-run/holdfast/internal/telemetry"
)

// puller fetches deliveries for one consumer. It speaks JetStream's pull
// protocol on one subscription that lives as long as the connection, because a
// subscription per pull, as the library makes it, costs two messages each and
// drops what arrives while it is being closed: a dropped delivery waits a whole
// AckWait. Only the consumer's loop uses it.
// Source: NATS ADR-13, "Pull subscribe internals".
type puller struct {
	consumer *Consumer
	sub      *nats.Subscription
	ch       chan *nats.Msg
	inbox    string
	request  uint64

	// verified is the number of the connection on which the stream and the
	// durable were last seen; -1 before that.
	verified atomic.Int64
	created  time.Time // of the stream
}

// takePoll is how often Take is asked again after a no.
const takePoll = 100 * time.Millisecond

var errStopped = errors.New("consumer stopped")

// loop pulls until the consumer stops, and then looks after the connection for the
// handlers that still work.
func (k *Consumer) loop() {
	k.pullUntilStopped()
	k.puller.close()
	close(k.stopped)
	k.lookUntilDone()
}

// lookUntilDone looks at the stream on each new connection until the handlers have
// ended: what they acknowledge waits for that. Stop ends base.
func (k *Consumer) lookUntilDone() {
	for failures := 0; k.base.Err() == nil; {
		changed := k.bus.watch()
		wait := make(<-chan time.Time) // for ever
		if k.bus.nc.IsConnected() && !k.current() {
			if err := k.puller.verify(patience(failures)); err != nil {
				failures++
				wait = time.After(50 * time.Millisecond)
			} else {
				failures = 0
			}
		}
		select {
		case <-k.base.Done():
		case <-changed:
		case <-wait:
		}
	}
}

// pullUntilStopped pulls until the consumer stops.
func (k *Consumer) pullUntilStopped() {
	p := &k.puller
	failures := 0
	for !k.stopping() {
		if k.c.Take != nil && !k.c.Take() {
			select {
			case <-k.stop:
			case <-time.After(takePoll):
			}
			continue
		}
		err := p.ready(patience(failures))
		if err == nil {
			switch {
			case k.c.Lane != nil:
				err = k.pullForLane()
			case k.c.Slots != nil:
				err = k.pullForSlots()
			default:
				err = k.pullForWorkers()
			}
		}
		if err == nil || errors.Is(err, errStopped) {
			failures = 0
			continue
		}
		p.verified.Store(-1)
		if failures++; failures == 1 || failures%20 == 0 {
			k.log.Warn("pulling failed", telemetry.KeyErr, err)
		}
		select {
		case <-k.stop:
		case <-k.bus.watch():
		case <-time.After(min(time.Duration(failures)*50*time.Millisecond, 500*time.Millisecond)):
		}
	}
}

// pullForWorkers reserves every free worker for one pull.
func (k *Consumer) pullForWorkers() error {
	changed := k.bus.watch()
	if !k.current() {
		return nil
	}
	select {
	case <-k.stop:
		return errStopped
	case <-changed:
		// Handlers that have finished wait for this loop to look at the stream
		// on the new connection; they may be all the workers there are.
		return nil
	case <-k.tokens:
	}
	n := 1
grab:
	for n < pullBatch {
		select {
		case <-k.tokens:
			n++
		default:
			break grab
		}
	}
	free := func() { k.tokens <- struct{}{} }
	left := n
	err := k.puller.pull(n, pullExpiry, func(msg *nats.Msg) {
		if k.start(msg, free) {
			left--
		}
	})
	for range left {
		free()
	}
	return err
}

// pullForSlots takes the free slots and asks for as many messages without
// waiting. When there are none it gives the slots back and waits for one
// message, the doorbell, which holds no slot.
func (k *Consumer) pullForSlots() error {
	slots := k.c.Slots
	left := 0
	for left < pullBatch && slots.TryAcquire() {
		left++
	}
	if left == 0 {
		select {
		case <-k.stop:
			return errStopped
		case <-time.After(slotPoll):
			return nil
		}
	}
	got := 0
	err := k.puller.pull(left, 0, func(msg *nats.Msg) {
		got++
		if left == 0 { // a stray answer to an older pull
			k.startWhenFree(msg)
		} else if k.start(msg, slots.Release) {
			left--
		}
	})
	for range left {
		slots.Release()
	}
	if err != nil || got > 0 {
		return err
	}
	return k.puller.pull(1, pullExpiry, k.startWhenFree)
}

// startWhenFree waits a little for a slot, else another worker gets the message.
func (k *Consumer) startWhenFree(msg *nats.Msg) {
	for deadline := time.Now().Add(slotWait); ; time.Sleep(slotPoll) {
		if k.c.Slots.TryAcquire() {
			if !k.start(msg, k.c.Slots.Release) {
				k.c.Slots.Release()
			}
			return
		}
		if time.Now().After(deadline) || k.stopping() {
			k.handBack(msg)
			return
		}
	}
}

// handBack lets the server deliver msg to somebody else at once, unless a
// handler here works on it.
func (k *Consumer) handBack(msg *nats.Msg) {
	meta, err := msg.Metadata()
	if err != nil {
		return
	}
	key := heldKey{stream: meta.Stream, seq: meta.Sequence.Stream, stored: meta.Timestamp.UnixNano()}
	h, adopted := k.bus.held.take(key, k, msg.Reply, meta.NumDelivered)
	if adopted {
		return
	}
	_ = k.bus.nc.Publish(msg.Reply, wireNak)
	k.bus.held.release(h)
}

// ready sees to it that the stream and the durable exist on this connection and
// that the subscription does.
func (p *puller) ready(patience time.Duration) error {
	k, b := p.consumer, p.consumer.bus
	for !b.nc.IsConnected() {
		changed := b.watch()
		select {
		case <-k.stop:
			return errStopped
		case <-changed:
		case <-time.After(20 * time.Millisecond):
		}
	}
	if err := p.verify(patience); err != nil {
		return err
	}
	if p.sub == nil {
		p.inbox = b.nc.NewInbox()
		p.ch = make(chan *nats.Msg, 8*pullBatch) // a full channel would lose messages
		sub, err := b.nc.ChanSubscribe(p.inbox+".*", p.ch)
		if err != nil {
			return fmt.Errorf("subscribe: %w", err)
		}
		p.sub = sub
	}
	return nil
}

// verify sees to it that the stream and the durable exist on this connection.
func (p *puller) verify(patience time.Duration) error {
	k, b := p.consumer, p.consumer.bus
	connection := b.connection()
	if p.verified.Load() == connection {
		return nil
	}
	ctx, cancel := context.WithTimeout(k.base, patience)
	defer cancel()
	created, err := b.look(ctx, k.c.Stream, k.c.Durable)
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerNotFound) {
		rctx, cancel := context.WithTimeout(k.base, apiTimeout)
		defer cancel()
		if err = b.reprovision(rctx); err == nil {
			k.log.Warn("streams were gone and are set up again")
			created, err = b.look(rctx, k.c.Stream, k.c.Durable)
		}
	}
	if err != nil {
		return fmt.Errorf("look up consumer: %w", err)
	}
	if !p.created.IsZero() && !created.Equal(p.created) {
		if n := b.held.lose(k); n > 0 {
			k.log.Warn("messages are gone with their stream", "count", n)
		}
	}
	p.created = created
	p.verified.Store(connection)
	// Answers to pulls of an older connection must not be taken for new ones.
	p.close()
	return nil
}

// patience is how long to wait for an answer after so many failures: half a
// second, doubling to five. A server that has just come up loses requests, so
// the first one is repeated soon.
func patience(failures int) time.Duration {
	return min(500*time.Millisecond<<min(max(failures, 0), 4), apiTimeout)
}

// look returns when the stream was created; an error when it or the durable is
// absent.
func (b *Bus) look(ctx context.Context, stream, durable string) (created time.Time, err error) {
	s, err := b.js.Stream(ctx, stream)
	if err != nil {
		return time.Time{}, err
	}
	if _, err := s.Consumer(ctx, durable); err != nil {
		return time.Time{}, err
	}
	return s.CachedInfo().Created, nil
}

// pull asks for up to batch messages and calls deliver for each as it arrives.
// With expires zero the server answers at once with what it has; else it waits
// that long. It returns early, with an error, when the pull cannot be trusted.
func (p *puller) pull(batch int, expires time.Duration, deliver func(*nats.Msg)) error {
	k, b := p.consumer, p.consumer.bus
	changed := b.watch()
	p.request++
	reply := p.inbox + "." + strconv.FormatUint(p.request, 10)
	body := fmt.Appendf(nil, `{"batch":%d,"expires":%d}`, batch, expires.Nanoseconds())
	if expires == 0 {
		body = fmt.Appendf(nil, `{"batch":%d,"no_wait":true}`, batch)
	}
	if err := b.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+k.c.Stream+"."+k.c.Durable, reply, body); err != nil {
		return fmt.Errorf("ask for messages: %w", err)
	}
	timeout := time.NewTimer(expires + pullSlack)
	defer timeout.Stop()
	for got := 0; got < batch; {
		select {
		case <-k.stop:
			return errStopped
		case <-changed:
			return errors.New("the connection changed")
		case <-timeout.C:
			p.close() // the server drops an open pull without a subscriber
			if got > 0 {
				return nil
			}
			return errors.New("no answer to a pull")
		case msg := <-p.ch:
			if !p.isStatus(msg) {
				got++
				deliver(msg)
				continue
			}
			if msg.Subject != reply {
				continue // the end of an older pull
			}
			switch status := msg.Header.Get("Status"); status {
			case "100": // still there
			case "404", "408": // nothing, or nothing more
				return nil
			default:
				return fmt.Errorf("pull refused: %s %s", status, msg.Header.Get("Description"))
			}
		}
	}
	return nil
}

// isStatus tells the server's word about a pull from a delivery: deliveries
// keep the subject that they were published on.
func (p *puller) isStatus(msg *nats.Msg) bool { return strings.HasPrefix(msg.Subject, p.inbox) }

// close ends the subscription and hands back what was delivered meanwhile. The
// server drops an open pull whose subscriber is gone.
func (p *puller) close() {
	if p.sub == nil {
		return
	}
	b := p.consumer.bus
	sub := p.sub
	p.sub = nil
	_ = sub.Drain() // keeps what is on its way
	if b.nc.IsConnected() {
		_ = b.nc.FlushTimeout(time.Second) // what was on its way is in the channel now
	}
	for {
		select {
		case msg := <-p.ch:
			if !p.isStatus(msg) && p.consumer.current() {
				p.consumer.handBack(msg)
			}
		default:
			return
		}
	}
}
