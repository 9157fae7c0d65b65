package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Labels of the runs that schedules start.
const (
	LabelSchedule        = "schedule"
	LabelScheduleVersion = "schedule_version" // the digest of the version that fired
)

// fireOrder is how a schedule's fires are to be made.
type fireOrder struct {
	origin    string
	suffix    string
	principal string // "" is the schedule itself
	overlap   spec.Overlap
	standing  standing
	limit     int64 // how many may be made, when limited
	limited   bool
}

// fireAll prepares fires in order, each by what the ones before it leave under
// way.
func (s *Service) fireAll(ctx context.Context, def Schedule, order fireOrder, fires []Fire) ([]Firing, error) {
	var all []Firing
	for _, f := range fires {
		if order.limited && int64(countMade(all)) >= order.limit {
			break
		}
		firing, err := s.fire(ctx, def, order, f)
		if err != nil {
			return nil, err
		}
		if firing.State != FireRejected {
			order.standing = order.standing.after(verdict{state: firing.State, supersede: firing.Supersede}, firing.RunID)
		}
		all = append(all, firing)
	}
	return all, nil
}

// countMade counts the fires that start a run, now or later.
func countMade(fires []Firing) (n int) {
	for _, f := range fires {
		if f.State == FireStarted || f.State == FireBuffered {
			n++
		}
	}
	return n
}

// fire prepares what one fire makes: a start, a place in the queue, or a reason
// why there is neither.
func (s *Service) fire(ctx context.Context, def Schedule, order fireOrder, fire Fire) (Firing, error) {
	v := order.standing.admit(order.overlap)
	firing := Firing{
		Fire: fire, Suffix: order.suffix, Origin: order.origin, Principal: order.principal, Digest: def.Digest,
		State: v.state, Reason: v.reason, Detail: v.detail, Cancel: v.cancel, Supersede: v.supersede,
	}
	if v.state == FireSkipped {
		firing.Skips = 1
		s.log.InfoContext(ctx, "schedule skipped a fire", telemetry.KeyNamespace, def.Namespace, "schedule", def.Name, "reason", v.reason)
		return firing, nil
	}
	return s.start(ctx, def, firing)
}

// start prepares the delivery of a firing, by the definitions of this moment. A
// fire that is buffered is checked and prepared again when its time has come.
func (s *Service) start(ctx context.Context, def Schedule, firing Firing) (Firing, error) {
	st, err := scheduleStart(def, firing.Fire)
	if err == nil {
		st.Key = firing.Key()
		st.Digest = events.DigestOf([]byte(st.Key))
		if firing.Principal != "" {
			st.Principal = firing.Principal
		}
		var d Delivery
		if d, err = s.prepare(ctx, st); err == nil {
			if firing.RunID != "" {
				d.RunID = firing.RunID // promised when the fire was buffered
			}
			firing.RunID = d.RunID
			if firing.State == FireStarted {
				firing.Delivery = &d
			}
			return firing, nil
		}
	}
	refusal, refused := AsRefusal(err)
	if !refused {
		return Firing{}, err
	}
	s.log.ErrorContext(ctx, "schedule could start nothing", telemetry.KeyNamespace, def.Namespace, "schedule", def.Name,
		telemetry.KeyCode, refusal.Code, telemetry.KeyErr, refusal)
	firing.State, firing.Reason, firing.Detail = FireRejected, refusal.Code, refusal.Error()
	firing.RunID, firing.Cancel, firing.Supersede = "", nil, false
	firing.Rejected = &Rejection{
		Namespace: def.Namespace,
		Source:    Source{Kind: SourceSchedule, Name: def.Name},
		MessageID: firing.Key(),
		Code:      refusal.Code,
		Detail:    refusal.Error(),
	}
	return firing, nil
}

// missedFiring is the one row for fires that passed without a run.
func missedFiring(def Schedule, m missed, reason string) Firing {
	return Firing{
		Fire: m.Last, Origin: OriginClock, Digest: def.Digest, State: FireSkipped, Reason: reason, Skips: m.Count,
		Detail: fmt.Sprintf("%d from %s to %s", m.Count, m.First.Nominal, m.Last.Nominal),
	}
}

// letGo starts fires that waited for the end of a run, one per schedule and look.
func (s *Service) letGo(ctx context.Context, ill sick) error {
	if err := s.store.NoteEnds(ctx); err != nil {
		return err
	}
	for ctx.Err() == nil {
		var (
			name    HandName
			decided error
			firing  Firing
		)
		released, err := s.store.ReleaseFire(ctx, ill.names(time.Now()), func(ctx context.Context, h Held, f PastFire) (Firing, error) {
			name = HandName{h.Namespace, h.Name}
			firing, decided = s.decideRelease(ctx, h, f)
			return firing, decided
		})
		if decided != nil {
			s.leaveAlone(ctx, ill, name, decided)
			continue
		}
		if err != nil || !released {
			return err
		}
		if err := s.made(firing); err != nil {
			return err
		}
	}
	return nil
}

// decideRelease says what becomes of a fire whose turn has come. It starts what
// is defined now, and nothing by the clock once the schedule is paused or gone.
func (s *Service) decideRelease(ctx context.Context, h Held, f PastFire) (Firing, error) {
	firing := Firing{
		Fire:   Fire{At: f.DueAt, Nominal: f.Nominal, Fold: f.Fold},
		Suffix: f.Suffix, Origin: f.Origin, Principal: f.Principal, Digest: f.Digest, State: FireSkipped, Skips: 1,
	}
	def, err := s.definitions.Schedule(ctx, h.Namespace, h.Name)
	switch {
	case errors.Is(err, ErrNotFound):
		firing.Reason = ReasonDeleted
	case err != nil:
		return Firing{}, fmt.Errorf("read schedule %s: %w", h.Name, err)
	case def.Broken != nil:
		firing.Reason, firing.Detail = ReasonReturned, def.Broken.Error()
	case f.Origin == OriginClock && (def.Paused || h.Pause != nil):
		firing.Reason = ReasonPaused
	default:
		firing.State, firing.Skips, firing.RunID, firing.Digest = FireStarted, 0, f.RunID, def.Digest
		return s.start(ctx, def, firing)
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
		Kind:      def.Kind,
		Name:      def.Target,
		Input:     input,
		Labels:    map[string]string{LabelSchedule: def.Name, LabelScheduleVersion: string(def.Digest)},
		Principal: "schedule/" + def.Name,
		Deadline:  deadlineText(def.Deadline),
		Priority:  def.Priority,
	}, nil
}

// scheduleValues are what a schedule's input template may name: the time that
// was asked for, also when the clock shifted the fire.
func scheduleValues(def Schedule, fire Fire) (map[string]json.RawMessage, error) {
	day, clock, err := def.wall(fire)
	if err != nil {
		return nil, err
	}
	value, err := events.Marshal(map[string]string{
		"name":     def.Name,
		"nominal":  fire.Nominal,
		"date":     day,
		"time":     clock,
		"timeZone": def.TimeZone,
		"at":       fire.At.UTC().Format(time.RFC3339),
	})
	return map[string]json.RawMessage{"schedule": value}, err
}
