package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// ErrNoResponders says that nobody listens on the subject of a request.
var ErrNoResponders = errors.New("no responders")

// ErrUnsendable says that a request cannot be sent as it is, for its size.
var ErrUnsendable = errors.New("request cannot be sent")

// Reply answers a request.
type Reply struct {
	Header map[string][]string
	Data   []byte
}

// Request asks on a subject without a stream and waits until ctx ends. Nothing
// is stored and nothing repeated. ErrDisconnected, ErrNoResponders and
// ErrUnsendable say that nobody got it; any other error leaves that open.
func (b *Bus) Request(ctx context.Context, subject string, header map[string][]string, data []byte) (Reply, error) {
	if !b.nc.IsConnected() {
		return Reply{}, fmt.Errorf("ask %s: %w", subject, ErrDisconnected)
	}
	m, err := b.nc.RequestMsgWithContext(ctx, &nats.Msg{Subject: subject, Header: header, Data: data})
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		err = ErrNoResponders
	case errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionClosed):
		err = ErrDisconnected
	case errors.Is(err, nats.ErrMaxPayload):
		err = fmt.Errorf("%w: %w", ErrUnsendable, err)
	case errors.Is(err, nats.ErrPermissionViolation):
		err = fmt.Errorf("%w: %w", ErrUnsendable, err)
	}
	if err != nil {
		return Reply{}, fmt.Errorf("ask %s: %w", subject, err)
	}
	return Reply{Header: m.Header, Data: m.Data}, nil
}

// maxGathered bounds the replies that Gather keeps.
const maxGathered = 1000

// Gather asks on a subject that many may answer and returns what came until ctx
// ends, or until none has come for a third of a second after the first.
func (b *Bus) Gather(ctx context.Context, subject string) ([]Reply, error) {
	if !b.nc.IsConnected() {
		return nil, fmt.Errorf("ask %s: %w", subject, ErrDisconnected)
	}
	inbox := b.nc.NewInbox()
	sub, err := b.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", subject, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection may be gone, and the subscription with it
	if err := b.nc.PublishRequest(subject, inbox, nil); err != nil {
		return nil, fmt.Errorf("ask %s: %w", subject, err)
	}
	var out []Reply
	for len(out) < maxGathered {
		next, cancel := ctx, context.CancelFunc(func() {})
		if len(out) > 0 {
			next, cancel = context.WithTimeout(ctx, 333*time.Millisecond)
		}
		m, err := sub.NextMsgWithContext(next)
		cancel()
		switch {
		case errors.Is(err, nats.ErrNoResponders), err != nil && next.Err() != nil:
			return out, nil
		case err != nil:
			return out, fmt.Errorf("ask %s: %w", subject, err)
		}
		if len(m.Data) > 0 {
			out = append(out, Reply{Header: m.Header, Data: m.Data})
		}
	}
	return out, nil
}
