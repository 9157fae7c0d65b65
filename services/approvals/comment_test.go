package approvals

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

func TestJudge_WantsAComment(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)
	wanted := events.DecisionRule{CommentRequired: true}
	only := events.DecisionRule{CommentRequired: true, Deciders: []events.Deciders{{Users: []string{"ben"}}}}
	for name, tc := range map[string]struct {
		rule            *events.DecisionRule
		kind, state     string
		decision        string
		comment, digest string
		want            Outcome
	}{
		"a yes with one":                        {&wanted, events.ApprovalAction, StatePending, events.Approve, "the shop agreed", "d", Decided},
		"a yes without":                         {&wanted, events.ApprovalAction, StatePending, events.Approve, "", "d", NoComment},
		"a no without":                          {&wanted, events.ApprovalAction, StatePending, events.Reject, "", "", NoComment},
		"a no with one":                         {&wanted, events.ApprovalAction, StatePending, events.Reject, "no", "", Decided},
		"blanks":                                {&wanted, events.ApprovalAction, StatePending, events.Approve, " \t\n\u00a0\u2003", "d", NoComment},
		"what has no width":                     {&wanted, events.ApprovalAction, StatePending, events.Approve, "\u200b\u2060\ufeff", "d", NoComment},
		"one character":                         {&wanted, events.ApprovalAction, StatePending, events.Approve, "✓", "d", Decided},
		"a rule that wants none":                {&events.DecisionRule{}, events.ApprovalAction, StatePending, events.Approve, "", "d", Decided},
		"no rule":                               {nil, events.ApprovalAction, StatePending, events.Approve, "", "", Decided},
		"a doubt":                               {&wanted, events.ApprovalDoubt, StatePending, events.GiveUp, "", "", NoComment},
		"an answer says it itself":              {&wanted, events.ApprovalQuestion, StatePending, events.Answered, "", "", Decided},
		"a stranger learns nothing":             {&only, events.ApprovalAction, StatePending, events.Approve, "", "d", NotAllowed},
		"what was shown comes first":            {&wanted, events.ApprovalAction, StatePending, events.Approve, "", "e", Mismatch},
		"a repeat need not say why again":       {&wanted, events.ApprovalAction, events.Approve, events.Approve, "", "d", Repeated},
		"another decision was made":             {&wanted, events.ApprovalAction, events.Reject, events.Approve, "", "d", Lost},
		"nobody is asked for a reason too late": {&wanted, events.ApprovalAction, events.Expired, events.Approve, "", "d", TooLate},
	} {
		r := Request{Kind: tc.kind, State: tc.state, Digest: "d", ExpiresAt: now.Add(time.Hour), Rule: tc.rule}
		a := Attempt{Decision: tc.decision, Comment: tc.comment, Digest: events.Digest(tc.digest), By: "ann", Role: roleApprover}
		if tc.kind == events.ApprovalQuestion {
			r.Question, a.Result = &events.Question{Text: "?"}, []byte(`1`)
		}
		if got := Judge(r, a, now); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
	r := Request{Kind: events.ApprovalAction, State: StatePending, ExpiresAt: now.Add(-time.Second), Rule: &wanted}
	if got := Judge(r, Attempt{Decision: events.Reject, By: "ann"}, now); got != TooLate {
		t.Errorf("after its time, before the sweep: %s", got)
	}
}

// A grant has nothing to say, so it says no yes where somebody must say why.
func TestGrant_SaysNothing(t *testing.T) {
	t.Parallel()
	r := Request{Kind: events.ApprovalAction, Namespace: "default", Tool: "pay", Args: []byte(`{}`), Rule: &events.DecisionRule{}}
	g := Grant{Namespace: "default", Tool: "pay", Maker: Maker{Name: "ann", Role: roleApprover}}
	if _, ok := g.Allows(r); !ok {
		t.Error("a rule that wants no comment")
	}
	r.Rule.CommentRequired = true
	if _, ok := g.Allows(r); ok {
		t.Error("a grant approves what wants a comment")
	}
}

func TestTellAsked_MarksTheComment(t *testing.T) {
	t.Parallel()
	r := Request{ID: "x", Kind: events.ApprovalAction, State: StatePending, Args: []byte(`{}`)}
	if TellAsked(r).Ask.Needed {
		t.Error("without a rule a comment is needed")
	}
	r.Rule = &events.DecisionRule{CommentRequired: true}
	if !TellAsked(r).Ask.Needed || !strings.HasSuffix(r.Rule.String(), "with a comment") {
		t.Errorf("%+v, %s", TellAsked(r).Ask, r.Rule)
	}
}

// approvedBefore is a book of groups in which people approved the same often.
type approvedBefore struct {
	Grouper
	groups []Group
}

func (g approvedBefore) Groups(context.Context, GroupFilter, int) ([]Group, error) {
	return g.groups, nil
}

func (g approvedBefore) Alike(_ context.Context, _ string, similarities []string, _ int) (map[string]int, error) {
	out := map[string]int{}
	for _, s := range similarities {
		out[s] = 9
	}
	return out, nil
}

// No grant is proposed that would never be used.
func TestGroups_ProposeNoGrantThatSaysNothing(t *testing.T) {
	t.Parallel()
	sample := func(rule *events.DecisionRule) Request { return Request{Kind: events.ApprovalAction, Rule: rule} }
	book := approvedBefore{groups: []Group{
		{Key: GroupKey{By: BySimilarity, Value: "bare"}, Sample: sample(nil)},
		{Key: GroupKey{By: BySimilarity, Value: "why"}, Sample: sample(&events.DecisionRule{CommentRequired: true})},
		{Key: GroupKey{By: BySimilarity, Value: "two"}, Sample: sample(&events.DecisionRule{Quorum: 2})},
		{Key: GroupKey{By: BySimilarity, Value: "doubt"}, Sample: Request{Kind: events.ApprovalDoubt}},
	}}
	s := New(Config{ProposeAfter: 5}, Deps{Groups: book})
	found, err := s.Groups(t.Context(), GroupFilter{By: BySimilarity})
	if err != nil || len(found) != 4 || found[0].Approved != 9 || found[1].Approved+found[2].Approved+found[3].Approved != 0 {
		t.Errorf("%+v, %v", found, err)
	}
}
