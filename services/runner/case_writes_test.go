package runner_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// A runner process is killed after each kind of write: the start, an answer that is not
// recorded, an answer with calls, a tool's result, a person's decision, the end. What is
// written stays, nothing of it is done again, and another runner takes the run to its
// end. What the tools service and the approvals write is in their own tests.
func TestCaseC06_KilledAfterEachKindOfWrite(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		point   string
		last    string // kind of the last row when it dies
		answers int    // recorded by then
	}{
		"the start":                    {"runner.committed[%s]=kill#1", events.FactStarted, 0},
		"an answer, before its record": {"runner.answered[%s]=kill#1", events.FactStarted, 0},
		"an answer with a call":        {"runner.answer_committed[%s]=kill#1", events.FactModelAnswered, 1},
		"a tool's result":              {"runner.committed[%s]=kill#2", events.FactToolCompleted, 1},
		"a decision":                   {"runner.committed[%s]=kill#3", events.FactApprovalDecided, 2},
		"the end":                      {"runner.answer_committed[%s]=kill#3", events.FactCompleted, 3},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			id := events.NewRunID()
			dead := r.spawn(fmt.Sprintf(tc.point, id))
			calls := r.tools(`1`)
			r.approvals(events.Approve)
			r.startAs(id, events.KindAgent, "clerk", `"errand"`)
			dead()
			before := r.journal(id)
			if n := len(before); n == 0 || before[n-1].Kind != tc.last {
				t.Fatalf("it died elsewhere:\n%s", r.journalText(id))
			}
			m := &script{answer: lookThenChange}
			r.worker(m)
			r.reaches(id, events.StatusCompleted)
			r.drained()
			if n := m.count(id); n != 3-tc.answers {
				t.Errorf("the other made %d model calls, want the %d that were not answered", n, 3-tc.answers)
			}
			after := r.journal(id)
			for i, row := range before {
				if after[i].Kind != row.Kind || after[i].Cause != row.Cause || string(after[i].Data) != string(row.Data) {
					t.Errorf("row %d was %s and is %s", row.Seq, row.Kind, after[i].Kind)
				}
			}
			want := map[string]int{events.FactStarted: 1, events.FactModelAnswered: 3, events.FactToolCompleted: 2, events.FactApprovalDecided: 1, events.FactCompleted: 1}
			for _, kind := range r.kinds(id) {
				want[kind]--
			}
			for kind, missing := range want {
				if missing != 0 {
					t.Errorf("%d rows of the kind %s are missing", missing, kind)
				}
			}
			sent := map[events.CallID]bool{}
			for _, c := range calls.all() {
				sent[c.CallID] = true
			}
			if len(sent) != 2 {
				t.Errorf("%d calls, want 2", len(sent))
			}
			if n := r.count(`SELECT (SELECT count(*) FROM runner.pending) + (SELECT count(*) FROM runner.runs WHERE claim_worker IS NOT NULL)`); n != 0 {
				t.Errorf("%d claims and things to wait for are left", n)
			}
			r.consistent(id)
		})
	}
}
