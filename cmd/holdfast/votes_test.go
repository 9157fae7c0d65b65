package main

import (
	"testing"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// approvals show says how far a request is that wants several people.
func TestVotes_SaidYes(t *testing.T) {
	t.Parallel()
	vote := func(by string, d events.Digest) client.Vote { return client.Vote{By: by, Digest: d} }
	two := &events.DecisionRule{Quorum: 2}
	for want, a := range map[string]client.Approval{
		"":                                       {Kind: events.ApprovalAction, Digest: "d"},
		"0 of 2":                                 {Kind: events.ApprovalAction, Digest: "d", Rule: two},
		"1 of 2: ann":                            {Kind: events.ApprovalAction, Digest: "d", Rule: two, Votes: []client.Vote{vote("ann", "d")}},
		"1 of 2: ann; with other arguments: ben": {Kind: events.ApprovalAction, Digest: "d", Rule: two, Votes: []client.Vote{vote("ann", "d"), vote("ben", "e")}},
	} {
		if got := votes(a); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := votes(client.Approval{Kind: events.ApprovalDoubt, Rule: two}); got != "" {
		t.Errorf("of a doubt %q", got)
	}
}
