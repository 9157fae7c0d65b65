package trigger

import (
	"context"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
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
	// Deliveries lists a namespace's deliveries, newest first, older than before
	// unless that is empty.
	Deliveries(ctx context.Context, namespace string, before DeliveryID, limit int) ([]Delivery, error)
	// Held lists the webhooks that hold deliveries back; Release lets those of
	// one go.
	Held(ctx context.Context) ([]HookName, error)
	Release(ctx context.Context, hook HookName) error
	// Reject keeps what can never start a run. Repeats of one message are one row.
	Reject(ctx context.Context, r Rejection) error

	Attempts
	Hands
}

// Hands keeps the hand of each schedule: when it fires next.
type Hands interface {
	// Hands lists the hands of a namespace, of all when it is empty, and the
	// database's time.
	Hands(ctx context.Context, namespace string) ([]Hand, time.Time, error)
	// SetHand stores next unless somebody changed the hand since have was read.
	// have is nil for a schedule without a hand, next for one that is gone.
	SetHand(ctx context.Context, have, next *Hand) error
	// Tick takes one hand that is due, that no other replica holds and that is not
	// among but, lets decide say what it fires, and commits that. fired is false
	// when none is due. decide gets the database's time; its error is returned
	// and changes nothing.
	Tick(ctx context.Context, but []HandName, decide func(ctx context.Context, h Hand, now time.Time) (Tock, error)) (fired bool, err error)
	// UntilDue is how long until the next hand that is not among but is due; ok is
	// false when there is none.
	UntilDue(ctx context.Context, but []HandName) (wait time.Duration, ok bool, err error)
	// LastFires returns the newest fire of each schedule of a namespace.
	LastFires(ctx context.Context, namespace string) (map[string]PastFire, error)
}

// HandName names a schedule.
type HandName struct{ Namespace, Name string }

// Hand is when one schedule fires next.
type Hand struct {
	Namespace, Name string
	Digest          events.Digest // of the version it was computed from
	Paused          bool
	Next            *Fire // nil: paused, or nothing in sight
	Missed          int64 // fires that were skipped because they were found too late
	Version         int64 // counts changes of the row
}

// Tock is what became of a due hand.
type Tock struct {
	Next  *Hand // nil: the schedule is gone
	Fires []Firing
}

// Firing is one fire and the start that it makes, or why it makes none.
type Firing struct {
	Fire     Fire
	Digest   events.Digest // of the schedule's version
	Delivery *Delivery
	Rejected *Rejection
}

// PastFire is a fire that happened.
type PastFire struct {
	Nominal string
	Fold    int
	FiredAt time.Time
	RunID   events.RunID // empty when it could start nothing
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
