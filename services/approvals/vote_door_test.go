package approvals_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

// Where a rule wants several people each counts once, through whatever door, and a yes
// that is not the last is told so.
func TestVotes_CountThroughEveryDoor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := newOutside(t)
	b.reviewers(o)
	b.grant(client.GrantRequest{Tool: "propose_price", Count: 50})
	a := b.ask(in("reviewers"), ruled(events.DecisionRule{Quorum: 3, RequesterDenied: true}), func(a *events.AskApproval) { a.Requester = "fin" })
	yes := client.Decision{Decision: "approve", Digest: a.Digest}
	got, err := b.as("max").Decide(t.Context(), a.ApprovalID, yes)
	if err != nil || got.State != approvals.StatePending || got.Repeated || len(got.Votes) != 1 || got.Votes[0].By != "max" || got.Rule.Quorum != 3 {
		t.Fatalf("the first: %+v, %v", got, err)
	}
	if got, err := b.as("max").Decide(t.Context(), a.ApprovalID, yes); err != nil || !got.Repeated || len(got.Votes) != 1 {
		t.Errorf("the same person again: %+v, %v", got, err)
	}
	if _, err := b.as("fin").Decide(t.Context(), a.ApprovalID, yes); err == nil {
		t.Error("who started the run is counted")
	}
	if got := b.fromSlack(click(o, a, "U0ANN", events.Approve, ""), time.Now()); got != http.StatusOK {
		t.Errorf("ann's click: %d", got)
	}
	eventually(t, "ann is told", func() bool { return len(o.at("/actions/U0ANN")) == 1 })
	if told := string(o.at("/actions/U0ANN")[0].body); !strings.Contains(told, "2 of 3: max, ann") {
		t.Errorf("ann is told %s", told)
	}
	mine := b.link(a, "ann")
	if status, _, page := b.page(http.MethodPost, mine, shownForm(mine, a, events.Approve)); status != http.StatusOK || !strings.Contains(page, "2 of 3: max, ann") {
		t.Errorf("ann's link: %d %s", status, page)
	}
	many, err := b.as("ann").DecideMany(t.Context(), client.ManyDecisions{Decision: "approve", Items: []client.ItemDecision{{ID: a.ApprovalID, Digest: a.Digest}}})
	if err != nil || many.Decided != 0 || many.Results[0].State != approvals.StatePending || !strings.Contains(many.Results[0].Detail, "2 of 3") {
		t.Errorf("ann in a batch: %+v, %v", many, err)
	}
	if got, err := b.as("ben").Decide(t.Context(), a.ApprovalID, yes); err != nil || got.State != events.Approve || got.DecidedBy != "ben" || len(got.Votes) != 3 {
		t.Errorf("the last: %+v, %v", got, err)
	}
	rows, _ := b.audited("adm", client.AuditFilter{Approval: a.ApprovalID})
	kinds := map[string]int{}
	for _, r := range rows {
		kinds[r.Kind]++
	}
	if kinds["counted"] != 2 || kinds["decided"] != 1 {
		t.Errorf("the audit has %v", kinds)
	}
	// One no ends it.
	a = b.ask(ruled(events.DecisionRule{Quorum: 2}))
	if _, err := b.as("ann").Decide(t.Context(), a.ApprovalID, client.Decision{Decision: "approve", Digest: a.Digest}); err != nil {
		t.Error(err)
	}
	if got, err := b.as("ann").Decide(t.Context(), a.ApprovalID, client.Decision{Decision: "reject"}); err != nil || got.State != events.Reject {
		t.Errorf("a no: %+v, %v", got, err)
	}
}

// Whoever comes at the same moment, one of them ends it, once.
func TestVotes_AtTheSameMoment(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, tc := range map[string]struct {
		quorum        int64
		first, voters int
		counted       int
	}{
		"two last votes": {2, 1, 2, 0},
		"twenty people":  {3, 0, 20, 2},
		"one too few":    {3, 0, 2, 2},
	} {
		a := b.ask(ruled(events.DecisionRule{Quorum: tc.quorum}))
		vote := func(by string) (ended, counted bool) {
			r, repeated, err := b.service.Decide(t.Context(), approvals.Attempt{ID: a.ApprovalID, Namespace: "default", Decision: events.Approve, Digest: a.Digest, By: by, Role: "approver", Door: approvals.DoorAPI})
			if err != nil {
				t.Errorf("%s: %s: %v", name, by, err)
			}
			return r.Ended() && !repeated, !r.Ended() && !repeated
		}
		for i := range tc.first {
			vote(fmt.Sprintf("first-%d", i))
		}
		var mu sync.Mutex
		var wg sync.WaitGroup
		ends, counts := 0, 0
		for i := range tc.voters {
			wg.Go(func() {
				ended, counted := vote(fmt.Sprintf("voter-%d", i))
				mu.Lock()
				defer mu.Unlock()
				if ended {
					ends++
				}
				if counted {
					counts++
				}
			})
		}
		wg.Wait()
		want := 1
		if tc.first+tc.voters < int(tc.quorum) {
			want = 0
		}
		if ends != want || counts != tc.counted {
			t.Errorf("%s: %d ended it and %d were counted, want %d and %d", name, ends, counts, want, tc.counted)
		}
		if n := b.count(`SELECT count(*) FROM approvals.decisions WHERE approval_id = $1 AND outcome = 'decided'`, string(a.ApprovalID)); n != want {
			t.Errorf("%s: %d ends in the record", name, n)
		}
	}
}
