package approvals

import (
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// A step widens the condition of the policy that says it; those of others still hold,
// and who started the run stays out.
func TestMeets_AStepWidensItsOwnCondition(t *testing.T) {
	t.Parallel()
	rule := &events.DecisionRule{
		Deciders:        []events.Deciders{{Users: []string{"ann"}}, {Groups: []string{"leads"}}},
		RequesterDenied: true,
		Escalate:        []events.Escalation{{AfterMs: 1, Of: 0, Deciders: &events.Deciders{Roles: []string{"admin"}}, Channel: "ops"}, {AfterMs: 2, Of: 1, Deciders: &events.Deciders{Users: []string{"eve"}}}},
	}
	for name, tc := range map[string]struct {
		p    Person
		come int
		may  bool
	}{
		"an admin before the step":        {Person{Name: "adm", Role: "admin", Groups: []string{"leads"}}, 0, false},
		"an admin behind it":              {Person{Name: "adm", Role: "admin", Groups: []string{"leads"}}, 1, true},
		"an admin who is no lead":         {Person{Name: "adm", Role: "admin"}, 1, false},
		"eve meets the second, not both":  {Person{Name: "eve"}, 2, false},
		"eve as an admin":                 {Person{Name: "eve", Role: "admin"}, 2, true},
		"ann, still":                      {Person{Name: "ann", Groups: []string{"leads"}}, 2, true},
		"who started the run":             {Person{Name: "sue", Role: "admin", Groups: []string{"leads"}}, 2, false},
		"more steps than the rule has":    {Person{Name: "eve", Role: "admin"}, 9, true},
		"a count that cannot be believed": {Person{Name: "eve", Role: "admin"}, -1, false},
	} {
		r := Request{Rule: rule, Requester: "sue", Escalated: tc.come, Channel: "first"}
		if why := MayNot(r, tc.p); (why == "") != tc.may {
			t.Errorf("%s: %q", name, why)
		}
		if tc.p.Role != "admin" && MayRead(r, tc.p) != tc.may {
			t.Errorf("%s reads: %t", name, !tc.may)
		}
		if got := r.AskedIn("ops"); got != (tc.come > 0) || !r.AskedIn("first") || r.AskedIn("") {
			t.Errorf("%s: asked in ops: %t", name, got)
		}
	}
	for name, bad := range map[string]events.DecisionRule{
		"out of order":    {Escalate: []events.Escalation{{AfterMs: 2}, {AfterMs: 1}}},
		"at once":         {Escalate: []events.Escalation{{AfterMs: 0}}},
		"for ever":        {Escalate: []events.Escalation{{AfterMs: 1 << 60}}},
		"of no condition": {Escalate: []events.Escalation{{AfterMs: 1, Of: 1, Deciders: &events.Deciders{}}}, Deciders: []events.Deciders{{}}},
		"too many":        {Escalate: make([]events.Escalation, 11)},
	} {
		for i := range bad.Escalate {
			if name == "too many" {
				bad.Escalate[i].AfterMs = int64(i + 1)
			}
		}
		if validSteps(&bad) {
			t.Errorf("%s is taken", name)
		}
		if _, err := AskOf("ask:x", events.AskApproval{Rule: &bad}); err == nil || !strings.Contains(err.Error(), "the escalation is not") {
			t.Errorf("%s is asked: %v", name, err)
		}
	}
	if !validSteps(rule) {
		t.Error("a rule in order is refused")
	}
}
