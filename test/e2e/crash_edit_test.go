package e2e

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// killBehindAnEdit loses approvals right behind a yes to other arguments, and then the
// runner right behind the row that takes it: one call is made, with those arguments.
func killBehindAnEdit(t *testing.T, d *deployment) {
	d.process("approvals").term(t)
	approvals := d.armed("approvals", "approvals.committed=kill")
	j := job{Job: "kill-edit", Do: []string{"order"}}
	id := d.startJob(t, j)
	question := d.approval(t, id, events.ApprovalAction)
	edit, err := d.once(t).PreviewEdit(t.Context(), question.ApprovalID, json.RawMessage(`{"job":"kill-edit-changed"}`))
	if err != nil || edit.Digest == "" {
		t.Fatalf("%+v, %v", edit, err)
	}
	for _, name := range []string{"runner-1", "runner-2"} {
		d.process(name).term(t)
	}
	runner := d.armed("runner-1", "runner.committed["+string(id)+"]=kill")
	yes := client.Decision{Decision: "approve", Args: edit.Args, Digest: edit.Digest}
	if _, err := d.once(t).Decide(t.Context(), question.ApprovalID, yes); client.StatusOf(err) != http.StatusServiceUnavailable {
		t.Fatalf("the killed service answered %v, want 503 from the edge", err)
	}
	approvals.ended(t)
	d.start("approvals")
	runner.ended(t)
	if n := len(d.out.of("order", "kill-edit-changed")) + len(d.out.of("order", j.Job)); n != 0 {
		t.Fatalf("%d calls were made before anybody could", n)
	}
	d.start("runner-1", "runner-2")
	run := d.runOf(t, id, events.StatusCompleted)
	if changed, asked := len(d.out.of("order", "kill-edit-changed")), len(d.out.of("order", j.Job)); changed != 1 || asked != 0 {
		t.Errorf("the shop was asked %d times as the person changed it and %d times as the model asked, want once and never", changed, asked)
	}
	if len(run.Edits) != 1 || string(run.Edits[0].Edited) != `{"job":"kill-edit-changed"}` || len(run.Edits[0].Changes) != 1 || run.Edits[0].By == "" {
		t.Errorf("the run shows %+v", run.Edits)
	}
	if again, err := d.once(t).Decide(t.Context(), question.ApprovalID, yes); err != nil || !again.Repeated {
		t.Errorf("the repeat: %+v, %v", again, err)
	}
	if n := d.count(t, `SELECT count(*) FROM runner.v_events WHERE run_id = $1 AND kind = $2`, string(id), events.FactApprovalDecided); n != 1 {
		t.Errorf("the run took %d decisions, want 1", n)
	}
}
