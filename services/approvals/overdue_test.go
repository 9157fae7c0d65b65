package approvals_test

import (
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

// What is kept waits on when its time is over: it says so, people are reminded of it,
// it can be put off and decided, and a yes is good for as long as any. What is not kept
// has ended beside it.
func TestOverdue_WaitsOn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	kept := func(a *events.AskApproval) {
		a.Rule = &events.DecisionRule{AtExpiry: events.AtExpiryKeep, RemindMs: []int64{3600_000}}
		a.ExpiresAfterMs, a.ValidForMs = 1, (2 * time.Hour).Milliseconds()
	}
	yes, no := b.ask(in("reviewers"), kept), b.ask(kept)
	ended := question(func(a *events.AskApproval) { kept(a); a.Rule.AtExpiry = "" })
	b.publish(ended, "ask:"+string(ended.ApprovalID))
	b.waitState(ended.ApprovalID, events.Expired)
	eventually(t, "it is overdue", func() bool { return b.show(yes.ApprovalID).Overdue && b.show(no.ApprovalID).Overdue })
	if err := b.service.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := b.show(yes.ApprovalID)
	if got.State != approvals.StatePending || got.Rule.AtExpiry != events.AtExpiryKeep || got.RemindAt.Sub(got.CreatedAt) != time.Hour {
		t.Errorf("it is %s, told again at %s: %+v", got.State, got.RemindAt, got.Rule)
	}
	b.due(yes)
	eventually(t, "people are reminded", func() bool { return b.noticesOf(yes, "-remind-1", "due")+b.noticesOf(yes, "-remind-1", "sending") == 1 })
	if got, err := b.as("ann").DeferApproval(t.Context(), yes.ApprovalID, client.Deferral{For: "1h"}); err != nil || got.DeferredUntil.IsZero() {
		t.Errorf("put off: %+v, %v", got, err)
	}
	approved, err := b.as("ann").Decide(t.Context(), yes.ApprovalID, client.Decision{Decision: "approve", Digest: yes.Digest})
	if err != nil || approved.State != events.Approve || approved.Overdue || approved.ValidUntil.Sub(approved.DecidedAt) != 2*time.Hour || !approved.DecidedAt.After(approved.ExpiresAt) {
		t.Errorf("%+v, %v", approved, err)
	}
	if d := b.decision(yes.ApprovalID); d.Decision != events.Approve || !d.ValidUntil.Equal(approved.ValidUntil) {
		t.Errorf("the run is told %+v", d)
	}
	if _, err := b.as("ben").Decide(t.Context(), no.ApprovalID, client.Decision{Decision: "reject"}); err != nil || b.show(no.ApprovalID).State != events.Reject {
		t.Errorf("reject: %v", err)
	}
}
