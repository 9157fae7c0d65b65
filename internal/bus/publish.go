package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
)

const publishTimeout = 5 * time.Second

// Codes of terminal faults that Publish returns.
const CodeTooLarge = "message_too_large"

// Publish stores m in its stream and returns nil when NATS has confirmed it. A
// repeat with the same MsgID within 30 s is confirmed and dropped.
//
// It waits at most five seconds, also for a connection. An error that is not
// ErrDisconnected leaves open whether m was stored; publishing it again with
// the same MsgID is safe. A message that can never be stored is a terminal
// fault with CodeTooLarge. The trace of ctx travels along unless m has one.
func (b *Bus) Publish(ctx context.Context, m events.Message) error {
	msg := encode(ctx, m)
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	repaired := false
	for attempt := 0; ; attempt++ {
		if err := b.waitConnected(ctx); err != nil {
			return fmt.Errorf("publish %s: %w", m.ID, err)
		}
		if err := failpoint.Hit("bus.publishing", m.Subject); err != nil {
			return fmt.Errorf("publish %s: %w", m.ID, err)
		}
		actx, cancel := context.WithTimeout(ctx, patience(attempt)) // a dead server's PubAck never comes
		_, err := b.js.PublishMsg(actx, msg)
		cancel()
		switch {
		case err == nil:
			return failpoint.Hit("bus.published", m.Subject)
		case errors.Is(err, nats.ErrReconnectBufExceeded):
			continue // the line went between the check and the write; nothing was sent
		case errors.Is(err, nats.ErrMaxPayload), errorCode(err) == jetstream.JSErrCodeStreamMessageExceedsMaximum, errorCode(err) == codeHeaderTooLarge:
			return fault.Terminal(CodeTooLarge, fmt.Errorf("publish %s of %d bytes: %w", m.ID, len(m.Data), err))
		case errors.Is(err, jetstream.ErrNoStreamResponse) && !repaired:
			repaired = true
			if rerr := b.reprovision(ctx); rerr == nil {
				continue
			}
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && m.MsgID != "":
			continue // ambiguous, and safe to repeat
		}
		return fmt.Errorf("publish %s: %w", m.ID, err)
	}
}

// PublishAll is Publish for many: all are written before the first confirmation is
// waited for. It returns one error for each message, in their order. After a
// failure that time may cure nothing more is tried.
func (b *Bus) PublishAll(ctx context.Context, all []events.Message) []error {
	open := make([]bool, len(all))
	for i := range open {
		open[i] = true
	}
	if len(all) > 1 && b.nc.IsConnected() {
		b.publishTogether(ctx, all, open)
	}
	failed := make([]error, len(all))
	var stop error
	for i, m := range all {
		switch {
		case !open[i]:
		case stop != nil:
			failed[i] = stop
		default:
			failed[i] = b.Publish(ctx, m)
			if _, terminal := fault.TerminalCode(failed[i]); failed[i] != nil && !terminal {
				stop = failed[i]
			}
		}
	}
	return failed
}

// publishTogether clears open for what NATS has confirmed. The rest may have been
// stored as well; Publish repeats it under the same MsgID.
func (b *Bus) publishTogether(ctx context.Context, all []events.Message, open []bool) {
	acks := make([]jetstream.PubAckFuture, 0, len(all))
	for _, m := range all {
		if failpoint.Hit("bus.publishing", m.Subject) != nil {
			break
		}
		ack, err := b.js.PublishMsgAsync(encode(ctx, m))
		if err != nil {
			break
		}
		acks = append(acks, ack)
	}
	late := time.After(patience(0)) // a dead server's PubAck never comes
	for i, ack := range acks {
		select {
		case <-ack.Ok():
			open[i] = failpoint.Hit("bus.published", all[i].Subject) != nil
		case <-ack.Err():
		case <-late:
			return
		case <-ctx.Done():
			return
		}
	}
}

func encode(ctx context.Context, m events.Message) *nats.Msg {
	if m.TraceParent == "" {
		m.TraceParent = telemetry.TraceParent(ctx)
	}
	return &nats.Msg{Subject: m.Subject, Header: nats.Header(events.EncodeHeaders(m)), Data: m.Data}
}

// codeHeaderTooLarge: 64 KiB of headers at most.
const codeHeaderTooLarge jetstream.ErrorCode = 10097

func errorCode(err error) jetstream.ErrorCode {
	if ae, ok := errors.AsType[*jetstream.APIError](err); ok {
		return ae.ErrorCode
	}
	return 0
}

// PublishLive sends data to whoever listens now and stores nothing. It may be
// lost, also without an error.
func (b *Bus) PublishLive(subject string, data []byte) error {
	if err := b.nc.Publish(subject, data); err != nil {
		return fmt.Errorf("publish live %s: %w", subject, err)
	}
	return nil
}
