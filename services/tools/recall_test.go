package tools

import (
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// A call that stands for another one is answered with what the ledger has, and
// begins nothing, whatever is there and whatever its tool's policy is.
func TestDecide_ARecalledCallNeverBegins(t *testing.T) {
	t.Parallel()
	c := ask1
	c.CallID, c.Rule = call2, events.RuleRecall
	gated := write
	gated.Gated = true
	other := func(change func(*Effect)) *Effect { return effect(change) }
	for name, tc := range map[string]struct {
		effect *Effect
		want   Do
		status string
	}{
		"never used":      {nil, DoAnswer, events.CallFailed},
		"it failed":       {other(func(e *Effect) { e.State = EffectFailed }), DoAnswer, events.CallFailed},
		"it happened":     {other(func(e *Effect) { e.State, e.Result = EffectSucceeded, []byte(`1`) }), DoAnswer, events.CallSucceeded},
		"nobody knows":    {other(func(e *Effect) { e.State, e.InDoubt, e.SettledBy = EffectUnknown, DoubtAsk, "" }), DoAnswer, events.CallUnknown},
		"it is under way": {other(func(e *Effect) { e.State = EffectIntent }), DoAttach, ""},
		"the owner is lost": {other(func(e *Effect) {
			e.State, e.Claim.Attempts = EffectIntent, 3
		}), DoAttach, ""},
		"other arguments": {other(func(e *Effect) { e.State, e.ArgsDigest = EffectSucceeded, "sha256:b" }), DoAnswer, events.CallMismatch},
	} {
		for _, plan := range []Plan{write, retry, gated} {
			d := Decide(State{Now: noon, Effect: tc.effect, Owner: dead, Self: fresh}, plan, c, self, unseen)
			if d.Do != tc.want || d.Answer.Status != tc.status {
				t.Errorf("%s, gated %t: %s %s, want %s %s", name, plan.Gated, d.Do, d.Answer.Status, tc.want, tc.status)
			}
		}
	}
}

// A new write of a fork needs a yes that is bound to just that, also when its tool
// never asks.
func TestMakePlan_AForkAsksInAnyCase(t *testing.T) {
	t.Parallel()
	tool := &spec.Tool{Effect: spec.EffectWrite, Approval: spec.Approval{Mode: spec.ApprovalNever}}
	c := ask1
	if p := MakePlan(tool, c); p.Gated {
		t.Fatal("the tool asks by itself")
	}
	c.Rule = events.RuleFork
	p := MakePlan(tool, c)
	if want := events.BindDigest(c.Tool, c.ToolDigest, c.ArgsDigest, events.RuleFork); !p.Gated || p.Bind != want {
		t.Errorf("gated %t, bound to %s, want %s", p.Gated, p.Bind, want)
	}
	if d := Decide(State{Now: noon, Self: fresh}, p, c, self, unseen); d.Do != DoAnswer || d.Answer.Error == nil || d.Answer.Error.Code != CodeApprovalMissing {
		t.Errorf("without a yes: %+v", d)
	}
}
