package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// ForgetEvents drops what EVENTS still has of a run. A repeat changes nothing.
func (b *Bus) ForgetEvents(ctx context.Context, id events.RunID) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	if err := b.waitConnected(ctx); err != nil {
		return fmt.Errorf("forget events of run %s: %w", id, err)
	}
	stream, err := b.js.Stream(ctx, events.StreamEvents)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err == nil {
		err = stream.Purge(ctx, jetstream.WithPurgeSubject(events.RunEventSubject(id)))
	}
	if err != nil {
		return fmt.Errorf("forget events of run %s: %w", id, err)
	}
	return nil
}
