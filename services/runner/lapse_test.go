package runner

import (
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Where the rule says that a question which nobody decided ends the run, the run ends:
// what else it asked is taken back, nothing more begins, and its end says why. A no
// does not end it, and neither does an expiry without such a rule.
func TestLapse_EndsTheRun(t *testing.T) {
	t.Parallel()
	const steps = `
  approvals: {channel: ops, policy: {atExpiry: end}}
  steps:
    - {name: first, approval: {text: "Go?"}}
    - {name: second, needs: [], approval: {text: "Sure?"}}
    - {name: post, needs: [first], tool: post, onFailure: continue, input: {n: 1}}
`
	for name, tc := range map[string]struct{ decision, kinds, end, text string }{
		"nobody decided": {events.Expired, "approval_decided cancel_requested run_cancelled", events.StatusCancelled, "nobody decided about the step first in time"},
		"a no":           {events.Reject, "approval_decided run_failed", events.StatusFailed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t, steps, `{}`, nil)
			var ask *Call
			for _, c := range f.s.Calls {
				if c.Step.Step == "first" {
					ask = c
				}
			}
			a := &events.ApprovalDecision{ApprovalID: ask.ApprovalID, Kind: events.ApprovalAction, RunID: testRun, CallID: ask.CallID, Decision: tc.decision}
			d, err := Decide(f.s, f.plan, Input{Cause: "decision", Type: events.TypeApprovalDecided, Decided: a, Original: a}, "w", f.now)
			if err != nil {
				t.Fatal(err)
			}
			if got := rowsOf(d); !strings.HasPrefix(got, tc.kinds) || d.State.End != tc.end {
				t.Fatalf("%s, ended %q, want %s", got, d.State.End, tc.kinds)
			}
			if tc.text == "" {
				return
			}
			if p := d.State.Ending.Error; p.Code != "approval_expired" || !strings.Contains(p.Message, tc.text) || !strings.Contains(p.Message, string(ask.ApprovalID)) {
				t.Errorf("it ended with %+v", p)
			}
			took := published(t, d.State, f.plan, d.Facts, events.TypeWithdraw)
			if len(took) != 1 || !strings.Contains(string(took[0].Data), "the run ended: nobody decided") {
				t.Errorf("taken back: %v", took)
			}
		})
	}
}

// The rule of a tool holds for its calls and for doubts about them; an operator's
// cancel says so itself.
func TestLapse_OfATool(t *testing.T) {
	t.Parallel()
	of := func() *flow {
		f := newFlow(t, "\n  steps: [{name: all, tool: gated, forEach: \"${input.list}\", onFailure: continue}]\n", `{"list":[{"n":9},{"n":1}]}`, nil)
		f.plan.Tools["gated"].Approval.Rule = &spec.Rule{Requester: spec.RequesterAllowed, AtExpiry: spec.AtExpiryEnd}
		return f
	}
	f := of()
	f.decide(events.Expired, "")
	if f.s.Cancel == nil || f.s.End != "" {
		t.Fatalf("the flow is %s", f.s.Status())
	}
	f.tool("all", 1, events.CallSucceeded, `1`) // it had begun: the truth is awaited
	f.ended(events.StatusCancelled, "approval_expired", "nobody decided about the step all")

	f = of()
	f.tool("all", 1, events.CallUnknown, "")
	for id, c := range f.s.Calls {
		if c.State == callDoubt {
			a := &events.ApprovalDecision{ApprovalID: c.Doubt, Kind: events.ApprovalDoubt, RunID: testRun, CallID: id, Decision: events.Expired}
			f.take(Input{Cause: "decision:doubt", Type: events.TypeApprovalDecided, Decided: a, Original: a})
		}
	}
	f.ended(events.StatusCancelled, "approval_expired", "nobody decided about the step all")

	f = of()
	f.take(commandInput(events.RunCancel))
	f.tool("all", 1, events.CallSucceeded, `1`)
	f.ended(events.StatusCancelled, "cancelled", "cancelled by")
}
