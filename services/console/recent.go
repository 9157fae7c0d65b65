package console

import (
	"bytes"
	"context"
	"slices"

	"github.com/holdfast-run/holdfast/internal/follow"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// NamesReader says what runs are of.
type NamesReader interface {
	// NamesOfRuns returns the agent or flow of each run of the namespace; unknown ones are left out.
	NamesOfRuns(ctx context.Context, namespace string, runs []events.RunID) (map[events.RunID]string, error)
}

// EventFilter chooses among the newest events. An empty field chooses all.
type EventFilter struct {
	Kind string       // of a run's row, or a type of message
	Run  events.RunID // whole
	Name string       // of the agent or flow
	Text string       // somewhere in the body
}

// RecentEvent is an event with the name of its run's agent or flow.
type RecentEvent struct {
	follow.Event
	Name string
}

// RecentEvents returns at most limit of the newest events that this process has
// in memory and that fit, the newest first, and how many of the namespace it looked at.
func (s *Service) RecentEvents(ctx context.Context, namespace string, f EventFilter, limit int) (found []RecentEvent, looked int, err error) {
	names := map[events.RunID]string{}
	if f.Name != "" { // before it is asked which fit
		all, _ := s.Recent(namespace, 1<<20, func(e follow.Event) bool { return e.Run != nil })
		if names, err = s.namesOf(ctx, namespace, all); err != nil {
			return nil, 0, err
		}
	}
	some, looked := s.Recent(namespace, limit, func(e follow.Event) bool { return f.fits(e, names) })
	if f.Name == "" {
		if names, err = s.namesOf(ctx, namespace, some); err != nil {
			return nil, 0, err
		}
	}
	for _, e := range some {
		one := RecentEvent{Event: e}
		if e.Run != nil {
			one.Name = names[e.Run.RunID]
		}
		found = append(found, one)
	}
	return found, looked, nil
}

func (s *Service) namesOf(ctx context.Context, namespace string, all []follow.Event) (map[events.RunID]string, error) {
	var runs []events.RunID
	for _, e := range all {
		if e.Run != nil {
			runs = append(runs, e.Run.RunID)
		}
	}
	slices.Sort(runs)
	if runs = slices.Compact(runs); len(runs) == 0 {
		return map[events.RunID]string{}, nil
	}
	return s.NamesOfRuns(ctx, namespace, runs)
}

func (f EventFilter) fits(e follow.Event, names map[events.RunID]string) bool {
	kind := e.Message.Type
	var run events.RunID
	if e.Run != nil {
		kind, run = e.Run.Kind, e.Run.RunID
	}
	return (f.Kind == "" || f.Kind == kind) &&
		(f.Run == "" || f.Run == run) &&
		(f.Name == "" || run != "" && names[run] == f.Name) &&
		(f.Text == "" || bytes.Contains(bytes.ToLower(e.Message.Data), bytes.ToLower([]byte(f.Text))))
}
