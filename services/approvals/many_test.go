package approvals_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

func TestDecideMany_EachByItself(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item := func(a events.AskApproval) client.ItemDecision {
		return client.ItemDecision{ID: a.ApprovalID, Digest: a.Digest}
	}
	yes1, taken, wrong, nay, late := b.ask(), b.ask(), b.ask(), b.ask(), b.ask()
	b.withdraw(late, "the run was cancelled")
	b.waitState(late.ApprovalID, events.Withdrawn)
	if _, err := b.as("ben").Decide(t.Context(), taken.ApprovalID, no); err != nil {
		t.Fatal(err)
	}
	else_ := "below cost"
	many := client.ManyDecisions{Decision: "approve", Comment: "checked", Items: []client.ItemDecision{
		item(yes1), item(taken), {ID: wrong.ApprovalID, Digest: "sha256:else"}, {ID: nay.ApprovalID, Decision: "reject", Comment: &else_},
		item(late), {ID: "nothing-like-it", Digest: "x"},
	}}
	got, err := b.as("ann").DecideMany(t.Context(), many)
	if err != nil || len(got.Results) != len(many.Items) || got.Decided != 2 {
		t.Fatalf("%+v, %v; want 6 results of which 2 are decided", got, err)
	}
	for i, want := range []string{"200 approved ann", "409 rejected ben already_decided", "409 pending  digest_mismatch", "200 rejected ann", "409 withdrawn  approval_withdrawn", "404   not_found"} {
		r := got.Results[i]
		if s := fmt.Sprintf("%d %s %s", r.Status, r.State, r.DecidedBy); s != want && s+" "+r.Code != want || r.ApprovalID != many.Items[i].ID {
			t.Errorf("result %d: %+v, want %s", i, r, want)
		}
	}
	if c := b.show(nay.ApprovalID).Comment; c != "below cost" {
		t.Errorf("its own comment is %q", c)
	}
	again, err := b.as("ann").DecideMany(t.Context(), many)
	if err != nil || again.Decided != 2 || !again.Results[0].Repeated || !again.Results[3].Repeated {
		t.Errorf("again: %+v, %v; want the same, repeated", again, err)
	}
	if n := b.count("SELECT count(*) FROM approvals.v_decisions WHERE outcome = 'decided' AND principal = 'ann'"); n != 2 {
		t.Errorf("ann decided %d times, want 2", n)
	}
	for name, bad := range map[string]client.ManyDecisions{
		"nothing":           {Decision: "approve"},
		"twice":             {Decision: "approve", Items: []client.ItemDecision{item(wrong), item(wrong)}},
		"a yes unseen":      {Decision: "approve", Items: []client.ItemDecision{{ID: wrong.ApprovalID}}},
		"no decision":       {Items: []client.ItemDecision{item(wrong)}},
		"a group unseen":    {Decision: "approve", Group: "tool:propose_price"},
		"both":              {Decision: "approve", Group: "tool:propose_price", UpTo: time.Now(), Items: []client.ItemDecision{item(wrong)}},
		"too many":          {Decision: "approve", Items: make([]client.ItemDecision, 201)},
		"a group of naught": {Decision: "approve", Group: "x", UpTo: time.Now()},
	} {
		if _, err := b.as("ann").DecideMany(t.Context(), bad); client.StatusOf(err) != 422 {
			t.Errorf("%s: %v, want 422", name, err)
		}
	}
	for who, want := range map[string]int{"vic": 403, "": 401} {
		if _, err := b.as(who).DecideMany(t.Context(), many); client.StatusOf(err) != want {
			t.Errorf("%q: %v, want %d", who, err, want)
		}
	}
	foreign, err := b.as("zoe").DecideMany(t.Context(), client.ManyDecisions{Decision: "approve", Items: []client.ItemDecision{item(wrong)}})
	if err != nil || foreign.Results[0].Status != 404 || b.show(wrong.ApprovalID).State != approvals.StatePending {
		t.Errorf("another namespace: %+v, %v", foreign, err)
	}
}

// A group is decided as it was shown: what was asked afterwards waits.
func TestDecideMany_AGroupAsItWasShown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n = 100
	for i := range n {
		b.publish(question(), fmt.Sprint(i))
	}
	eventually(t, "all wait", func() bool {
		return b.count("SELECT count(*) FROM approvals.v_requests WHERE state = 'pending'") == n
	})
	b.ask(toolOf("send_mail"))
	groups, err := b.as("ann").ApprovalGroups(t.Context(), "tool", "", client.PageRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var shown client.ApprovalGroup
	for _, g := range groups.Items {
		if g.Value == "propose_price" {
			shown = g
		}
	}
	if shown.Count != n || len(shown.IDs) != 20 || shown.IDsCursor == "" {
		t.Fatalf("group: %+v", shown)
	}
	rest, err := b.as("ann").Approvals(t.Context(), client.ApprovalFilter{Group: shown.Group}, client.PageRequest{Limit: 500, Cursor: shown.IDsCursor})
	if err != nil || len(rest.Items) != n-20 {
		t.Errorf("%d members behind the ids, %v; want %d", len(rest.Items), err, n-20)
	}
	later := b.ask()
	began := time.Now()
	got, err := b.as("ann").DecideMany(t.Context(), client.ManyDecisions{Decision: "approve", Group: shown.Group, UpTo: shown.Newest})
	t.Logf("%d decided in %s", got.Decided, time.Since(began).Round(time.Millisecond))
	if err != nil || got.Decided != n || got.More {
		t.Errorf("%d decided, %v; want %d", got.Decided, err, n)
	}
	if s := b.show(later.ApprovalID).State; s != approvals.StatePending {
		t.Errorf("what nobody had seen is %s", s)
	}
	if n := b.count("SELECT count(*) FROM approvals.v_requests WHERE state = 'pending'"); n != 2 {
		t.Errorf("%d wait, want 2", n)
	}
}
