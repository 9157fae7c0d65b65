package approvals_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

// Votes that came before an expiry or a withdrawal decide nothing afterwards; those before
// a deferral still count. No grant is made from what wants several people.
func TestVotes_BeforeAnExpiryAWithdrawalAndADeferral(t *testing.T) {
	t.Parallel()
	b := setup(t)
	two := ruled(events.DecisionRule{Quorum: 2})
	for want, end := range map[string]func(events.AskApproval){
		events.Expired:   func(events.AskApproval) {},
		events.Withdrawn: func(a events.AskApproval) { b.withdraw(a, "the run was cancelled") },
		events.Approve: func(a events.AskApproval) {
			if _, err := b.as("ben").DeferApproval(t.Context(), a.ApprovalID, client.Deferral{For: "1h"}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		a := b.ask(two, func(a *events.AskApproval) {
			if want == events.Expired {
				a.ExpiresAfterMs = 600
			} else {
				a.ExpiresAfterMs = 3 * time.Hour.Milliseconds()
			}
		})
		yes := client.Decision{Decision: "approve", Digest: a.Digest}
		if got, err := b.as("ann").Decide(t.Context(), a.ApprovalID, yes); err != nil || got.State != approvals.StatePending || len(got.Votes) != 1 {
			t.Fatalf("%s: the first vote: %+v, %v", want, got, err)
		}
		end(a)
		if want != events.Approve {
			b.waitState(a.ApprovalID, want)
		}
		got, err := b.as("ben").Decide(t.Context(), a.ApprovalID, yes)
		if want == events.Approve {
			if err != nil || got.State != events.Approve || got.DecidedBy != "ben" || len(got.Votes) != 2 {
				t.Errorf("a vote after a deferral: %+v, %v", got, err)
			}
		} else if client.StatusOf(err) != http.StatusConflict || b.show(a.ApprovalID).State != want {
			t.Errorf("%s: the second vote: %v, want 409", want, err)
		}
		if want == events.Withdrawn {
			if n := len(b.told(a.ApprovalID)); n != 0 {
				t.Errorf("the runner is told %d times of a withdrawal", n)
			}
		} else if d := b.decision(a.ApprovalID); d.Decision != want {
			t.Errorf("the runner is told %s, want %s", d.Decision, want)
		}
		_, err = b.as("ann").MakeGrant(t.Context(), client.GrantRequest{Like: a.ApprovalID, Count: 5, ExpiresIn: 3600})
		if client.StatusOf(err) != http.StatusUnprocessableEntity || !strings.Contains(err.Error(), "needs 2 people") {
			t.Errorf("%s: a grant like it: %v", want, err)
		}
	}
}

// Nobody sees or confirms a change behind a link once the request has ended, nor with a
// form that is not of the page that showed it.
func TestCaseE05_ALinksChangeAfterTheEnd(t *testing.T) {
	t.Parallel()
	b, _ := reviewed(t, setup(t))
	a := b.ask(refund, in("reviewers"))
	address := b.link(a, "ann")
	_, _, page := b.page(http.MethodGet, address, nil)
	change := form(page, "edit")
	change.Set("args", makes50)
	_, _, shown := b.page(http.MethodPost, address, change)
	_, from, _ := strings.Cut(shown, `<form method="post"`)
	confirm, _, _ := strings.Cut(from, "</form>")
	f := form(confirm, events.Approve)
	f.Set("args", makes50)
	nonce := f.Get("nonce")
	f.Set("nonce", form(page, "").Get("nonce")) // of the page that showed the request as it was asked
	if code, _, _ := b.page(http.MethodPost, address, f); code != http.StatusUnprocessableEntity || b.show(a.ApprovalID).State != approvals.StatePending {
		t.Errorf("a form that no page showed: %d", code)
	}
	f.Set("nonce", nonce)
	b.withdraw(a, "the run was cancelled")
	b.waitState(a.ApprovalID, events.Withdrawn)
	for name, late := range map[string]map[string][]string{"a change": change, "its confirmation": f} {
		if code, _, page := b.page(http.MethodPost, address, late); code != http.StatusConflict || strings.Contains(page, "<form") || strings.Contains(page, "<textarea") {
			t.Errorf("%s: %d %s", name, code, page)
		}
	}
	if _, _, page := b.page(http.MethodGet, address, nil); strings.Contains(page, "<textarea") {
		t.Errorf("the page still has arguments to change: %s", page)
	}
}
