package runner

import (
	"fmt"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// filledIn makes a no of a yes that leaves out what a person had to fill in. The door
// has judged it before; whoever announces is not believed.
func (p *Plan) filledIn(c *Call, a events.ApprovalDecision) events.ApprovalDecision {
	tool, ok := p.Tools[c.Tool]
	if !ok || c.onlyAsks() || a.Kind != events.ApprovalAction || a.Decision != events.Approve {
		return a
	}
	args := c.Args
	if a.Args != nil {
		args = a.Args
	}
	if name := tool.FormMissing(args); name != "" {
		a.Decision, a.Args, a.Told = events.Reject, nil, ""
		a.Comment = fmt.Sprintf("the call was approved without %s, which the person had to fill in", name)
	}
	return a
}

// onlyFills reports whether changes do nothing but fill in a form.
func onlyFills(rule *events.DecisionRule, all []events.Change) bool {
	if rule == nil || len(all) == 0 {
		return false
	}
	for _, ch := range all {
		filled := false
		for _, f := range rule.Form {
			filled = filled || ch.From == nil && ch.Path == "$."+f.Name
		}
		if !filled {
			return false
		}
	}
	return true
}

// toldFilled says what a person filled in.
func toldFilled(a events.ApprovalDecision, all []events.Change) string {
	var parts []string
	for _, ch := range all {
		parts = append(parts, fmt.Sprintf("%s: %s", strings.TrimPrefix(ch.Path, "$."), clip(string(ch.To), 500)))
	}
	text := fmt.Sprintf("A person (%s) approved this call and filled in %s.", a.By, strings.Join(parts, "; "))
	if a.Comment != "" {
		text += " They say: " + a.Comment
	}
	return text
}
