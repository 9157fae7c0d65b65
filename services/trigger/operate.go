package trigger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Codes of what an operator is refused.
const (
	CodeOverlap     = "overlap"
	CodeNotPaused   = "not_paused"
	CodePausedByDef = "paused_by_definition"
	CodeBackfill    = "invalid_backfill"
	CodeOption      = "invalid_option"
)

const (
	// MaxBackfill is how many fires one request may make.
	MaxBackfill = 1000
	// MaxNote is how long a note may be.
	MaxNote = 1000
)

// readyHand is a hand and the time at which it was read.
type readyHand struct {
	Hand
	Now time.Time
}

// hand returns a schedule and its hand, and gives it one when no replica has yet.
func (s *Service) hand(ctx context.Context, namespace, name string) (Schedule, readyHand, error) {
	def, err := s.scheduleByName(ctx, namespace, name)
	if err != nil {
		return Schedule{}, readyHand{}, err
	}
	for {
		hands, now, err := s.store.Hands(ctx, namespace)
		if err != nil {
			return Schedule{}, readyHand{}, fmt.Errorf("read the hand of %s: %w", name, err)
		}
		if i := slices.IndexFunc(hands, func(h Hand) bool { return h.Name == name }); i >= 0 {
			return def, readyHand{hands[i], now}, nil
		}
		if err := s.store.SetHand(ctx, nil, place(def, nil, now, s.planner)); err != nil {
			return Schedule{}, readyHand{}, err
		}
	}
}

// take holds a schedule's hand while decide looks at its newest version.
func (s *Service) take(ctx context.Context, namespace, name string, decide func(context.Context, Schedule, Held) (Tock, error)) error {
	if _, _, err := s.hand(ctx, namespace, name); err != nil {
		return err
	}
	var tock Tock
	err := s.store.Take(ctx, HandName{namespace, name}, func(ctx context.Context, h Held) (Tock, error) {
		def, err := s.scheduleByName(ctx, namespace, name)
		if err == nil {
			tock, err = decide(ctx, def, h)
		}
		if tock.Next == nil {
			tock.Next = &h.Hand
		}
		return tock, err
	})
	if errors.Is(err, ErrNotFound) {
		return Refuse(CodeUnknownSched, "there is no schedule %q in the namespace %s", name, namespace)
	}
	if err != nil {
		return err
	}
	s.Sync()
	return s.made(tock.Fires...)
}

// NowRequest asks for a run of a schedule at once.
type NowRequest struct {
	Namespace, Name, Principal string
	Key                        string // Idempotency-Key; empty for none
	Overlap                    string // instead of the schedule's policy
}

// NowAnswer is the run that a NowRequest started, or that waits.
type NowAnswer struct {
	Accepted
	Buffered bool // it starts when the run before has ended
}

// TriggerNow starts a run of a schedule at once, also of a paused one, unless
// the overlap policy forbids it. Its input names the present time in the
// schedule's zone. With a key, repeats are answered with the same run.
func (s *Service) TriggerNow(ctx context.Context, r NowRequest) (NowAnswer, error) {
	overlap, err := overlapOf(r.Overlap)
	if err != nil {
		return NowAnswer{}, err
	}
	suffix := "now/" + r.Principal + "/" + r.Key
	if r.Key == "" {
		suffix = "now/" + uuid.NewString()
	}
	suffix = deliveryKey(suffix)
	var answer NowAnswer
	var refused error
	err = s.take(ctx, r.Namespace, r.Name, func(ctx context.Context, def Schedule, h Held) (Tock, error) {
		if def.Broken != nil {
			return Tock{}, fmt.Errorf("read schedule %s: %w", r.Name, def.Broken)
		}
		switch found, err := s.store.FireNow(ctx, HandName{r.Namespace, r.Name}, suffix); {
		case err == nil:
			answer = NowAnswer{Accepted{RunID: found.RunID, Repeat: true}, found.State == FireBuffered}
			return Tock{}, nil
		case !errors.Is(err, ErrNotFound):
			return Tock{}, err
		}
		fire, err := nowFire(def, h.Now)
		if err != nil {
			return Tock{}, err
		}
		order := fireOrder{origin: OriginNow, suffix: suffix, principal: r.Principal, overlap: def.Overlap, standing: h.standing()}
		if overlap.Policy != "" {
			order.overlap = overlap
		}
		firing, err := s.fire(ctx, def, order, fire)
		if err != nil {
			return Tock{}, err
		}
		answer = NowAnswer{Accepted{RunID: firing.RunID}, firing.State == FireBuffered}
		switch firing.State {
		case FireRejected:
			return Tock{}, &Refusal{Code: firing.Reason, Message: firing.Detail} // whoever asked is told; nothing to keep
		case FireSkipped:
			refused = Refuse(CodeOverlap, "schedule %s starts no run now (%s): %s; to start one all the same, ask with overlap=allow", r.Name, firing.Reason, firing.Detail)
			h.Skipped++
			firing.Suffix = "now/" + uuid.NewString() // the key stays free for a later try
		}
		return Tock{Next: &h.Hand, Fires: []Firing{firing}}, nil
	})
	if err == nil {
		err = refused
	}
	return answer, err
}

// nowFire names the present moment as the schedule names its times.
func nowFire(def Schedule, now time.Time) (Fire, error) {
	if def.Every > 0 {
		return Fire{At: now, Nominal: now.UTC().Format(intervalNominal)}, nil
	}
	zone, err := time.LoadLocation(def.TimeZone)
	if err != nil {
		return Fire{}, fmt.Errorf("schedule %s: %w", def.Name, err)
	}
	return Fire{At: now, Nominal: now.In(zone).Format(cronNominal)}, nil
}

func overlapOf(policy string) (spec.Overlap, error) {
	if policy != "" && !slices.Contains(spec.Overlaps, policy) {
		return spec.Overlap{}, Refuse(CodeOption, "overlap %.40q is not one of %v", policy, spec.Overlaps)
	}
	return spec.Overlap{Policy: policy}, nil
}

// PauseRequest asks to pause a schedule, or to go on with it.
type PauseRequest struct {
	Namespace, Name, Principal string
	Note                       string
}

func (r PauseRequest) check() error {
	if len(r.Note) > MaxNote {
		return Refuse(CodeOption, "the note has %d bytes; at most %d are kept", len(r.Note), MaxNote)
	}
	if err := CheckText(r.Note); err != nil {
		return Refuse(CodeInvalidText, "note: %w", err)
	}
	return nil
}

// PauseAnswer says what a pause does not touch.
type PauseAnswer struct {
	Pause Pause
	Open  []events.RunID // go on
}

// PauseSchedule stops a schedule from firing until ResumeSchedule. Runs in
// progress go on. A second pause leaves the first as it is.
func (s *Service) PauseSchedule(ctx context.Context, r PauseRequest) (PauseAnswer, error) {
	if err := r.check(); err != nil {
		return PauseAnswer{}, err
	}
	var answer PauseAnswer
	err := s.take(ctx, r.Namespace, r.Name, func(_ context.Context, def Schedule, h Held) (Tock, error) {
		answer.Open = h.Open
		if h.Pause != nil {
			answer.Pause = *h.Pause
			return Tock{}, nil
		}
		tock := Tock{Note: &PauseNote{Paused: true, By: r.Principal, Note: r.Note}}
		if h.Next != nil && !h.Next.At.After(h.Now) && def.Broken == nil {
			// Due, and nobody had made it yet.
			fires, err := between(def, h.Next.At.Add(-time.Nanosecond), h.Now, MaxBackfill, s.planner)
			if err != nil {
				return Tock{}, err
			}
			var m missed
			if m.add(fires...); m.Count > 0 {
				tock.Fires = []Firing{missedFiring(def, m, ReasonPaused)}
				h.Skipped += m.Count
			}
		}
		answer.Pause = Pause{At: h.Now, By: r.Principal, Note: r.Note}
		h.Next, h.Hand.Pause = nil, &answer.Pause
		tock.Next = &h.Hand
		return tock, nil
	})
	return answer, err
}

// ResumeRequest asks to go on with a paused schedule.
type ResumeRequest struct {
	PauseRequest
	Backfill bool // make the fires that passed meanwhile, once
	DryRun   bool // only count
}

// ResumeAnswer says what passed during the pause and what comes next.
type ResumeAnswer struct {
	Passed   int   // fires that the pause let pass
	More     bool  // Passed is where counting stopped
	Backfill Tally // of the fires that Backfill made
	Next     *Fire
}

// ResumeSchedule ends an operator's pause. The schedule goes on with the first
// fire after now; what passed meanwhile is made only when the request says so.
func (s *Service) ResumeSchedule(ctx context.Context, r ResumeRequest) (ResumeAnswer, error) {
	if err := r.check(); err != nil {
		return ResumeAnswer{}, err
	}
	var answer ResumeAnswer
	err := s.take(ctx, r.Namespace, r.Name, func(ctx context.Context, def Schedule, h Held) (Tock, error) {
		answer = ResumeAnswer{}
		switch {
		case h.Pause == nil && def.Paused:
			return Tock{}, Refuse(CodePausedByDef, "schedule %s is paused by its definition; apply it with \"paused: false\"", r.Name)
		case h.Pause == nil:
			return Tock{}, Refuse(CodeNotPaused, "schedule %s is not paused", r.Name)
		case def.Broken != nil:
			return Tock{}, fmt.Errorf("read schedule %s: %w", r.Name, def.Broken)
		}
		passed, err := between(def, h.Pause.At, h.Now, MaxBackfill, s.planner)
		if err != nil {
			return Tock{}, err
		}
		answer.Passed, answer.More = min(len(passed), MaxBackfill), len(passed) > MaxBackfill
		if answer.More && r.Backfill {
			return Tock{}, Refuse(CodeBackfill, "more than %d fires passed since %s; resume without them, then backfill them in parts",
				MaxBackfill, h.Pause.At.UTC().Format(time.RFC3339))
		}
		hand := h.Hand
		hand.Pause = nil
		if next := place(def, &Hand{Namespace: h.Namespace, Name: h.Name, Fired: h.Fired}, h.Now, s.planner); next != nil {
			hand.Next, hand.Digest, hand.Paused = next.Next, next.Digest, next.Paused
		}
		answer.Next = hand.Next
		tock := Tock{Next: &hand, Note: &PauseNote{By: r.Principal, Note: r.Note}}
		switch {
		case r.Backfill:
			tock.Fires, answer.Backfill, err = s.backfillFires(ctx, def, h, backfillOrder{principal: r.Principal}, passed)
		case len(passed) > 0:
			var m missed
			m.add(passed...)
			tock.Fires = []Firing{missedFiring(def, m, ReasonPaused)}
			hand.Skipped += m.Count
		}
		if r.DryRun {
			return Tock{}, err
		}
		return tock, err
	})
	return answer, err
}
