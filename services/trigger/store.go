package trigger

import (
	"context"
	"time"
)

// Store keeps deliveries and the hands of schedules.
type Store interface {
	// Insert commits d, or finds the delivery that has its key already. The
	// second result reports which.
	Insert(ctx context.Context, d Delivery) (stored Delivery, inserted bool, err error)
	// Find returns the delivery with a key, ErrNotFound without one.
	Find(ctx context.Context, namespace string, s Source, key string) (Delivery, error)
	// Delivery returns one delivery, ErrNotFound when the namespace has none.
	Delivery(ctx context.Context, namespace string, id DeliveryID) (Delivery, error)
	// SweepStarts forgets at most limit starts whose runs were deleted longer ago than
	// age, and returns how many.
	SweepStarts(ctx context.Context, age time.Duration, limit int) (int, error)
	// Held lists the webhooks that hold deliveries back; Release lets those of
	// one go.
	Held(ctx context.Context) ([]HookName, error)
	Release(ctx context.Context, hook HookName) error
	// Reject keeps what can never start a run. Repeats of one message are one row.
	Reject(ctx context.Context, r Rejection) error
	// Backlog tells how many starts no runner has yet, and how old the oldest is.
	Backlog(ctx context.Context) (waiting int64, oldest time.Duration, err error)

	Gates
	Attempts
	Signals
	Runs
	Hands
}

// HookName names a webhook.
type HookName struct{ Namespace, Name string }

// Rejection is what can never start a run.
type Rejection struct {
	Namespace string
	Source    Source
	MessageID string
	Code      string
	Detail    string
	Data      []byte
}
