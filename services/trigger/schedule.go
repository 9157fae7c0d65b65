package trigger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/spec"
)

// nextFires is how many coming fires are shown, MaxNextFires how many may be
// asked for.
const (
	nextFires    = 10
	MaxNextFires = 1000
)

// ScheduleView is a schedule with what is coming and what was.
type ScheduleView struct {
	Schedule
	Next    []Fire // At is in the schedule's zone
	Pause   *Pause // by an operator
	Missed  int64
	Skipped int64
	Fired   int64
	Last    *PastFire
}

// Schedules lists a namespace's schedules by name, those after after, limit at
// most.
func (s *Service) Schedules(ctx context.Context, namespace, after string, limit int) ([]ScheduleView, error) {
	defs, err := s.definitions.Schedules(ctx, namespace)
	if err != nil {
		return nil, fmt.Errorf("list schedules: %w", err)
	}
	defs = slices.DeleteFunc(defs, func(d Schedule) bool { return d.Name <= after })
	slices.SortFunc(defs, func(a, b Schedule) int { return strings.Compare(a.Name, b.Name) })
	return s.view(ctx, namespace, defs[:min(limit, len(defs))])
}

// Schedule returns one schedule.
func (s *Service) Schedule(ctx context.Context, namespace, name string) (ScheduleView, error) {
	def, err := s.scheduleByName(ctx, namespace, name)
	if err != nil {
		return ScheduleView{}, err
	}
	views, err := s.view(ctx, namespace, []Schedule{def})
	if err != nil {
		return ScheduleView{}, err
	}
	return views[0], nil
}

func (s *Service) scheduleByName(ctx context.Context, namespace, name string) (Schedule, error) {
	def, err := defined(namespace, name, func() (Schedule, error) { return s.definitions.Schedule(ctx, namespace, name) })
	if errors.Is(err, ErrNotFound) {
		return Schedule{}, Refuse(CodeUnknownSched, "there is no schedule %q in the namespace %s", name, namespace)
	}
	if err != nil {
		return Schedule{}, fmt.Errorf("read schedule %s: %w", name, err)
	}
	return def, nil
}

func (s *Service) view(ctx context.Context, namespace string, defs []Schedule) ([]ScheduleView, error) {
	hands, now, err := s.store.Hands(ctx, namespace)
	if err != nil {
		return nil, fmt.Errorf("list hands: %w", err)
	}
	by := map[string]Hand{}
	for _, h := range hands {
		by[h.Name] = h
	}
	last, err := s.store.LastFires(ctx, namespace)
	if err != nil {
		return nil, fmt.Errorf("list fires: %w", err)
	}
	views := make([]ScheduleView, 0, len(defs))
	for _, def := range defs {
		h := by[def.Name]
		v := ScheduleView{Schedule: def, Pause: h.Pause, Missed: h.Missed, Skipped: h.Skipped, Fired: h.Fired}
		if !def.Paused && h.Pause == nil && def.Broken == nil {
			v.Next, v.Broken = s.coming(def, now, h.Fired, nextFires)
		}
		if f, ok := last[def.Name]; ok {
			v.Last = &f
		}
		views = append(views, v)
	}
	return views, nil
}

// coming previews fires with the very code that fires them; the error says why
// there are none.
func (s *Service) coming(def Schedule, now time.Time, fired int64, limit int) ([]Fire, error) {
	fires, err := upcoming(def, now, s.planner)
	if err != nil {
		return nil, err
	}
	if def.MaxFires > 0 {
		limit = int(min(int64(limit), max(def.MaxFires-fired, 0)))
	}
	var next []Fire
	for f := range fires {
		if len(next) >= limit {
			break
		}
		next = append(next, f)
	}
	return next, nil
}

// NextFires previews the next limit fires of a schedule later than after, as if
// nobody had paused it. A zero after is now.
func (s *Service) NextFires(ctx context.Context, namespace, name string, after time.Time, limit int) ([]Fire, error) {
	def, h, err := s.hand(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	if after.Before(h.Now) {
		after = h.Now
	}
	return s.coming(def, after, h.Fired, min(limit, MaxNextFires))
}

// ScheduleHistory lists a schedule's fires and skips, newest first.
func (s *Service) ScheduleHistory(ctx context.Context, namespace, name string, before int64, limit int) ([]PastFire, error) {
	if !spec.ValidName(namespace) || !spec.ValidName(name) {
		return nil, Refuse(CodeUnknownSched, "there is no schedule %q in the namespace %s", name, namespace)
	}
	list, err := s.store.History(ctx, HandName{namespace, name}, before, limit)
	if err == nil && len(list) == 0 && before == 0 {
		_, err = s.scheduleByName(ctx, namespace, name) // a name that never was is told from one without fires
	}
	return list, err
}
