package runner

import (
	"fmt"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// byExpiry is who ends a run that asked what nobody decided in time, where the rule
// of the question says so.
const byExpiry = "approval-expiry"

// ruleOf is the rule of what is asked about a call; nil: every approver decides, and
// nothing follows but what always does.
func (p *Plan) ruleOf(c events.AskedCall) *events.DecisionRule {
	if c.Step != nil && c.Step.Question != "" {
		return p.asking().Rule()
	}
	if t, ok := p.Tools[c.Tool]; ok {
		return p.asking().RuleFor(t)
	}
	return nil
}

// lapsed ends the run, as a cancel would, when nobody decided a about c in time and
// the rule says that this ends it.
func (d *decision) lapsed(plan *Plan, c events.AskedCall, a events.ApprovalDecision) error {
	rule := plan.ruleOf(c)
	if a.Decision != events.Expired || a.Kind == events.ApprovalQuestion || rule == nil || rule.AtExpiry != events.AtExpiryEnd || d.state.Cancel != nil {
		return nil
	}
	about := c.Tool
	if c.Step != nil {
		about = "the step " + c.Step.Step
	}
	why := fmt.Sprintf("nobody decided about %s in time, and the rule of approval %s ends the run then", about, a.ApprovalID)
	return d.add(events.FactCancelRequested, d.state.cancelBody(events.Command{RunID: d.state.RunID, Principal: byExpiry, Reason: why}), false)
}

// byItself reports whether c ends the run without anybody's command.
func byItself(c events.Cancelling) bool {
	return c.ID == "" && (c.Principal == byDeadline || c.Principal == byExpiry)
}
