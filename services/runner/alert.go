package runner

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Alert is a threshold of a run's own ceiling that a commit passes.
type Alert struct {
	Ceiling
	Percent int
	Channel string // the Channel that is told; empty for none
}

// ownAlertAt are the thresholds of own ceilings, in percent.
var ownAlertAt = [...]int64{80, 100}

// ownAlerts lists what a commit passes. Passing the hundredth percent is also to
// stop at a ceiling because the next call does not fit under it.
func ownAlerts(before, after *State, plan *Plan, now time.Time) []Alert {
	if after.Started.Ref.Kind == events.KindAgent && len(after.Turns) == len(before.Turns) && after.ModelCalls == before.ModelCalls && after.Pause == before.Pause && after.End == before.End && after.Failures == before.Failures {
		return nil
	}
	was := map[string]Ceiling{}
	for _, c := range before.Ceilings(plan.ownBudget(), before.Started.AcceptedAt) {
		was[c.Name] = c
	}
	var out []Alert
	for _, c := range after.Ceilings(plan.ownBudget(), now) {
		old, had := was[c.Name]
		for _, percent := range ownAlertAt {
			passed := c.reached(percent) || percent == 100 && after.stoppedBy(c.Name)
			if passed && !(had && old.Limit == c.Limit && old.reached(percent)) {
				out = append(out, Alert{c, int(percent), plan.notify().To(events.NoticeBudget)})
			}
		}
	}
	return out
}

// reached reports whether percent of the ceiling are used.
func (c Ceiling) reached(percent int64) bool {
	return c.Used >= c.Limit/100*percent+(c.Limit%100*percent+99)/100
}

// stoppedBy reports whether the run stands still, or has ended, for a ceiling.
func (s *State) stoppedBy(name string) bool {
	if s.Pause != nil && s.End == "" {
		return s.Pause.By == pausedByBudget && s.Pause.Pool == name
	}
	e := s.Ending.Error
	return e != nil && e.Code == "budget" && strings.HasPrefix(e.Message, name+": ")
}

// left is what the model reads about its budget behind the results of an answer's
// calls; empty unless the agent tells it. It is fixed in the answer's row, so that
// what was sent once never changes.
func (s *State) left(plan *Plan, a events.ModelAnswered, now time.Time) string {
	if !plan.Agent.Budget.Tell || len(a.Calls) == 0 {
		return ""
	}
	after := s.Clone()
	after.answered(s.Seq+1, a)
	var parts []string
	for _, c := range after.Ceilings(plan.Agent.Budget, now) {
		parts = append(parts, fmt.Sprintf("%s %s of %s", c.Name, shown(c.Unit, max(c.Limit-c.Used, 0)), shown(c.Unit, c.Limit)))
	}
	return "[left of the budget: " + strings.Join(parts, ", ") + "]"
}
