package approvals_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Where the rule has a calendar, expiry, reminders and steps are moments of open time,
// and so are the reminders that are left when a request was put off.
func TestCalendar_CountsOpenTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	opens := time.Now().UTC().Add(72 * time.Hour) // closed until then
	calendar := &events.Calendar{TimeZone: "UTC", Open: []events.OpenHours{{Days: []string{strings.ToLower(opens.Weekday().String()[:3])}, From: "09:00", To: "12:00"}}}
	clock, err := spec.NewClock(calendar)
	if err != nil {
		t.Fatal(err)
	}
	a := b.ask(in("reviewers"), ruled(events.DecisionRule{Calendar: calendar, RemindMs: []int64{3600_000, 4 * 3600_000}, Escalate: []events.Escalation{{AfterMs: 2 * 3600_000, Channel: "bosses"}}}),
		func(a *events.AskApproval) { a.ExpiresAfterMs = 7 * 3600_000 })
	near := func(what string, got, want time.Time) {
		t.Helper()
		if d := got.Sub(want); d < -time.Minute || d > time.Minute {
			t.Errorf("%s at %s, want %s", what, got, want)
		}
	}
	got := b.show(a.ApprovalID)
	near("expires", got.ExpiresAt, clock.Add(got.CreatedAt, 7*time.Hour))
	near("told again", got.RemindAt, clock.Add(got.CreatedAt, time.Hour))
	near("the next step", got.EscalateAt, clock.Add(got.CreatedAt, 2*time.Hour))
	if got.Rule.Calendar == nil || got.Rule.Calendar.TimeZone != "UTC" || got.ExpiresAt.Sub(got.CreatedAt) < 48*time.Hour {
		t.Errorf("%+v", got)
	}
	b.due(a)
	eventually(t, "it is told again", func() bool {
		return b.count(`SELECT reminders FROM approvals.requests WHERE approval_id = $1`, string(a.ApprovalID)) == 1
	})
	put, err := b.as("ann").DeferApproval(t.Context(), a.ApprovalID, client.Deferral{For: "1h"})
	if err != nil {
		t.Fatal(err)
	}
	near("told again after it was put off", put.RemindAt, clock.Add(put.DeferredUntil, 3*time.Hour))
	// What is no calendar is not asked.
	bad := question(ruled(events.DecisionRule{Calendar: &events.Calendar{TimeZone: "UTC"}}))
	b.publish(bad, "ask:"+string(bad.ApprovalID))
	eventually(t, "it is rejected", func() bool {
		return b.count(`SELECT count(*) FROM approvals.rejected WHERE event_id = $1 AND error LIKE '%calendar%'`, "ask:"+string(bad.ApprovalID)) == 1
	})
}
