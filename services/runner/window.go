package runner

import (
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// resumedByWindow ends a pause when the next window of the budget begins.
const resumedByWindow = "window"

// paused is the row of a run that r stops. A budget with windows has room again
// in the next one: the row names its beginning, so that the timer is a function
// of the state.
func (r Reserved) paused() events.Paused {
	p := events.Paused{By: pausedByBudget, Pool: "pool:" + r.Refused, Reason: r.Reason + "; raise it to go on"}
	if !r.Until.IsZero() {
		until := r.Until.UTC()
		p.Until = &until
		p.Reason += ", or wait for the next window at " + until.Format(time.RFC3339)
	}
	return p
}

// waitsForWindow reports whether the run goes on by itself at Pause.Until. One
// that is parked or cancelled meanwhile does not.
func (s *State) waitsForWindow() bool {
	return s.Pause != nil && s.Pause.Until != nil && s.End == "" && s.Cancel == nil && s.Attention == nil
}

func windowTimer(seq int64) string { return fmt.Sprintf("window-%d", seq) }
