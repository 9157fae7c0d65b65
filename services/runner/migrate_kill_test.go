package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// A runner process is killed around a move. Its claim is no model at work: the order is
// carried out before the call is made again. What was committed stays, the run moves
// once, and no answer of the old version is asked for again.
func TestMigrate_SurvivesKills(t *testing.T) {
	t.Parallel()
	const answered, called, moved = events.FactModelAnswered, events.FactToolCompleted, events.FactMigrated
	look := []string{events.FactStarted, answered, events.FactMigrationOrdered, called, moved}
	change := []string{answered, events.FactApprovalDecided, called, answered, events.FactCompleted}
	for name, tc := range map[string]struct {
		point  string
		before []string // kinds of the rows when it dies
		order  bool     // behind that, beside its claim
		after  []string
	}{
		"an order beside the claim of the dead": {"runner.answered[%s]=kill#1", []string{events.FactStarted}, true, []string{events.FactMigrationOrdered, moved, answered, called, answered, events.FactCompleted}},
		"the move is committed, and not sent":   {"runner.committed[%s]=kill#3", look, false, change},
		"the new version's first answer":        {"runner.answered[%s]=kill#2", look, false, change},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			id := events.NewRunID()
			dead := r.spawn(fmt.Sprintf(tc.point, id))
			r.approvals(events.Approve)
			r.startAs(id, events.KindAgent, "clerk", `"errand"`)
			if !tc.order {
				r.has(id, answered)
				r.defs.apply(t, newClerk)
				r.migrate(id, 1)
				r.has(id, events.FactMigrationOrdered)
			}
			calls := r.tools(`1`)
			dead()
			if kinds := r.kinds(id); !slices.Equal(kinds, tc.before) {
				t.Fatalf("it died elsewhere:\n%s", r.journalText(id))
			}
			before := r.journal(id)
			var systems box[string]
			m := &script{answer: func(_ context.Context, q runner.Request, n int) (runner.Answer, error) {
				systems.add(q.System)
				if n == 1 {
					return asks(call("change", `{"n":1}`)), nil
				}
				return said("done"), nil
			}}
			r.worker(m)
			if tc.order {
				r.defs.apply(t, newClerk)
				r.migrate(id, 1)
			}
			r.reaches(id, events.StatusCompleted)
			r.drained()
			if kinds := r.kinds(id); !slices.Equal(kinds, slices.Concat(tc.before, tc.after)) {
				t.Errorf("the rows are\n%s", r.journalText(id))
			}
			for i, row := range r.journal(id)[:len(before)] {
				if row.Kind != before[i].Kind || row.Cause != before[i].Cause || string(row.Data) != string(before[i].Data) {
					t.Errorf("row %d was %s and is %s", row.Seq, before[i].Kind, row.Kind)
				}
			}
			if got := systems.all(); !slices.Equal(got, []string{"work faster", "work faster"}) {
				t.Errorf("the other asked under %q", got)
			}
			var pins events.Migrated
			for _, row := range r.journal(id) {
				if row.Kind == moved {
					if err := json.Unmarshal(row.Data, &pins); err != nil {
						t.Fatal(err)
					}
				}
			}
			changed := 0
			for _, c := range calls.all() {
				if c.Tool == "change" {
					changed++
					if c.ToolDigest != pins.Tools[0].Digest {
						t.Errorf("the change is made with %s, and the move pinned %+v", c.ToolDigest, pins.Tools)
					}
				}
			}
			if changed == 0 {
				t.Error("nothing was changed")
			}
			r.consistent(id)
		})
	}
}
