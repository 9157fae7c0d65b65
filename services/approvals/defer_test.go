package approvals_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

// listed are the ids of what waits, as a list or the only group shows them.
func (b *bench) listed(deferred string) (ids []events.ApprovalID) {
	b.t.Helper()
	page, err := b.as("vic").Approvals(b.t.Context(), client.ApprovalFilter{Deferred: deferred}, client.PageRequest{})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, a := range page.Items {
		ids = append(ids, a.ApprovalID)
	}
	return ids
}

// What is put off is out of the inbox until its time, by the database's clock; then
// it is there again and its channel is told once more. It can be decided meanwhile,
// and then nobody is told.
func TestDefer_WaitsOutOfSight(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := newOutside(t)
	b.reviewers(o)
	told := func(a events.AskApproval) int {
		return b.count(`SELECT count(*) FROM approvals.notices WHERE approval_id = $1 AND state = 'delivered'`, string(a.ApprovalID))
	}
	back, gone := b.ask(refund, in("reviewers")), b.ask(refund, in("reviewers"))
	eventually(t, "both are told in their channel", func() bool { return told(back)+told(gone) == 2 })
	ann := b.as("ann")
	for _, a := range []events.AskApproval{back, gone} {
		if _, err := ann.DeferApproval(t.Context(), a.ApprovalID, client.Deferral{For: "1h"}); err != nil {
			t.Fatal(err)
		}
	}
	if in, out, all := b.listed(""), b.listed("only"), b.listed("show"); len(in) != 0 || len(out) != 2 || len(all) != 2 {
		t.Errorf("listed %v, put off %v, all %v", in, out, all)
	}
	if groups, err := b.as("vic").ApprovalGroups(t.Context(), "tool", "", client.PageRequest{}); err != nil || len(groups.Items) != 0 {
		t.Errorf("groups show %+v, %v", groups, err)
	}
	if got := b.show(back.ApprovalID); got.DeferredBy != "ann" || got.DeferredUntil.IsZero() || got.State != approvals.StatePending {
		t.Errorf("%+v", got)
	}
	if _, err := ann.Decide(t.Context(), gone.ApprovalID, client.Decision{Decision: "reject"}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.as("ben").DeferApproval(t.Context(), back.ApprovalID, client.Deferral{For: "1s"}); err != nil { // sooner: replaces the hour
		t.Fatal(err)
	}
	b.exec(`UPDATE approvals.notices SET next_at = clock_timestamp() WHERE approval_id = $1 AND state = 'due'`, string(gone.ApprovalID))
	eventually(t, "it is listed again", func() bool { return slices.Equal(b.listed(""), []events.ApprovalID{back.ApprovalID}) })
	eventually(t, "its channel is told again", func() bool { return told(back) == 2 })
	eventually(t, "nobody is told of what was decided", func() bool {
		return b.count(`SELECT count(*) FROM approvals.notices WHERE approval_id = $1 AND state = 'gone'`, string(gone.ApprovalID)) == 1
	})
	if n := told(gone); n != 1 {
		t.Errorf("of what was decided %d messages were sent, want that from before alone", n)
	}
	if n := b.count(`SELECT count(*) FROM approvals.notices WHERE approval_id = $1 AND state = 'gone' AND problem = 'the request was put off anew'`, string(back.ApprovalID)); n != 1 {
		t.Errorf("%d rows of the hour were taken back, want 1", n)
	}
	if n := b.count(`SELECT count(*) FROM approvals.audit WHERE kind = 'deferred' AND detail LIKE '%until%' AND actor IN ('ann', 'ben')`); n != 3 {
		t.Errorf("the audit has %d deferrals, want 3", n)
	}
}

func TestDefer_IsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.ask(expiresIn(time.Hour))
	for name, tc := range map[string]struct {
		d    client.Deferral
		code string
	}{
		"beyond the expiry": {client.Deferral{For: "2h"}, "unfit_answer"},
		"into the past":     {client.Deferral{Until: time.Now().Add(-time.Minute)}, "unfit_answer"},
		"both":              {client.Deferral{For: "1m", Until: time.Now().Add(time.Minute)}, "invalid_input"},
		"no duration":       {client.Deferral{For: "soon"}, "invalid_input"},
		"less than nothing": {client.Deferral{For: "-1m"}, "invalid_input"},
	} {
		if _, err := b.as("ann").DeferApproval(t.Context(), a.ApprovalID, tc.d); codeOf(err) != tc.code {
			t.Errorf("%s: %v, want %s", name, err, tc.code)
		}
	}
	if _, err := b.as("vic").DeferApproval(t.Context(), a.ApprovalID, client.Deferral{For: "1m"}); client.StatusOf(err) != http.StatusForbidden {
		t.Errorf("who may only read: %v", err)
	}
	if _, err := b.as("ann").DeferApproval(t.Context(), "nobody", client.Deferral{For: "1m"}); client.StatusOf(err) != http.StatusNotFound {
		t.Errorf("what is not there: %v", err)
	}
	if got, err := b.as("ann").DeferApproval(t.Context(), a.ApprovalID, client.Deferral{For: "1m"}); err != nil || got.DeferredUntil.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := b.as("ben").DeferApproval(t.Context(), a.ApprovalID, client.Deferral{}); err != nil || !got.DeferredUntil.IsZero() || len(b.listed("")) != 1 {
		t.Errorf("shown again: %+v, %v", got, err)
	}
	if _, err := b.as("ann").Decide(t.Context(), a.ApprovalID, client.Decision{Decision: "approve"}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.as("ben").DeferApproval(t.Context(), a.ApprovalID, client.Deferral{For: "1m"}); codeOf(err) != "already_decided" {
		t.Errorf("after the decision: %v", err)
	}
}
