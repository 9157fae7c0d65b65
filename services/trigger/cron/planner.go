package cron

import (
	"iter"
	"time"

	"github.com/holdfast-run/holdfast/services/trigger"
)

// Planner plans fires for the trigger service. It is stateless.
type Planner struct{}

var _ trigger.Planner = Planner{}

// Fires implements trigger.Planner.
func (Planner) Fires(expr, zone string, after time.Time) (iter.Seq[trigger.Fire], error) {
	s, err := Parse(expr, zone)
	if err != nil {
		return nil, err
	}
	return func(yield func(trigger.Fire) bool) {
		for f := range s.All(after) {
			if !yield(trigger.Fire(f)) {
				return
			}
		}
	}, nil
}
