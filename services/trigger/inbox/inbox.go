// Package inbox hands the messages of hf.in.<name> to the trigger service. A
// message is acknowledged after its start is committed, so redelivery repeats
// what a crash cut short, and the delivery's key recognises it.
package inbox

import (
	"context"
	"errors"

	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/trigger"
)

// workers handle messages at the same time. Each does a few statements.
const workers = 16

// Inbox consumes IN. It is started and stopped once.
type Inbox struct {
	bus      *bus.Bus
	consumer *bus.Consumer
}

var _ trigger.Inbox = (*Inbox)(nil)

// New returns an inbox on b, which has the streams set up.
func New(b *bus.Bus) *Inbox { return &Inbox{bus: b} }

// Start implements trigger.Inbox.
func (i *Inbox) Start(ctx context.Context, in trigger.Intake) error {
	if i.consumer != nil {
		return errors.New("the inbox is started already")
	}
	consumer, err := i.bus.Consume(ctx, bus.Consumption{
		Stream:  events.StreamIn,
		Durable: events.ConsumerTrigger,
		Workers: workers,
		Handle:  in.Message,
		Reject:  in.RejectMessage,
	})
	if err != nil {
		return err
	}
	i.consumer = consumer
	return nil
}

// Stop implements trigger.Inbox.
func (i *Inbox) Stop(ctx context.Context) error {
	if i.consumer == nil {
		return nil
	}
	return i.consumer.Stop(ctx)
}
