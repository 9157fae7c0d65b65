package approvals_test

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

func TestCaseE04_DecisionAfterTheWithdrawalHasNoEffect(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.ask()
	b.withdraw(a, "the run was cancelled")
	b.waitState(a.ApprovalID, events.Withdrawn)
	_, err := b.as("ann").Decide(t.Context(), a.ApprovalID, yes)
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Status != http.StatusConflict || e.Code != "approval_withdrawn" || !strings.Contains(e.Detail, "the run was cancelled") {
		t.Errorf("error = %v, want 409 approval_withdrawn with the reason", err)
	}
	if s := b.show(a.ApprovalID).State; s != events.Withdrawn {
		t.Errorf("state = %s, want withdrawn", s)
	}
	if n := b.count("SELECT count(*) FROM approvals.decisions WHERE approval_id = $1 AND outcome = 'withdrawn' AND principal = 'ann'", a.ApprovalID); n != 1 {
		t.Errorf("audit has %d late attempts, want 1", n)
	}
}

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

func TestCaseE04_ApproveAndCancelWithinTenMilliseconds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	approved, withdrawn := 0, 0
	for i := range 200 {
		a := b.ask()
		var err error
		var wg sync.WaitGroup
		wg.Go(func() {
			time.Sleep(time.Duration(rand.IntN(4)) * time.Millisecond)
			_, err = b.as("ann").Decide(t.Context(), a.ApprovalID, yes)
		})
		wg.Go(func() {
			time.Sleep(time.Duration(rand.IntN(4)) * time.Millisecond)
			b.withdraw(a, "the run was cancelled")
		})
		wg.Wait()
		var got client.Approval
		eventually(t, "the race is over", func() bool {
			got = b.show(a.ApprovalID)
			return got.State == events.Withdrawn || !got.UnusedAt.IsZero()
		})
		switch {
		case got.State == events.Approve && err == nil && got.UnusedReason == "the run was cancelled":
			approved++
			if d := b.decision(a.ApprovalID); d.Decision != events.Approve {
				t.Errorf("the runner is told %s", d.Decision)
			}
		case got.State == events.Withdrawn && client.StatusOf(err) == http.StatusConflict && got.UnusedAt.IsZero():
			withdrawn++
			if n := len(b.told(a.ApprovalID)); n != 0 {
				t.Errorf("a withdrawn request told the runner %d times", n)
			}
		default:
			t.Fatalf("round %d: the answer was %v and the record says %s, unused %q", i, err, got.State, got.UnusedReason)
		}
	}
	t.Logf("approved first %d times, withdrawn first %d times", approved, withdrawn)
	if n := b.count("SELECT count(*) FROM approvals.decisions WHERE outcome = 'decided'"); n != 200 {
		t.Errorf("audit has %d ends, want 200", n)
	}
}
