package trigger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/internal/telemetry"
)

// longestNap bounds a wait, so that a hand that another replica or a sync moved
// is seen in time. No replica is told; each looks.
const longestNap = time.Second

// A catch-up makes catchUpStep fires of a schedule and then lets catchUpRest
// pass, in all replicas together, so that it holds up nothing else.
const (
	catchUpStep = 10
	catchUpRest = time.Second
)

// sickFor is how long a schedule that could not be decided is left alone, so that
// it keeps no other from firing.
const sickFor = 5 * time.Second

// sick are the schedules that are left alone, and until when.
type sick map[HandName]time.Time

func (s sick) names(now time.Time) []HandName {
	var names []HandName
	for name, until := range s {
		if now.After(until) {
			delete(s, name)
			continue
		}
		names = append(names, name)
	}
	return names
}

// keepTime fires schedules until ctx ends. Any number of replicas may do it: a
// due hand is locked by the one that takes it, and the fire's row admits one.
func (s *Service) keepTime(ctx context.Context) {
	var nextSync time.Time
	ill := sick{}
	for ctx.Err() == nil {
		if now := time.Now(); !now.Before(nextSync) {
			nextSync = now.Add(s.cfg.SyncEvery)
			if err := s.SyncSchedules(ctx); err != nil && ctx.Err() == nil {
				s.log.WarnContext(ctx, "looking for changed schedules failed", telemetry.KeyErr, err)
			}
			if err := s.releaseHeld(ctx); err != nil && ctx.Err() == nil {
				s.log.WarnContext(ctx, "looking for held deliveries failed", telemetry.KeyErr, err)
			}
		}
		nap, err := s.tick(ctx, ill)
		if err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "firing schedules failed", telemetry.KeyErr, err)
		}
		timer := time.NewTimer(nap)
		select {
		case <-ctx.Done():
		case <-s.sync:
			nextSync = time.Time{}
		case <-timer.C:
		}
		timer.Stop()
	}
}

// Now is the time of day by the database's clock, as it was seen when schedules were
// last looked at: a machine whose clock is wrong takes signed requests all the same. A
// process that has not seen the database yet goes by its own.
func (s *Service) Now() time.Time { return time.Now().Add(-time.Duration(s.ahead.Load())) }

// tick fires everything that is due, lets go what waited, and returns how long
// nothing more is due.
func (s *Service) tick(ctx context.Context, ill sick) (nap time.Duration, err error) {
	for ctx.Err() == nil {
		var (
			name    HandName
			decided error
			tock    Tock
		)
		fired, err := s.store.Tick(ctx, ill.names(time.Now()), func(ctx context.Context, h Held) (Tock, error) {
			name = HandName{h.Namespace, h.Name}
			tock, decided = s.decideTick(ctx, h)
			return tock, decided
		})
		if decided != nil {
			s.leaveAlone(ctx, ill, name, decided)
			continue
		}
		if err != nil {
			return longestNap, err
		}
		if !fired {
			break
		}
		if err := s.made(tock.Fires...); err != nil {
			return longestNap, err
		}
	}
	if err := s.letGo(ctx, ill); err != nil {
		return longestNap, err
	}
	return s.untilDue(ctx, ill.names(time.Now()))
}

// untilDue returns how long nothing is due, longestNap at most, and reads the database's
// clock.
func (s *Service) untilDue(ctx context.Context, but []HandName) (nap time.Duration, err error) {
	asked := time.Now()
	wait, ok, now, err := s.store.UntilDue(ctx, but)
	if err != nil {
		return longestNap, err
	}
	s.ahead.Store(int64(asked.Add(time.Since(asked) / 2).Sub(now)))
	if !ok {
		return longestNap, nil
	}
	return min(max(wait, time.Millisecond), longestNap), nil
}

// leaveAlone leaves a schedule alone for a while, so that it keeps no other waiting.
func (s *Service) leaveAlone(ctx context.Context, ill sick, name HandName, err error) {
	ill[name] = time.Now().Add(sickFor)
	s.log.WarnContext(ctx, "schedule could not be decided", telemetry.KeyNamespace, name.Namespace, "schedule", name.Name, telemetry.KeyErr, err)
}

// made announces what was committed.
func (s *Service) made(fires ...Firing) error {
	for _, f := range fires {
		if f.Delivery == nil {
			continue
		}
		if err := failpoint.Hit("trigger.committed", string(f.Delivery.RunID)); err != nil {
			return err
		}
	}
	s.relay.Kick()
	if s.cancels != nil {
		s.cancels.Kick()
	}
	return nil
}

// decideTick says what a due hand fires. It reads the definition anew: one that
// was changed, paused or deleted since the hand was set never fires as it was.
// When more is due than one step, the hand rests, and others come first.
func (s *Service) decideTick(ctx context.Context, h Held) (tock Tock, err error) {
	def, err := s.definitions.Schedule(ctx, h.Namespace, h.Name)
	if errors.Is(err, ErrNotFound) {
		return Tock{}, nil
	}
	if err != nil {
		return Tock{}, fmt.Errorf("read schedule %s: %w", h.Name, err)
	}
	if def.Digest != h.Digest || def.Paused || def.Broken != nil || def.spent(h.Fired) {
		return Tock{Next: place(def, &h.Hand, h.Now, s.planner)}, nil // never nil: the hand is not what it was set by
	}
	next := h.Hand
	t, err := due(def, h.Hand, h.Now, s.cfg.CatchUp, s.planner)
	if err != nil {
		next.Next = nil // an expression that does not parse has nothing in sight
		return Tock{Next: &next}, nil
	}
	next.Rest = time.Time{}
	if len(t.Fires) > catchUpStep {
		t.Next, t.Fires, next.Rest = &t.Fires[catchUpStep], t.Fires[:catchUpStep], h.Now.Add(catchUpRest)
	}
	next.Next = t.Next
	tock.Next = &next
	if n := t.Missed.Count; n > 0 {
		next.Missed += n
		tock.Fires = append(tock.Fires, missedFiring(def, t.Missed, ReasonMissed))
		s.log.WarnContext(ctx, "schedule missed fires", telemetry.KeyNamespace, h.Namespace, "schedule", h.Name, "missed", n)
	}
	order := fireOrder{origin: OriginClock, overlap: def.Overlap, standing: h.standing(), limit: def.MaxFires - h.Fired, limited: def.MaxFires > 0}
	made, err := s.fireAll(ctx, def, order, t.Fires)
	if err != nil {
		return Tock{}, err
	}
	tock.Fires = append(tock.Fires, made...)
	if def.spent(h.Fired + int64(countMade(made))) {
		next.Next = nil
	}
	return tock, nil
}

// SyncSchedules brings the hands in line with the current definitions. It may
// run in any number of replicas at once.
func (s *Service) SyncSchedules(ctx context.Context) error {
	defs, err := s.definitions.Schedules(ctx, "")
	if err != nil {
		return fmt.Errorf("list schedules: %w", err)
	}
	// Hands are read after the definitions: a schedule that is created in between
	// must not look as if it were gone. One that is deleted in between goes with
	// the next sync, and the tick reads definitions anew.
	hands, now, err := s.store.Hands(ctx, "")
	if err != nil {
		return fmt.Errorf("list hands: %w", err)
	}
	have := map[[2]string]*Hand{}
	for i := range hands {
		have[[2]string{hands[i].Namespace, hands[i].Name}] = &hands[i]
	}
	var errs []error
	for _, def := range defs {
		key := [2]string{def.Namespace, def.Name}
		hand := have[key]
		delete(have, key)
		next := place(def, hand, now, s.planner)
		if next == nil {
			continue
		}
		if def.Broken != nil {
			s.log.ErrorContext(ctx, "schedule cannot be read", telemetry.KeyNamespace, def.Namespace, "schedule", def.Name, telemetry.KeyErr, def.Broken)
		}
		errs = append(errs, s.store.SetHand(ctx, hand, next))
	}
	for _, gone := range have {
		if _, err := s.definitions.Schedule(ctx, gone.Namespace, gone.Name); errors.Is(err, ErrNotFound) {
			errs = append(errs, s.store.SetHand(ctx, gone, nil))
		} else {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Sync asks for SyncSchedules soon; it never blocks.
func (s *Service) Sync() {
	select {
	case s.sync <- struct{}{}:
	default:
	}
}

// releaseHeld lets go what paused webhooks held back and that are not paused any
// more. What a deleted webhook holds stays.
func (s *Service) releaseHeld(ctx context.Context) error {
	held, err := s.store.Held(ctx)
	if err != nil {
		return err
	}
	for _, h := range held {
		def, err := s.definitions.Webhook(ctx, h.Namespace, h.Name)
		switch {
		case errors.Is(err, ErrNotFound) || err == nil && def.Paused:
			continue
		case err != nil:
			return err
		}
		if err := s.store.Release(ctx, h); err != nil {
			return err
		}
		s.relay.Kick()
	}
	return nil
}
