// Package cron plans the fires of cron expressions for the trigger service. The
// expressions themselves are pkg/spec/cron, so that what is refused when a
// schedule is applied is what could not fire.
package cron

import (
	"iter"
	"time"

	"github.com/holdfast-run/holdfast/pkg/spec/cron"
	"github.com/holdfast-run/holdfast/services/trigger"
)

// Planner plans fires for the trigger service. It is stateless.
type Planner struct{}

var _ trigger.Planner = Planner{}

// Fires implements trigger.Planner.
func (Planner) Fires(expr, zone string, after time.Time) (iter.Seq[trigger.Fire], error) {
	s, err := cron.Parse(expr, zone)
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
