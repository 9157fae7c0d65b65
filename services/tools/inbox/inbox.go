// Package inbox connects the tools service to JetStream.
package inbox

import (
	"context"

	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/services/tools"
)

// Consume returns what tools.Deps wants: it starts consumers on b that say
// InProgress only while hold is true.
func Consume(b *bus.Bus, hold func() bool) func(context.Context, tools.Consumption) (tools.Stopper, error) {
	return func(ctx context.Context, c tools.Consumption) (tools.Stopper, error) {
		bc := bus.Consumption{
			Stream: c.Stream, Durable: c.Durable, Workers: c.Workers,
			Handle: c.Handle, Hold: hold, Take: hold, Reject: c.Reject,
		}
		if c.Slots != nil {
			bc.Slots = c.Slots
		}
		return b.Consume(ctx, bc)
	}
}
