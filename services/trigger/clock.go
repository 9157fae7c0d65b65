package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// longestNap bounds a wait, so that a hand that another replica or a sync moved
// is seen in time. No replica is told; each looks.
const longestNap = time.Second

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

// tick fires everything that is due and returns how long nothing more is.
func (s *Service) tick(ctx context.Context, ill sick) (nap time.Duration, err error) {
	for ctx.Err() == nil {
		var (
			tock    Tock
			name    HandName
			decided error
		)
		fired, err := s.store.Tick(ctx, ill.names(time.Now()), func(ctx context.Context, h Hand, now time.Time) (Tock, error) {
			name = HandName{h.Namespace, h.Name}
			tock, decided = s.decideTick(ctx, h, now)
			return tock, decided
		})
		if decided != nil {
			ill[name] = time.Now().Add(sickFor)
			s.log.WarnContext(ctx, "schedule could not be decided", telemetry.KeyNamespace, name.Namespace, "schedule", name.Name, telemetry.KeyErr, decided)
			continue
		}
		if err != nil {
			return longestNap, err
		}
		if !fired {
			break
		}
		for _, f := range tock.Fires {
			if f.Delivery == nil {
				continue
			}
			if err := failpoint.Hit("trigger.committed", string(f.Delivery.RunID)); err != nil {
				return longestNap, err
			}
		}
		s.relay.Kick()
	}
	wait, ok, err := s.store.UntilDue(ctx, ill.names(time.Now()))
	if err != nil || !ok {
		return longestNap, err
	}
	return min(max(wait, time.Millisecond), longestNap), nil
}

// decideTick says what a due hand fires. It reads the definition anew: one that
// was changed, paused or deleted since the hand was set never fires as it was.
func (s *Service) decideTick(ctx context.Context, h Hand, now time.Time) (Tock, error) {
	def, err := s.definitions.Schedule(ctx, h.Namespace, h.Name)
	if errors.Is(err, ErrNotFound) {
		return Tock{}, nil
	}
	if err != nil {
		return Tock{}, fmt.Errorf("read schedule %s: %w", h.Name, err)
	}
	if def.Digest != h.Digest || def.Paused || def.Broken != nil {
		return Tock{Next: place(def, &h, now, s.planner)}, nil // never nil: the hand is not what it was set by
	}
	next := h
	fires, following, missed, err := due(def, h, now, s.cfg.CatchUp, s.planner)
	if err != nil {
		next.Next = nil // an expression that does not parse has nothing in sight
		return Tock{Next: &next}, nil
	}
	next.Next, next.Missed = following, h.Missed+missed
	if missed > 0 {
		s.log.WarnContext(ctx, "schedule missed fires", telemetry.KeyNamespace, h.Namespace, "schedule", h.Name, "missed", missed)
	}
	tock := Tock{Next: &next}
	for _, fire := range fires {
		firing, err := s.fire(ctx, def, fire)
		if err != nil {
			return Tock{}, err
		}
		tock.Fires = append(tock.Fires, firing)
	}
	return tock, nil
}

// fire prepares the start that one fire makes.
func (s *Service) fire(ctx context.Context, def Schedule, fire Fire) (Firing, error) {
	firing := Firing{Fire: fire, Digest: def.Digest}
	st, err := scheduleStart(def, fire)
	if err == nil {
		var d Delivery
		if d, err = s.prepare(ctx, st); err == nil {
			firing.Delivery = &d
			return firing, nil
		}
	}
	refusal, refused := AsRefusal(err)
	if !refused {
		return Firing{}, err
	}
	s.log.ErrorContext(ctx, "schedule could start nothing", telemetry.KeyNamespace, def.Namespace, "schedule", def.Name,
		telemetry.KeyCode, refusal.Code, telemetry.KeyErr, refusal)
	firing.Rejected = &Rejection{
		Namespace: def.Namespace,
		Source:    Source{Kind: SourceSchedule, Name: def.Name},
		MessageID: fire.Key(),
		Code:      refusal.Code,
		Detail:    refusal.Error(),
	}
	return firing, nil
}

// scheduleStart maps a fire to a start.
func scheduleStart(def Schedule, fire Fire) (Start, error) {
	values, err := scheduleValues(def, fire)
	if err != nil {
		return Start{}, err
	}
	input := json.RawMessage("{}")
	if def.Input != nil {
		if input, err = def.Input.Render(values); err != nil {
			return Start{}, Refuse(CodeMapping, "schedule %s: input: %w", def.Name, err)
		}
	}
	return Start{
		Namespace: def.Namespace,
		Source:    Source{Kind: SourceSchedule, Name: def.Name},
		Key:       fire.Key(),
		Digest:    events.DigestOf([]byte(fire.Key())),
		Kind:      def.Kind,
		Name:      def.Target,
		Input:     input,
		Principal: "schedule/" + def.Name,
	}, nil
}

// scheduleValues are what a schedule's input template may name: the wall time
// that was asked for, also when the clock shifted the fire.
func scheduleValues(def Schedule, fire Fire) (map[string]json.RawMessage, error) {
	date, clock, ok := cut(fire.Nominal)
	if !ok {
		return nil, fmt.Errorf("nominal time %q of schedule %s", fire.Nominal, def.Name)
	}
	value, err := events.Marshal(map[string]string{
		"name":     def.Name,
		"nominal":  fire.Nominal,
		"date":     date,
		"time":     clock,
		"timeZone": def.TimeZone,
		"at":       fire.At.UTC().Format(time.RFC3339),
	})
	return map[string]json.RawMessage{"schedule": value}, err
}

// cut splits "2026-03-08T02:00".
func cut(nominal string) (date, clock string, ok bool) {
	if len(nominal) != len("2006-01-02T15:04") || nominal[10] != 'T' {
		return "", "", false
	}
	return nominal[:10], nominal[11:], true
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
