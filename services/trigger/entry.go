package trigger

import (
	"context"
	"time"
)

// Attempts keeps the delivery log.
type Attempts interface {
	// KeepAttempt adds an entry. One with its ID is the same entry.
	KeepAttempt(ctx context.Context, a *Attempt) error
	// Attempt returns one entry with its body, ErrNotFound when the namespace has
	// none.
	Attempt(ctx context.Context, namespace string, id DeliveryID) (Attempt, error)
	// ReplayableAttempts lists the entries to replay, oldest first, without
	// bodies.
	ReplayableAttempts(ctx context.Context, namespace string, f ReplayFilter, limit int) ([]Attempt, error)
	// SweepAttempts removes at most limit entries older than age, the oldest
	// first, and returns how many.
	SweepAttempts(ctx context.Context, age time.Duration, limit int) (int, error)
	// Entries lists a namespace's log and its accepted starts, newest first,
	// without inputs and bodies.
	Entries(ctx context.Context, namespace string, f EntryFilter, before DeliveryID, limit int) ([]Entry, error)
}

// Entry is one line of what is shown as deliveries: a request at a webhook, a
// start from elsewhere, or both sides of an accepted request.
type Entry struct {
	ID       DeliveryID
	Attempt  *Attempt  // nil: a start of the API, a schedule or a message, or swept
	Delivery *Delivery // nil: it made none
}

// EntryFilter narrows a list of entries. Zero fields do not narrow.
type EntryFilter struct {
	Webhook, Outcome string
	Since            time.Time
	Until            time.Time // received before
}

// SweepLog removes the entries of the delivery log that are older than its
// retention. Run does it now and then.
func (s *Service) SweepLog(ctx context.Context) error {
	return s.attempts.sweep(ctx, s.cfg.DeliveryRetention)
}

// Entries lists the delivery log, newest first.
func (s *Service) Entries(ctx context.Context, namespace string, f EntryFilter, before DeliveryID, limit int) ([]Entry, error) {
	return s.store.Entries(ctx, namespace, f, before, limit)
}

// Entry returns one entry of the delivery log, with its body and its input.
func (s *Service) Entry(ctx context.Context, namespace string, id DeliveryID) (Entry, error) {
	e := Entry{ID: id}
	a, err := s.store.Attempt(ctx, namespace, id)
	switch {
	case err == nil:
		e.Attempt = &a
	case !isNotFound(err):
		return Entry{}, err
	}
	d, err := s.store.Delivery(ctx, namespace, id)
	switch {
	case err == nil:
		e.Delivery = &d
	case !isNotFound(err):
		return Entry{}, err
	case e.Attempt == nil:
		return Entry{}, Refuse(CodeUnknownDelivery, "there is no delivery %q in the namespace %s", id, namespace)
	}
	return e, nil
}
