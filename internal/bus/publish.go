package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

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
	if m.TraceParent == "" {
		m.TraceParent = telemetry.TraceParent(ctx)
	}
	msg := &nats.Msg{Subject: m.Subject, Header: nats.Header(events.EncodeHeaders(m)), Data: m.Data}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	repaired := false
	for attempt := 0; ; attempt++ {
		if err := b.waitConnected(ctx); err != nil {
			return fmt.Errorf("publish %s: %w", m.ID, err)
		}
		actx, cancel := context.WithTimeout(ctx, patience(attempt)) // a dead server's PubAck never comes
		_, err := b.js.PublishMsg(actx, msg)
		cancel()
		switch {
		case err == nil:
			return nil
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
