package approvals

import (
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

func TestJudge_CountsPeople(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)
	edit := &Edit{Args: []byte(`{}`), Digest: "e"}
	vote := func(by string, d events.Digest) Vote { return Vote{By: by, Digest: d} }
	for name, tc := range map[string]struct {
		quorum   int64
		votes    []Vote
		by       string
		decision string
		edit     *Edit
		want     Outcome
	}{
		"the first of two":                    {2, nil, "ann", events.Approve, nil, Counted},
		"the second of two":                   {2, []Vote{vote("ben", "d")}, "ann", events.Approve, nil, Decided},
		"the same person again":               {2, []Vote{vote("ann", "d")}, "ann", events.Approve, nil, Repeated},
		"the second of three":                 {3, []Vote{vote("ben", "d")}, "ann", events.Approve, nil, Counted},
		"one no ends it":                      {20, []Vote{vote("ben", "d")}, "ann", events.Reject, nil, Decided},
		"a no after the own yes":              {2, []Vote{vote("ann", "d")}, "ann", events.Reject, nil, Decided},
		"to other arguments":                  {2, []Vote{vote("ben", "d")}, "ann", events.Approve, edit, Counted},
		"to the same other arguments":         {2, []Vote{vote("ben", "e")}, "ann", events.Approve, edit, Decided},
		"as asked, after others":              {2, []Vote{vote("ben", "e")}, "ann", events.Approve, nil, Counted},
		"who changes what they say yes to":    {2, []Vote{vote("ann", "d")}, "ann", events.Approve, edit, Counted},
		"of whom one had agreed to something": {3, []Vote{vote("ben", "d"), vote("eve", "e")}, "ann", events.Approve, nil, Counted},
		"one decides":                         {0, nil, "ann", events.Approve, nil, Decided},
		"who started the run":                 {2, []Vote{vote("ben", "d")}, "fin", events.Approve, nil, NotAllowed},
	} {
		r := Request{Kind: events.ApprovalAction, State: StatePending, Digest: "d", ExpiresAt: now.Add(time.Hour), Requester: "fin",
			Rule: &events.DecisionRule{Quorum: tc.quorum, RequesterDenied: true}, Votes: tc.votes}
		a := Attempt{Decision: tc.decision, Digest: "d", By: tc.by, Role: roleApprover, Edit: tc.edit}
		if tc.edit != nil {
			a.Digest = tc.edit.Digest
		}
		if got := Judge(r, a, now); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
	r := Request{Kind: events.ApprovalAction, Digest: "d", Rule: &events.DecisionRule{Quorum: 2}, Votes: []Vote{vote("ann", "d")}}
	if got := VotesText(r); got != "1 of 2: ann" {
		t.Error(got)
	}
	r.Votes = r.WithVote(Attempt{By: "ann", Edit: edit}, now)
	if got := VotesText(r); got != "1 of 2: ann (with other arguments)" || len(r.Votes) != 1 {
		t.Error(got)
	}
	r.Tool, r.Namespace, r.Args = "pay", "default", []byte(`{}`)
	if _, ok := (Grant{Namespace: "default", Tool: "pay", Maker: Maker{Name: "ann"}}).Allows(r); ok {
		t.Error("a grant is two people")
	}
}
