package approvals_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

// Where a rule wants a comment nobody decides without one, at no door, and is told so.
func TestComment_IsWantedAtEveryDoor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := newOutside(t)
	b.reviewers(o)
	b.grant(client.GrantRequest{Tool: "propose_price", Count: 50})
	wanted := ruled(events.DecisionRule{CommentRequired: true})
	a := b.ask(in("reviewers"), wanted) // waits: the grant has nothing to say
	if got := b.show(a.ApprovalID); got.Rule == nil || !got.Rule.CommentRequired {
		t.Errorf("nobody sees that a comment is wanted: %+v", got.Rule)
	}

	for _, d := range []string{"approve", "reject"} {
		_, err := b.as("ann").Decide(t.Context(), a.ApprovalID, client.Decision{Decision: d, Comment: " ", Digest: a.Digest})
		if e, ok := errors.AsType[*client.Error](err); !ok || e.Status != http.StatusUnprocessableEntity || e.Code != "comment_required" || !strings.Contains(e.Detail, "write why") {
			t.Errorf("%s at the API: %v", d, err)
		}
	}
	other := b.ask(in("reviewers"), wanted)
	many, err := b.as("ann").DecideMany(t.Context(), client.ManyDecisions{Decision: "approve", Items: []client.ItemDecision{
		{ID: a.ApprovalID, Digest: a.Digest}, {ID: other.ApprovalID, Digest: other.Digest, Comment: new("as agreed")}}})
	if err != nil || len(many.Results) != 2 || many.Results[0].Code != "comment_required" || many.Results[0].Status != http.StatusUnprocessableEntity || many.Results[1].State != events.Approve {
		t.Errorf("in a batch: %+v, %v", many, err)
	}

	link := b.link(a, "ben")
	if status, _, page := b.page(http.MethodGet, link, nil); status != http.StatusOK || !strings.Contains(page, `maxlength="4000" required>`) {
		t.Errorf("the page does not mark the comment: %d %s", status, page)
	}
	if status, _, page := b.page(http.MethodPost, link, shownForm(link, a, events.Approve)); status != http.StatusUnprocessableEntity || !strings.Contains(page, "write why") || !strings.Contains(page, `name="comment"`) {
		t.Errorf("the page takes no comment: %d %s", status, page)
	}
	if got := b.fromSlack(click(o, a, "U0ANN", events.Approve, ""), time.Now()); got != http.StatusOK {
		t.Errorf("ann's click: %d", got)
	}
	eventually(t, "ann is told", func() bool { return len(o.at("/actions/U0ANN")) == 1 })
	if told := string(o.at("/actions/U0ANN")[0].body); !strings.Contains(told, "write why") {
		t.Errorf("ann is told %s", told)
	}

	if s := b.show(a.ApprovalID).State; s != approvals.StatePending {
		t.Fatalf("it is %s", s)
	}
	if n := b.count(`SELECT count(*) FROM approvals.decisions WHERE approval_id = $1 AND outcome = 'no_comment'`, string(a.ApprovalID)); n != 5 {
		t.Errorf("the record has %d such attempts, want 5", n)
	}
	form := shownForm(link, a, events.Approve)
	form.Set("comment", "the shop agreed")
	if status, _, page := b.page(http.MethodPost, link, form); status != http.StatusOK {
		t.Errorf("with a comment: %d %s", status, page)
	}
	if got := b.show(a.ApprovalID); got.State != events.Approve || got.DecidedBy != "ben" || got.Comment != "the shop agreed" {
		t.Errorf("it ended as %+v", got)
	}
	// Who says nothing of what ended like this is a repeat.
	if _, err := b.as("ann").Decide(t.Context(), a.ApprovalID, client.Decision{Decision: "approve", Digest: a.Digest}); err != nil {
		t.Errorf("the same again: %v", err)
	}
	a = b.ask(in("reviewers"), wanted)
	if got := b.fromSlack(click(o, a, "U0ANN", events.Reject, "not tonight"), time.Now()); got != http.StatusOK {
		t.Errorf("ann's click with a comment: %d", got)
	}
	if got := b.show(a.ApprovalID); got.State != events.Reject || got.DecidedBy != "ann" || got.Comment != "not tonight" {
		t.Errorf("her no ended as %+v", got)
	}
	_, err = b.as("ann").MakeGrant(t.Context(), client.GrantRequest{Like: a.ApprovalID, Count: 1, ExpiresIn: 3600})
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Status != http.StatusUnprocessableEntity || !strings.Contains(e.Detail, "needs a comment") {
		t.Errorf("a grant like it: %v", err)
	}
}
