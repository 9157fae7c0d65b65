package bus

import (
	"fmt"

	"github.com/nats-io/nats.go"
)

// Bounds of what waits for one live listener; more is lost.
const (
	livePendingMessages = 1024
	livePendingBytes    = 4 << 20
)

// ListenLive hands what is published live on subject from now on to handle, one
// message at a time, until stop is called. It goes on after a reconnect; what
// was sent meanwhile is lost.
func (b *Bus) ListenLive(subject string, handle func(data []byte)) (stop func(), err error) {
	sub, err := b.nc.Subscribe(subject, func(m *nats.Msg) { handle(m.Data) })
	if err != nil {
		return nil, fmt.Errorf("listen live to %s: %w", subject, err)
	}
	if err := sub.SetPendingLimits(livePendingMessages, livePendingBytes); err != nil {
		return nil, fmt.Errorf("listen live to %s: %w", subject, err)
	}
	return func() { _ = sub.Unsubscribe() }, nil
}
