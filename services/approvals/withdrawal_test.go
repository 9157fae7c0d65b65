package approvals_test

import (
	"net/http"
	"sync"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

func TestCaseE04_WithdrawalBeforeItsAskIsHonoured(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := question()
	b.withdraw(a, "cancelled at once")
	b.idle()
	if _, err := b.as("vic").Approval(t.Context(), a.ApprovalID); client.StatusOf(err) != http.StatusNotFound {
		t.Errorf("before the ask: %v, want 404", err)
	}
	b.publish(a, "ask:"+string(a.ApprovalID))
	got := b.waitState(a.ApprovalID, events.Withdrawn)
	if got.Summary != a.Summary || got.WithdrawReason != "cancelled at once" {
		t.Errorf("shown %+v", got)
	}
	if _, err := b.as("ann").Decide(t.Context(), a.ApprovalID, yes); client.StatusOf(err) != http.StatusConflict {
		t.Errorf("decide = %v, want 409", err)
	}
}

// Ask and withdrawal cross on the wire, 100 times: the question is never left open.
func TestCaseE04_AskAndWithdrawalTogether(t *testing.T) {
	t.Parallel()
	b := setup(t)
	asked := make([]events.AskApproval, 100)
	for i := range asked {
		asked[i] = question()
		var wg sync.WaitGroup
		wg.Go(func() { b.publish(asked[i], "ask:"+string(asked[i].ApprovalID)) })
		wg.Go(func() { b.withdraw(asked[i], "cancelled") })
		wg.Wait()
	}
	b.idle()
	for _, a := range asked {
		if s := b.show(a.ApprovalID).State; s != events.Withdrawn {
			t.Errorf("%s is %s, want withdrawn", a.ApprovalID, s)
		}
	}
}
