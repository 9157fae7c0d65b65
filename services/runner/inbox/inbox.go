// Package inbox connects the runner to its stream: facts and commands on one
// durable consumer, owed model calls on one for each lane.
package inbox

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// fastWorkers is how many facts are handled at once beside the model calls.
const fastWorkers = 64

// Inbox consumes RUNS for one runner process.
type Inbox struct {
	bus       *bus.Bus
	work      []bus.Consumption
	consumers []*bus.Consumer
}

// New returns an inbox that is not consuming yet. hold reports whether this
// process may keep what it claimed and take more; see bus.Consumption.
func New(b *bus.Bus, s *runner.Service, cfg runner.Config, store runner.Store, hold func() bool) *Inbox {
	reject := func(ctx context.Context, m events.Received, code string, err error) error {
		return store.Reject(ctx, m, code, err.Error())
	}
	work := []bus.Consumption{{
		// A fact whose commit took the claim goes on to make the call, so
		// there is a handler for each slot on top of those for facts.
		Stream: events.StreamRuns, Durable: events.ConsumerRunner, Workers: fastWorkers + cfg.ModelSlots,
		Handle: s.Handle, Hold: hold, Take: hold, Reject: reject,
	}}
	for _, lane := range s.Slots().Lanes() {
		work = append(work, bus.Consumption{
			Stream: events.StreamRuns, Durable: events.StepConsumer(lane.What()), Lane: lane,
			Handle: s.HandleStep, Hold: hold, Take: hold, Reject: reject,
		})
	}
	return &Inbox{bus: b, work: work}
}

// Name implements lifecycle.Service.
func (i *Inbox) Name() string { return "runner-inbox" }

// Start begins to consume.
func (i *Inbox) Start(ctx context.Context) error {
	for _, c := range i.work {
		k, err := i.bus.Consume(ctx, c)
		if err != nil {
			return err
		}
		i.consumers = append(i.consumers, k)
	}
	return nil
}

// Run blocks until ctx ends.
func (i *Inbox) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// stopIn is how long a stop takes at most: model calls in flight may finish for a
// second less, then they are handed to another process.
const stopIn = 3 * time.Second

// Stop takes nothing new, lets handlers finish for a short while, then cancels
// them; they hand their work over.
func (i *Inbox) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopIn)
	defer cancel()
	errs := make(chan error, len(i.consumers))
	for _, k := range i.consumers {
		go func() { errs <- k.Stop(ctx) }()
	}
	var all []error
	for range i.consumers {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}
