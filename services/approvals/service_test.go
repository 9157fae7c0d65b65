package approvals_test

import (
	"fmt"
	"net/http"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

func TestWhoMayDoWhat(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.ask()
	for who, want := range map[string]int{"": 401, "nobody": 401, "vic": 403, "opa": 403, "zoe": 404} {
		if _, err := b.as(who).Decide(t.Context(), a.ApprovalID, yes); client.StatusOf(err) != want {
			t.Errorf("%q decides: %v, want %d", who, err, want)
		}
	}
	for who, want := range map[string]int{"": 401, "zoe": 404, "opa": 0, "vic": 0} {
		if _, err := b.as(who).Approval(t.Context(), a.ApprovalID); client.StatusOf(err) != want {
			t.Errorf("%q reads: %v, want %d", who, err, want)
		}
	}
	page, err := b.as("zoe").Approvals(t.Context(), client.ApprovalFilter{State: "all"}, client.PageRequest{})
	if err != nil || len(page.Items) != 0 {
		t.Errorf("another namespace lists %d, %v; want 0", len(page.Items), err)
	}
	for _, id := range []events.ApprovalID{"nothing-like-it", "a.b", "%00"} {
		if _, err := b.as("ann").Decide(t.Context(), id, yes); client.StatusOf(err) != http.StatusNotFound {
			t.Errorf("%s: %v, want 404", id, err)
		}
	}
	bad := client.Decision{Decision: "approve", Digest: "sha256:else"}
	if _, err := b.as("ann").Decide(t.Context(), a.ApprovalID, bad); client.StatusOf(err) != http.StatusConflict {
		t.Errorf("another digest: %v, want 409", err)
	}
	if s := b.show(a.ApprovalID).State; s != approvals.StatePending {
		t.Errorf("state = %s, want pending", s)
	}
}

func TestListPages(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var want []events.ApprovalID
	for range 7 {
		want = append([]events.ApprovalID{b.ask().ApprovalID}, want...)
	}
	if _, err := b.as("ann").Decide(t.Context(), want[3], no); err != nil {
		t.Fatal(err)
	}
	for state, want := range map[string][]events.ApprovalID{
		"all": want, "": append(append([]events.ApprovalID{}, want[:3]...), want[4:]...), "rejected": want[3:4],
	} {
		var got []events.ApprovalID
		page := client.Page[client.Approval]{}
		for first := true; first || page.NextCursor != ""; first = false {
			var err error
			page, err = b.as("vic").Approvals(t.Context(), client.ApprovalFilter{State: state, Kind: events.ApprovalAction}, client.PageRequest{Limit: 2, Cursor: page.NextCursor})
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range page.Items {
				got = append(got, a.ApprovalID)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("state %q (-want +got)\n%s", state, diff)
		}
	}
}

func TestWhatCannotBeHandledIsKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := question().ApprovalID
	b.send(events.TypeAskApproval, events.ApprovalAsk, "ask:1", "1", id, map[string]any{"approval_id": "a.b\x00"})
	b.send(events.TypeAskApproval, events.ApprovalAsk, "ask:2", "2", id, []int{1})
	b.send("holdfast.approval.dance.v1", events.ApprovalAsk, "ask:3", "3", id, struct{}{})
	eventually(t, "they are kept", func() bool {
		return b.count("SELECT count(*) FROM approvals.rejected") == 3
	})
	b.idle()
	for code, cause := range map[string]string{"invalid": "ask:1", "decode": "ask:2", "unknown_type": "ask:3"} {
		if n := b.count("SELECT count(*) FROM approvals.rejected WHERE code = $1 AND event_id = $2", code, cause); n != 1 {
			t.Errorf("%d rejected as %s, want 1", n, code)
		}
	}
}

// The goroutines of the whole process are counted, so nothing runs beside it.
func TestThousandPendingRequestsCostNothing(t *testing.T) {
	b := setup(t)
	b.ask()
	b.idle()
	before := runtime.NumGoroutine()
	for i := range 1000 {
		a := question()
		b.publish(a, fmt.Sprintf("ask:%d", i))
	}
	eventually(t, "all are pending", func() bool {
		return b.count("SELECT count(*) FROM approvals.v_requests WHERE state = 'pending'") == 1001
	})
	b.idle()
	eventually(t, "goroutines are as few as before", func() bool { return runtime.NumGoroutine() <= before+20 })
	if n := b.count("SELECT count(*) FROM pg_stat_activity WHERE usename = 'holdfast_approvals' AND datname = current_database() AND state LIKE 'idle in transaction%'"); n != 0 {
		t.Errorf("%d transactions are open, want 0", n)
	}
	if err := b.service.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
}
