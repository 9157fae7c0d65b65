package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// looksOnce answers with one call of look, then with words.
func looksOnce(_ context.Context, q runner.Request, _ int) (runner.Answer, error) {
	if len(q.Entries) == 1 {
		return asks(runner.ModelCall{Tool: "look"}), nil
	}
	return said("done"), nil
}

// A journal that gives no state parks its run and names the row; no model or tool
// call is made from it, and the others go on. Repaired, the run goes on where it was.
func TestCaseC11_DamagedJournal(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]string{
		"bytes of the newest row are others": `UPDATE runner.journal SET data = '"garbled"' WHERE run_id = $1 AND seq = 2`,
		"the newest row is gone":             `DELETE FROM runner.journal WHERE run_id = $1 AND seq = 2`,
		"a row is of a kind nobody knows":    `UPDATE runner.journal SET kind = 'from_nowhere' WHERE run_id = $1 AND seq = 2`,
		"a number in it is no number":        `UPDATE runner.journal SET data = jsonb_set(data::jsonb, '{duration_ms}', '"soon"')::json WHERE run_id = $1 AND seq = 2`,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.cached = 1
			model := &script{answer: looksOnce}
			r.worker(model)
			sent := r.tools("")
			id := r.start(events.KindAgent, "clerk", `{}`)
			r.reaches(id, events.StatusWaiting)
			var before json.RawMessage
			if err := r.sql.QueryRow(t.Context(), `SELECT to_json(j) FROM runner.journal j WHERE run_id = $1 AND seq = 2`, string(id)).Scan(&before); err != nil {
				t.Fatal(err)
			}
			r.exec(damage, string(id))
			other := r.start(events.KindAgent, "clerk", `{}`) // it takes the run's place in the worker's memory
			r.reaches(other, events.StatusWaiting)
			r.eventually("both calls to be sent", func() bool { return len(sent.all()) == 2 }, func() string { return r.journalText(other) })
			calls := sent.all()
			finish := func(run events.RunID) {
				for _, c := range calls {
					if c.RunID == run {
						r.finish(c, events.CallSucceeded, `{}`)
					}
				}
			}
			finish(other)
			r.reaches(other, events.StatusCompleted)
			finish(id)
			r.reaches(id, events.StatusAttention)
			rows := r.journal(id)
			last := rows[len(rows)-1]
			if last.Seq != 3 || last.Kind != events.FactAttention || !strings.Contains(string(last.Data), `"code":"damaged"`) || !strings.Contains(string(last.Data), "beyond row 1 of 2") {
				t.Errorf("the last row is %d %s %s", last.Seq, last.Kind, last.Data)
			}
			var code string
			if err := r.sql.QueryRow(t.Context(), `SELECT error->>'code' FROM runner.v_runs WHERE run_id = $1`, string(id)).Scan(&code); err != nil || code != "damaged" {
				t.Errorf("the run's error is %q (%v)", code, err)
			}
			r.eventually("the event of the row goes out", func() bool { return r.eventSeqs(id)[id][3] > 0 }, func() string { return r.journalText(id) })
			if n := model.count(id); n != 1 || len(sent.all()) != len(calls) {
				t.Errorf("%d model calls, %d tool calls after the damage; want 1 and %d", n, len(sent.all()), len(calls))
			}

			r.exec(`DELETE FROM runner.journal WHERE run_id = $1 AND seq = 2`, string(id))
			r.exec(`INSERT INTO runner.journal SELECT * FROM json_populate_record(NULL::runner.journal, $1)`, before)
			r.command(id, events.RunResume, events.Command{Reason: "repaired"})
			r.reaches(id, events.StatusWaiting)
			for _, c := range calls {
				if c.RunID == id {
					r.publish(events.RunSubject(id, events.RunToolCompleted), fmt.Sprintf("tool:%s:%s:2", c.CallID, events.CallSucceeded), events.TypeToolCompleted,
						events.ToolCompleted{CallID: c.CallID, RunID: id, Tool: c.Tool, Status: events.CallSucceeded, Key: c.Key, Epoch: 2, Result: json.RawMessage(`{}`)})
				}
			}
			r.reaches(id, events.StatusCompleted)
			if n := model.count(id); n != 2 {
				t.Errorf("%d model calls, want 2", n)
			}
		})
	}
}

// While two releases run side by side, a run that the newer one wrote to is left
// to it: the older one neither works on it nor counts it as failed. Runs in the old
// form are served by both.
func TestVersions_AnOlderRunnerLeavesNewerRuns(t *testing.T) {
	r := newRig(t)
	r.reader, r.cached = 1, 1
	model := &script{answer: looksOnce}
	older := r.worker(model)
	sent := r.tools("")
	var old, young []events.RunID
	for range 4 {
		old, young = append(old, r.start(events.KindAgent, "clerk", `{}`)), append(young, r.start(events.KindAgent, "clerk", `{}`))
	}
	for _, id := range append(old, young...) {
		r.reaches(id, events.StatusWaiting)
	}
	for _, id := range young { // what a commit of the newer release does
		r.exec(`UPDATE runner.runs SET min_reader = 2 WHERE run_id = $1`, string(id))
	}
	r.eventually("all calls to be sent", func() bool { return len(sent.all()) == 8 }, func() string { return r.journalText(young[0]) })
	for _, c := range sent.all() {
		r.finish(c, events.CallSucceeded, `{}`)
	}
	for _, id := range old {
		r.reaches(id, events.StatusCompleted)
	}
	for _, id := range young {
		if s := r.status(id); s != events.StatusWaiting {
			t.Errorf("the older release brought a newer run to %s", s)
		}
	}

	r.reader = 2
	r.worker(model)
	for _, id := range young {
		r.reaches(id, events.StatusCompleted)
		for _, row := range r.journal(id) {
			if by := older.name; row.Seq > 2 && row.Worker == by {
				t.Errorf("row %d of a newer run was written by the older release", row.Seq)
			}
		}
		var attempts, rejected int
		if err := r.sql.QueryRow(t.Context(), `SELECT attempts, (SELECT count(*) FROM runner.rejected) FROM runner.runs WHERE run_id = $1`, string(id)).Scan(&attempts, &rejected); err != nil || attempts+rejected != 0 {
			t.Errorf("%d failed attempts, %d rejected messages (%v)", attempts, rejected, err)
		}
		if n := model.count(id); n != 2 {
			t.Errorf("%d model calls, want 2", n)
		}
	}
}

func (r *rig) exec(sql string, args ...any) {
	r.t.Helper()
	if _, err := r.sql.Exec(r.t.Context(), sql, args...); err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
}
