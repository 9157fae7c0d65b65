package approvals_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/bustest"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

var remindful = ruled(events.DecisionRule{RemindMs: []int64{3600_000, 4 * 3600_000, 100 * 3600_000}}) // the last after the expiry

// due makes the next reminder of requests due now.
func (b *bench) due(asked ...events.AskApproval) {
	b.t.Helper()
	for _, a := range asked {
		b.exec(`UPDATE approvals.requests SET remind_at = clock_timestamp() WHERE approval_id = $1 AND remind_at IS NOT NULL`, string(a.ApprovalID))
	}
}

func (b *bench) noticesOf(a events.AskApproval, what, state string) int {
	b.t.Helper()
	return b.count(`SELECT count(*) FROM approvals.notices WHERE starts_with(notice_id, $1) AND state = $2`, string(a.ApprovalID)+what, state)
}

// hoursUntil rounds how far the next reminder is, by the database's clock.
func (b *bench) hoursUntil(a events.AskApproval) int {
	b.t.Helper()
	return b.count(`SELECT coalesce(round(extract(epoch FROM remind_at - clock_timestamp()) / 3600), -1)::int FROM approvals.requests WHERE approval_id = $1`, string(a.ApprovalID))
}

// The channel is told again at each time that comes before the expiry, once, and the
// message says so and can be decided in.
func TestRemind_TellsTheChannelAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := newOutside(t)
	b.reviewers(o)
	a := b.ask(in("reviewers"), remindful)
	eventually(t, "the channel is told", func() bool { return b.noticesOf(a, "-ask", "delivered") == 1 })
	if got := b.show(a.ApprovalID); b.hoursUntil(a) != 1 || got.RemindAt.Sub(got.CreatedAt) != time.Hour || len(got.Rule.RemindMs) != 3 {
		t.Errorf("the next reminder is at %s, it was asked at %s: %+v", got.RemindAt, got.CreatedAt, got.Rule)
	}
	b.due(a)
	eventually(t, "the channel is told again", func() bool { return b.noticesOf(a, "-remind-1", "delivered") == 1 })
	if n := b.hoursUntil(a); n != 3 {
		t.Errorf("the next reminder comes in %d h, want 3", n)
	}
	b.due(a)
	eventually(t, "and again", func() bool { return b.noticesOf(a, "-remind-2", "delivered") == 1 })
	if got := b.show(a.ApprovalID); !got.RemindAt.IsZero() || got.State != approvals.StatePending {
		t.Errorf("%s is told again at %s, want never: the third time is after the expiry", got.State, got.RemindAt)
	}
	var titles []string
	for _, h := range o.at(chatPost) {
		titles = append(titles, fmt.Sprint(strings.Contains(string(h.body), "Reminder: Shop A"), strings.Contains(string(h.body), "waits since"), strings.Contains(string(h.body), string(a.Digest))))
	}
	if want := []string{"false false true", "true true true", "true true true"}; !slices.Equal(titles, want) {
		t.Errorf("told %v, want %v", titles, want)
	}
	if n := b.count(`SELECT count(*) FROM approvals.audit WHERE kind = 'reminded' AND door = 'reviewers' AND approval_id = $1`, string(a.ApprovalID)); n != 2 {
		t.Errorf("the audit has %d reminders, want 2", n)
	}
}

// Nobody is reminded of what has ended, of what has no time left, where nobody is
// told, nor of what is put off; after that the reminders go on.
func TestRemind_OnlyOfWhatWaits(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	b := build(t, db.URL, bustest.New(t)) // sweeps by hand
	b.admin = db.Pool
	ask := func(change ...func(*events.AskApproval)) events.AskApproval {
		a := question(change...)
		data, err := events.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.service.Handle(t.Context(), events.Received{Message: events.Message{Type: events.TypeAskApproval, ID: "ask:" + string(a.ApprovalID), Namespace: "default", Data: data}}); err != nil {
			t.Fatal(err)
		}
		return a
	}
	sweep := func() {
		t.Helper()
		if err := b.service.Remind(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	room := in("reviewers")
	decided, gone, quiet, over, put := ask(room, remindful), ask(room, remindful), ask(remindful), ask(room, remindful), ask(room, remindful)
	if _, err := b.as("ann").Decide(t.Context(), decided.ApprovalID, client.Decision{Decision: "reject"}); err != nil {
		t.Fatal(err)
	}
	if err := b.service.Handle(t.Context(), events.Received{Message: events.Message{Type: events.TypeWithdraw, ID: "w", Namespace: "default",
		Data: json.RawMessage(fmt.Sprintf(`{"approval_id":%q,"run_id":%q}`, gone.ApprovalID, gone.RunID))}}); err != nil {
		t.Fatal(err)
	}
	b.exec(`UPDATE approvals.requests SET expires_at = clock_timestamp() WHERE approval_id = $1`, string(over.ApprovalID))
	if _, err := b.as("ann").DeferApproval(t.Context(), put.ApprovalID, client.Deferral{For: "10h"}); err != nil {
		t.Fatal(err)
	}
	if n := b.hoursUntil(put); n != 11 {
		t.Errorf("what is put off for 10 h is told again in %d h, want 11", n)
	}
	b.due(decided, gone, quiet, over, put) // put: as if a process that knows no reminders had put it off
	sweep()
	if n := b.count(`SELECT count(*) FROM approvals.notices WHERE notice_id LIKE '%-remind-%'`); n != 0 {
		t.Errorf("%d reminders, want none", n)
	}
	// It goes on when it is shown again, and one that was not sent is taken back by the next deferral.
	if _, err := b.as("ann").DeferApproval(t.Context(), put.ApprovalID, client.Deferral{}); err != nil {
		t.Fatal(err)
	}
	b.due(put)
	sweep()
	if n := b.noticesOf(put, "-remind-1", "due"); n != 1 || b.hoursUntil(put) != 3 {
		t.Errorf("%d reminders of what was put off, the next in %d h, want 1 and 3", n, b.hoursUntil(put))
	}
	if _, err := b.as("ann").DeferApproval(t.Context(), put.ApprovalID, client.Deferral{For: "2h"}); err != nil {
		t.Fatal(err)
	}
	if n := b.noticesOf(put, "-remind-1", "gone"); n != 1 || b.hoursUntil(put) != 5 {
		t.Errorf("%d reminders are taken back, the next in %d h, want 1 and 5", n, b.hoursUntil(put))
	}
}

// Of processes that look at once one stores a reminder.
func TestRemind_OneMessageFromManySweeps(t *testing.T) {
	t.Parallel()
	b := setup(t) // sweeps too
	var asked []events.AskApproval
	for range 20 {
		asked = append(asked, b.ask(in("reviewers"), remindful))
	}
	for range 2 {
		b.exec(`UPDATE approvals.requests SET remind_at = clock_timestamp()`)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if err := b.service.Remind(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	for what, query := range map[string]string{
		"rows":    `SELECT count(*) FROM approvals.notices WHERE notice_id LIKE '%-remind-%'`,
		"audited": `SELECT count(*) FROM approvals.audit WHERE kind = 'reminded'`,
		"counted": `SELECT sum(reminders) FROM approvals.requests`,
	} {
		eventually(t, what, func() bool { return b.count(query) >= 2*len(asked) })
		if n := b.count(query); n != 2*len(asked) {
			t.Errorf("%s: %d, want %d", what, n, 2*len(asked))
		}
	}
}

func TestReminderGaps(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		rule *events.DecisionRule
		want []int64
	}{
		{nil, nil},
		{&events.DecisionRule{}, nil},
		{&events.DecisionRule{RemindMs: []int64{10, 25, 99, 100, 200}}, []int64{10, 15, 74}},
		{&events.DecisionRule{RemindMs: []int64{10, 200}, AtExpiry: events.AtExpiryKeep}, []int64{10, 190}},
	} {
		if got := approvals.ReminderGaps(tc.rule, 100*time.Millisecond, time.Time{}); !slices.Equal(got, tc.want) {
			t.Errorf("%+v: %v, want %v", tc.rule, got, tc.want)
		}
	}
}
