package approvals_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/bustest"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

func TestExpiryIsDecidedByTheDatabaseClock(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var asked []events.AskApproval
	for range 40 {
		asked = append(asked, b.ask(expiresIn(1500*time.Millisecond)))
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	accepted := map[events.ApprovalID]bool{}
	for i, a := range asked { // half of them before, half of them around and after their moment
		wg.Go(func() {
			until := b.show(a.ApprovalID).ExpiresAt.Add(time.Duration(i-20) * time.Millisecond)
			time.Sleep(time.Until(until))
			_, err := b.as("ann").Decide(t.Context(), a.ApprovalID, yes)
			if err != nil {
				if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != "approval_expired" {
					t.Errorf("%s: %v, want approval_expired", a.ApprovalID, err)
				}
				return
			}
			mu.Lock()
			defer mu.Unlock()
			accepted[a.ApprovalID] = true
		})
	}
	wg.Wait()
	for _, a := range asked {
		d := b.decision(a.ApprovalID)
		got := b.show(a.ApprovalID)
		switch {
		case accepted[a.ApprovalID] != (d.Decision == events.Approve), d.Decision != got.State:
			t.Errorf("%s: accepted %t, told %s, recorded %s", a.ApprovalID, accepted[a.ApprovalID], d.Decision, got.State)
		case got.State == events.Approve && !got.DecidedAt.Before(got.ExpiresAt):
			t.Errorf("%s: approved at %s, it expired at %s", a.ApprovalID, got.DecidedAt, got.ExpiresAt)
		case got.State == events.Expired && got.DecidedAt.Before(got.ExpiresAt):
			t.Errorf("%s: expired at %s, its time was %s", a.ApprovalID, got.DecidedAt, got.ExpiresAt)
		case got.State == events.Expired && (d.By != "" || !d.ValidUntil.IsZero()):
			t.Errorf("%s: an expiry is nobody's decision: %+v", a.ApprovalID, d)
		}
	}
	t.Logf("%d accepted, %d expired", len(accepted), len(asked)-len(accepted))
}

// What has expired but was not swept yet is refused all the same.
func TestExpiryNeedsNoSweep(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	b := build(t, db.URL, bustest.New(t)) // nothing runs
	b.admin = db.Pool
	a := question(expiresIn(time.Millisecond))
	data, err := events.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.service.Handle(t.Context(), events.Received{Message: events.Message{Type: events.TypeAskApproval, ID: "ask", Data: data}}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * time.Millisecond)
	_, err = b.as("ann").Decide(t.Context(), a.ApprovalID, yes)
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != "approval_expired" {
		t.Errorf("decide = %v, want approval_expired", err)
	}
	if err := b.service.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := b.show(a.ApprovalID).State; s != events.Expired {
		t.Errorf("state = %s, want expired", s)
	}
}
