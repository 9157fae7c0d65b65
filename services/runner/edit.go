package runner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Edit is a call that a person changed before it was made.
type Edit struct {
	CallID events.CallID
	Tool   string
	Digest events.Digest // of the arguments as the model wrote them
	By     string
}

// edited makes of a yes to other arguments what the run records: those in
// canonical form and what the model is told, or a no that says why they cannot be
// sent. The door has judged them before; whoever announces is not believed.
func (s *State) edited(plan *Plan, c *Call, a events.ApprovalDecision) events.ApprovalDecision {
	no := func(format string, args ...any) events.ApprovalDecision {
		a.Decision, a.Args = events.Reject, nil
		a.Comment = clip("the call was to be changed, and what it was changed to cannot be sent: "+fmt.Sprintf(format, args...), 2000)
		return a
	}
	tool, ok := plan.Tools[c.Tool]
	if !ok || c.onlyAsks() {
		return no("it has no arguments that a person may change")
	}
	args, err := events.Canonical(a.Args)
	if err != nil {
		return no("%v", err)
	}
	if bad := tool.CheckArgs(args); len(bad) > 0 {
		return no("%s", violations(bad))
	}
	policy := plan.asking().PolicyText(tool, c.Rule == events.RuleFork)
	if a.Digest != events.BindDigest(c.Tool, s.toolDigest(c.Tool), events.DigestOf(args), policy) {
		return no("they are not what was confirmed")
	}
	if string(args) == string(c.Args) {
		a.Args = nil
		return a
	}
	a.Args = args
	a.Told = toldChange(c, a)
	if all := events.Changes(c.Args, args); onlyFills(plan.ruleOf(c.AskedCall), all) {
		a.Told = toldFilled(a, all)
	}
	return a
}

// Bounds of what the model reads of a change, in bytes.
const (
	toldArgsBytes = 4000
	toldChanges   = 20
)

// toldChange says that a person changed a call and how.
func toldChange(c *Call, a events.ApprovalDecision) string {
	var parts []string
	all := events.Changes(c.Args, a.Args)
	for _, ch := range all[:min(len(all), toldChanges)] {
		from, to := cmp.Or(string(ch.From), "nothing"), cmp.Or(string(ch.To), "nothing")
		parts = append(parts, fmt.Sprintf("%s from %s to %s", ch.Path, clip(from, 200), clip(to, 200)))
	}
	if more := len(all) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	text := fmt.Sprintf("A person (%s) changed this call before it was made. These arguments were sent: %s. Changed: %s.",
		a.By, clip(string(a.Args), toldArgsBytes), strings.Join(parts, "; "))
	if a.Comment != "" {
		text += " They say: " + a.Comment
	}
	return text + "\nDo not make the call as it was."
}

// change puts the arguments that a person wrote in the place of the model's. The
// call and its key stay: it is the same call.
func (s *State) change(c *Call, d events.ApprovalDecision) {
	if d.Args == nil {
		return
	}
	s.Edits = append(slices.Clip(s.Edits), Edit{CallID: c.CallID, Tool: c.Tool, Digest: c.ArgsDigest, By: d.By})
	c.Args, c.ArgsDigest, c.Bind = d.Args, events.DigestOf(d.Args), d.Digest
}

// changedBefore finds the newest call of the run that a person changed and that
// was then what c is; nil for none.
func (s *State) changedBefore(c events.AskedCall) *Edit {
	for i, e := range slices.Backward(s.Edits) {
		if e.Tool == c.Tool && e.Digest == c.ArgsDigest && e.CallID.Row() < c.CallID.Row() {
			return &s.Edits[i]
		}
	}
	return nil
}
