package trigger

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/pkg/spec"
)

// BackfillRequest asks for the fires of a range of time.
type BackfillRequest struct {
	Namespace, Name, Principal string
	From, To                   time.Time // both ends in it
	Overlap                    string    // default: one after the other, unless the schedule allows overlap
	Force                      string    // when set, fires that ran run again, once per value
	DryRun                     bool      // only count
}

// Tally says what became of a number of fires.
type Tally struct {
	Fires    int // in the range
	Known    int // had run, or wait, and are left alone
	Started  int
	Buffered int
	Skipped  int
	Rejected int
}

// Backfill makes the fires of a range that have not run. They have the same
// names as on the day, so a second backfill and the clock make none of them
// again.
func (s *Service) Backfill(ctx context.Context, r BackfillRequest) (Tally, error) {
	overlap, err := overlapOf(r.Overlap)
	if err != nil {
		return Tally{}, err
	}
	if !r.From.Before(r.To) && !r.From.Equal(r.To) {
		return Tally{}, Refuse(CodeBackfill, "from %s is after to %s", r.From.Format(time.RFC3339), r.To.Format(time.RFC3339))
	}
	var tally Tally
	err = s.take(ctx, r.Namespace, r.Name, func(ctx context.Context, def Schedule, h Held) (Tock, error) {
		tally = Tally{}
		if def.Broken != nil {
			return Tock{}, fmt.Errorf("read schedule %s: %w", r.Name, def.Broken)
		}
		if r.To.After(h.Now) {
			return Tock{}, Refuse(CodeBackfill, "to %s is in the future; the schedule fires by itself then", r.To.Format(time.RFC3339))
		}
		fires, err := between(def, r.From.Add(-time.Nanosecond), r.To, MaxBackfill, s.planner)
		if err != nil {
			return Tock{}, err
		}
		if len(fires) > MaxBackfill {
			return Tock{}, Refuse(CodeBackfill, "the range has more than %d fires; ask for a part of it", MaxBackfill)
		}
		order := backfillOrder{principal: r.Principal, overlap: overlap}
		if r.Force != "" {
			order.suffix = deliveryKey("force-" + r.Force)
		}
		var tock Tock
		tock.Fires, tally, err = s.backfillFires(ctx, def, h, order, fires)
		if err != nil || r.DryRun {
			return Tock{}, err
		}
		h.Skipped += int64(tally.Skipped)
		tock.Next = &h.Hand
		return tock, nil
	})
	return tally, err
}

type backfillOrder struct {
	principal string
	suffix    string
	overlap   spec.Overlap
}

// backfillFires prepares the fires of the past that have not been made.
func (s *Service) backfillFires(ctx context.Context, def Schedule, h Held, o backfillOrder, fires []Fire) ([]Firing, Tally, error) {
	tally := Tally{Fires: len(fires)}
	keys := make([]string, len(fires))
	for i, f := range fires {
		keys[i] = f.Key()
	}
	made, err := s.store.Made(ctx, HandName{h.Namespace, h.Name}, o.suffix, keys)
	if err != nil {
		return nil, Tally{}, err
	}
	var todo []Fire
	for _, f := range fires {
		if made[f.Key()] {
			tally.Known++
			continue
		}
		todo = append(todo, f)
	}
	if o.overlap.Policy == "" {
		// Whoever asks for them wants all of them.
		o.overlap.Policy = spec.OverlapBufferAll
		if def.Overlap.Policy == spec.OverlapAllow {
			o.overlap.Policy = spec.OverlapAllow
		}
	}
	all, err := s.fireAll(ctx, def, fireOrder{
		origin: OriginBackfill, suffix: o.suffix, principal: o.principal, overlap: o.overlap, standing: h.standing(),
	}, todo)
	for _, f := range all {
		switch f.State {
		case FireStarted:
			tally.Started++
		case FireBuffered:
			tally.Buffered++
		case FireSkipped:
			tally.Skipped++
		case FireRejected:
			tally.Rejected++
		}
	}
	return all, tally, err
}
