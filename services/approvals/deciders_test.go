package approvals

import (
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

func TestJudge_WhoMayDecide(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)
	finance := events.Deciders{Groups: []string{"finance"}}
	annOrAdmin := events.Deciders{Users: []string{"ann"}, Roles: []string{"admin"}}
	ann, ben := Person{Name: "ann", Role: roleApprover, Groups: []string{"finance", "x"}}, Person{Name: "ben", Role: roleApprover}
	root := Person{Name: "root", Role: "admin"}
	for name, tc := range map[string]struct {
		rule   *events.DecisionRule
		who    Person
		asked  string // who started the run
		digest events.Digest
		want   Outcome
	}{
		"without a rule every approver":            {nil, ben, "ben", "", Decided},
		"a user":                                   {&events.DecisionRule{Deciders: []events.Deciders{annOrAdmin}}, ann, "", "d", Decided},
		"a role":                                   {&events.DecisionRule{Deciders: []events.Deciders{annOrAdmin}}, root, "", "d", Decided},
		"a group":                                  {&events.DecisionRule{Deciders: []events.Deciders{finance}}, ann, "", "d", Decided},
		"neither":                                  {&events.DecisionRule{Deciders: []events.Deciders{annOrAdmin}}, ben, "", "d", NotAllowed},
		"an admin who is not named":                {&events.DecisionRule{Deciders: []events.Deciders{finance}}, root, "", "d", NotAllowed},
		"a name that is a group's":                 {&events.DecisionRule{Deciders: []events.Deciders{finance}}, Person{Name: "finance", Role: "finance"}, "", "d", NotAllowed},
		"both conditions":                          {&events.DecisionRule{Deciders: []events.Deciders{finance, annOrAdmin}}, ann, "", "d", Decided},
		"one of two conditions":                    {&events.DecisionRule{Deciders: []events.Deciders{finance, annOrAdmin}}, root, "", "d", NotAllowed},
		"a condition that names nobody":            {&events.DecisionRule{Deciders: []events.Deciders{{}}}, root, "", "d", NotAllowed},
		"who started the run":                      {&events.DecisionRule{RequesterDenied: true}, ann, "ann", "d", NotAllowed},
		"who started the run and is allowed":       {&events.DecisionRule{}, ann, "ann", "d", Decided},
		"a run that nobody started":                {&events.DecisionRule{RequesterDenied: true}, ann, "", "d", Decided},
		"a yes that does not say what was shown":   {&events.DecisionRule{}, ann, "", "", Mismatch},
		"a yes to something else":                  {&events.DecisionRule{}, ann, "", "e", Mismatch},
		"a stranger learns nothing of the digest":  {&events.DecisionRule{Deciders: []events.Deciders{finance}}, ben, "", "e", NotAllowed},
		"without a rule a digest may be left out":  {nil, ben, "", "", Decided},
		"a group of that name in another spelling": {&events.DecisionRule{Deciders: []events.Deciders{finance}}, Person{Name: "x", Groups: []string{"Finance"}}, "", "d", NotAllowed},
	} {
		r := Request{Kind: events.ApprovalAction, State: StatePending, Digest: "d", ExpiresAt: now.Add(time.Hour), Rule: tc.rule, Requester: tc.asked}
		a := Attempt{Decision: events.Approve, Digest: tc.digest, By: tc.who.Name, Groups: tc.who.Groups, Role: tc.who.Role}
		if got := Judge(r, a, now); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
		if tc.want == NotAllowed {
			r.State, a.Decision = events.Reject, events.Reject // also once it has ended, and about a no
			if got := Judge(r, a, now); got != NotAllowed {
				t.Errorf("%s, when it has ended: %s", name, got)
			}
		}
	}
}

// A grant gives no more than whoever made it could: what its maker may not decide it
// does not approve.
func TestGrant_IsBoundByTheRule(t *testing.T) {
	t.Parallel()
	r := Request{Kind: events.ApprovalAction, Namespace: "default", Tool: "pay", Args: []byte(`{}`), Requester: "ann",
		Rule: &events.DecisionRule{Deciders: []events.Deciders{{Groups: []string{"finance"}}}, RequesterDenied: true}}
	for maker, want := range map[string]bool{"ben": true, "ann": false} {
		g := Grant{Namespace: "default", Tool: "pay", Maker: Maker{Name: maker, Role: roleApprover, Groups: []string{"finance"}}}
		if _, ok := g.Allows(r); ok != want {
			t.Errorf("made by %s: %t, want %t", maker, ok, want)
		}
		if g.Maker.Groups = nil; g.may(r) {
			t.Errorf("made by %s without the group", maker)
		}
	}
}
