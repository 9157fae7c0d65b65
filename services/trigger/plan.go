package trigger

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/holdfast-run/holdfast/pkg/spec"
)

const (
	// planYears bounds how far ahead an interval is looked at, as cron expressions
	// are.
	planYears = 12
	// missedHorizon bounds how far back missed fires are counted.
	missedHorizon = 31 * 24 * time.Hour
	// onTime is how late a fire may be that nothing is to catch up with.
	onTime = time.Minute
)

// upcoming yields the fires of a schedule later than after, in order: its
// expression or interval, within its bounds, without its excluded days, each
// delayed by its jitter.
func upcoming(def Schedule, after time.Time, plan Planner) (iter.Seq[Fire], error) {
	from := after.Add(-def.Jitter) // a fire of before may be delayed until then
	if from.Before(def.StartAt) {
		from = def.StartAt.Add(-time.Nanosecond)
	}
	base, err := nominals(def, from, plan)
	if err != nil {
		return nil, fmt.Errorf("schedule %s: %w", def.Name, err)
	}
	return func(yield func(Fire) bool) {
		var held *Fire // waits for the next one, which bounds its delay
		emit := func(f Fire, gap time.Duration) bool {
			f.At = f.At.Add(delay(def, f, gap))
			return !f.At.After(after) || yield(f)
		}
		for f := range base {
			if !def.EndAt.IsZero() && !f.At.Before(def.EndAt) {
				break
			}
			if def.excludes(f) {
				continue
			}
			if def.Jitter == 0 {
				if !emit(f, 0) {
					return
				}
				continue
			}
			if held != nil && !emit(*held, f.At.Sub(held.At)) {
				return
			}
			held = &f
		}
		if held != nil {
			emit(*held, def.Jitter)
		}
	}, nil
}

// nominals yields the fires later than after, as if nothing bounded or delayed them.
func nominals(def Schedule, after time.Time, plan Planner) (iter.Seq[Fire], error) {
	if def.Every == 0 {
		return plan.Fires(def.Cron, def.TimeZone, after)
	}
	zone, err := time.LoadLocation(def.TimeZone)
	if err != nil {
		return nil, fmt.Errorf("time zone: %w", err)
	}
	step, phase := int64(def.Every/time.Second), int64(def.Offset/time.Second)
	if step <= 0 {
		return nil, fmt.Errorf("every: %s is not an interval", def.Every)
	}
	return func(yield func(Fire) bool) {
		at := phase + floorDiv(after.Unix()-phase, step)*step
		for end := after.AddDate(planYears, 0, 0).Unix(); at < end; at += step {
			t := time.Unix(at, 0)
			if t.After(after) && !yield(Fire{At: t.In(zone), Nominal: t.UTC().Format(intervalNominal)}) {
				return
			}
		}
	}, nil
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// excludes reports whether the day of a fire's nominal time has no fires.
func (def Schedule) excludes(f Fire) bool {
	if len(def.Exclude) == 0 {
		return false
	}
	day, _, err := def.wall(f)
	if err != nil {
		return false
	}
	for _, days := range def.Exclude {
		if days.Has(day) {
			return true
		}
	}
	return false
}

// delay is a fire's part of the jitter, the same in every replica and after
// every restart: a hash of schedule and nominal time within the jitter, and
// never as far as the next fire.
func delay(def Schedule, f Fire, gap time.Duration) time.Duration {
	span := min(def.Jitter, gap).Milliseconds()
	if span <= 0 {
		return 0
	}
	sum := sha256.Sum256([]byte(def.Namespace + "/" + def.Name + "/" + f.Key()))
	return time.Duration(binary.BigEndian.Uint64(sum[:8])%uint64(span)) * time.Millisecond
}

// place computes the hand of a schedule as it should be now; nil when it needs
// no change. have is nil for a schedule without a hand. A definition that cannot
// fire has a hand without a next fire.
//
// A hand that is due is left to the tick, also when the definition has just
// changed: the new version fires what is due by its own expression, so saving a
// schedule at the moment of its fire loses nothing. A schedule that was paused
// goes on with the first fire after now.
func place(def Schedule, have *Hand, now time.Time, plan Planner) *Hand {
	next := Hand{Namespace: def.Namespace, Name: def.Name}
	if have != nil {
		next = *have
	}
	next.Digest, next.Paused, next.Next = def.Digest, def.Paused, nil
	due := have != nil && have.Next != nil && !have.Next.At.After(now)
	switch {
	case def.Paused || def.Broken != nil || next.Pause != nil || def.spent(next.Fired):
	case due && have.Digest == def.Digest:
		return nil
	case due:
		next.Next = firstFire(def, have.Next.At.Add(-time.Nanosecond), plan)
	default:
		next.Next = firstFire(def, now, plan)
	}
	if have != nil && sameHand(*have, next) {
		return nil
	}
	return &next
}

// spent reports whether the clock has started all the runs that it may.
func (def Schedule) spent(fired int64) bool { return def.MaxFires > 0 && fired >= def.MaxFires }

func sameHand(a, b Hand) bool {
	if a.Digest != b.Digest || a.Paused != b.Paused || (a.Next == nil) != (b.Next == nil) {
		return false
	}
	return a.Next == nil || a.Next.At.Equal(b.Next.At) && a.Next.Key() == b.Next.Key()
}

func firstFire(def Schedule, after time.Time, plan Planner) *Fire {
	fires, err := upcoming(def, after, plan)
	if err != nil {
		return nil // refused when it is applied; a row from elsewhere just never fires
	}
	for f := range fires {
		return &f
	}
	return nil
}

// between lists the fires of a schedule later than from and not later than to,
// limit+1 at most.
func between(def Schedule, from, to time.Time, limit int, plan Planner) ([]Fire, error) {
	all, err := upcoming(def, from, plan)
	if err != nil {
		return nil, err
	}
	var fires []Fire
	for f := range all {
		if f.At.After(to) || len(fires) > limit {
			break
		}
		fires = append(fires, f)
	}
	return fires, nil
}

// missed counts fires that nobody was there to make.
type missed struct {
	Count       int64
	First, Last Fire
}

func (m *missed) add(fires ...Fire) {
	for _, f := range fires {
		if m.Count++; m.Count == 1 {
			m.First = f
		}
		m.Last = f
	}
}

// turn is what a hand that is due has before it.
type turn struct {
	Fires  []Fire // to be made, the oldest first
	Next   *Fire
	Missed missed
}

// due decides which fires of a hand that is due are made, by the schedule's
// catch-up policy. window is how late one may be when the schedule does not say.
func due(def Schedule, h Hand, now time.Time, window time.Duration, plan Planner) (turn, error) {
	from := h.Next.At
	if oldest := now.Add(-missedHorizon); from.Before(oldest) {
		from = oldest
	}
	all, err := upcoming(def, from.Add(-time.Nanosecond), plan)
	if err != nil {
		return turn{}, err
	}
	keep, oldest := def.catchUp(now, window)
	var t turn
	for f := range all {
		if f.At.After(now) {
			t.Next = &f
			break
		}
		switch {
		case f.At.Before(oldest):
			t.Missed.add(f)
			continue
		case keep == 0 && len(t.Fires) > 0 && !t.Fires[0].At.Equal(f.At):
			t.Missed.add(t.Fires...)
			t.Fires = nil
		case keep > 0 && len(t.Fires) == keep:
			t.Missed.add(t.Fires[0])
			t.Fires = slices.Delete(t.Fires, 0, 1)
		}
		t.Fires = append(t.Fires, f)
	}
	return t, nil
}

// catchUp says how many late fires are made, 0 for the newest alone, and since
// when they must have been due.
func (def Schedule) catchUp(now time.Time, window time.Duration) (keep int, oldest time.Time) {
	if def.CatchUp.Window > 0 {
		window = def.CatchUp.Window.Std()
	}
	switch def.CatchUp.Policy {
	case spec.CatchUpNone:
		window = min(window, onTime)
	case spec.CatchUpAll:
		keep = def.CatchUp.Cap
		if keep == 0 {
			keep = spec.DefaultCatchUpCap
		}
	}
	return keep, now.Add(-window)
}
