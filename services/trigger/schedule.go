package trigger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// nextFires is how many coming fires are shown.
const nextFires = 5

// ScheduleView is a schedule with what is coming and what was.
type ScheduleView struct {
	Schedule
	Next   []Fire // At is in the schedule's zone
	Missed int64
	Last   *PastFire
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
	missed := map[string]int64{}
	for _, h := range hands {
		missed[h.Name] = h.Missed
	}
	last, err := s.store.LastFires(ctx, namespace)
	if err != nil {
		return nil, fmt.Errorf("list fires: %w", err)
	}
	views := make([]ScheduleView, 0, len(defs))
	for _, def := range defs {
		v := ScheduleView{Schedule: def, Missed: missed[def.Name]}
		if !def.Paused && def.Broken == nil {
			v.Next, v.Broken = s.coming(def, now)
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
func (s *Service) coming(def Schedule, now time.Time) ([]Fire, error) {
	fires, err := s.planner.Fires(def.Cron, def.TimeZone, now)
	if err != nil {
		return nil, err
	}
	var next []Fire
	for f := range fires {
		if next = append(next, f); len(next) == nextFires {
			break
		}
	}
	return next, nil
}

// TriggerNow starts a run of a schedule at once, also of a paused one. Its input
// names the present wall time in the schedule's zone. With a key, repeats are
// answered with the same run.
func (s *Service) TriggerNow(ctx context.Context, namespace, name, principal, key string) (Accepted, error) {
	def, err := s.scheduleByName(ctx, namespace, name)
	if err != nil {
		return Accepted{}, err
	}
	if def.Broken != nil {
		return Accepted{}, fmt.Errorf("read schedule %s: %w", name, def.Broken)
	}
	_, now, err := s.store.Hands(ctx, namespace)
	if err != nil {
		return Accepted{}, fmt.Errorf("read the time: %w", err)
	}
	zone, err := time.LoadLocation(def.TimeZone)
	if err != nil {
		return Accepted{}, fmt.Errorf("schedule %s: %w", name, err)
	}
	st, err := scheduleStart(def, Fire{At: now, Nominal: now.In(zone).Format("2006-01-02T15:04")})
	if err != nil {
		return Accepted{}, err
	}
	st.Principal = principal
	st.Key, st.Strict = "", true
	// The request is "now" whatever the minute: a repeat in the next minute is the
	// same request.
	st.Digest = events.DigestOf([]byte("now/" + name))
	if key != "" {
		st.Key = "now/" + principal + "/" + key // a fire's key begins with a digit
	}
	return s.Accept(ctx, st)
}

// Delivery returns one accepted start.
func (s *Service) Delivery(ctx context.Context, namespace string, id DeliveryID) (Delivery, error) {
	return s.store.Delivery(ctx, namespace, id)
}

// Deliveries lists accepted starts, newest first.
func (s *Service) Deliveries(ctx context.Context, namespace string, before DeliveryID, limit int) ([]Delivery, error) {
	return s.store.Deliveries(ctx, namespace, before, limit)
}
