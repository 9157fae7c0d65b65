package bus

import (
	"context"
	"fmt"
)

// Lag says how far behind a consumer is.
type Lag struct {
	Pending     uint64 // not yet delivered
	AckPending  uint64 // delivered and not yet acknowledged
	Redelivered int    // of AckPending, delivered more than once
}

// Lag asks the server about one durable consumer.
func (b *Bus) Lag(ctx context.Context, stream, durable string) (Lag, error) {
	c, err := b.js.Consumer(ctx, stream, durable)
	if err != nil {
		return Lag{}, fmt.Errorf("lag of %s: %w", durable, err)
	}
	info := c.CachedInfo()
	return Lag{
		Pending:     info.NumPending,
		AckPending:  uint64(max(info.NumAckPending, 0)),
		Redelivered: info.NumRedelivered,
	}, nil
}
