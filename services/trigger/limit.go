package trigger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// Codes of what a limit refuses. The sender may try again.
const (
	CodeRateLimited = "rate_limited"
	CodeInFlight    = "too_many_in_flight"
)

// fullFor is how long the sender of a webhook with too many runs in flight is
// asked to wait: nobody knows when one ends.
const fullFor = 15 * time.Second

// Limits bound what starts of a webhook are let in. Zero fields are no bound.
type Limits struct {
	PerMinute, Burst int64 // Burst is 1 or more where PerMinute is
	InFlight         int64 // runs that are accepted and have not ended
}

// Gates keep the limits of webhooks, over all replicas.
type Gates interface {
	// Enter lets the start of run in, or says why not. With InFlight, run takes a
	// place until it has ended.
	Enter(ctx context.Context, hook HookName, run events.RunID, l Limits) (Entrance, error)
	// Leave gives back the place of a run that was not started after all.
	Leave(ctx context.Context, run events.RunID) error
}

// Entrance is a gate's answer; the zero value lets in.
type Entrance struct {
	Wait time.Duration // not zero: too many came; one more may after this
	Full bool          // too many are in flight
}

// enter asks the limits of a start's webhook. A start whose key is known costs
// nothing: it is found, and started before. A held start takes no place, since
// its sender may not try again.
func (s *Service) enter(ctx context.Context, st Start, d Delivery) (found *Delivery, err error) {
	l := st.Limits
	if st.Held {
		l.InFlight = 0
	}
	if l.PerMinute == 0 && l.InFlight == 0 {
		return nil, nil
	}
	if d.Key != "" {
		switch before, err := s.store.Find(ctx, d.Namespace, d.Source, d.Key); {
		case err == nil:
			return &before, nil
		case !errors.Is(err, ErrNotFound):
			return nil, err
		}
	}
	answer, err := s.store.Enter(ctx, HookName{d.Namespace, d.Source.Name}, d.RunID, l)
	switch {
	case err != nil:
		return nil, fmt.Errorf("ask the limits of webhook %s: %w", d.Source.Name, err)
	case answer.Wait > 0:
		r := Refuse(CodeRateLimited, "webhook %s starts at most %d runs a minute, %d at once; send it again later", d.Source.Name, l.PerMinute, l.Burst)
		r.After = answer.Wait
		return nil, r
	case answer.Full:
		r := Refuse(CodeInFlight, "webhook %s has %d runs that have not ended, which is its limit; send it again later", d.Source.Name, l.InFlight)
		r.After = fullFor
		return nil, r
	}
	return nil, nil
}

// giveBack gives back the place of a start that was a repeat.
func (s *Service) giveBack(ctx context.Context, st Start, d Delivery) {
	if st.Limits.InFlight == 0 || st.Held {
		return
	}
	if err := s.store.Leave(ctx, d.RunID); err != nil { // it is swept later
		s.log.WarnContext(ctx, "place of a repeated start was not given back", telemetry.KeyRunID, d.RunID, telemetry.KeyErr, err)
	}
}
