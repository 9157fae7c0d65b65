package httpapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/services/console/httpapi"
)

func idOf(n int) string { return fmt.Sprintf("01a22811-0f6d-7d1a-83a5-%012d", n) }

// ended inserts a run; a status that is no end leaves it open.
func (r *rig) ended(n int, status string, parent int) string {
	r.t.Helper()
	from := ""
	if parent > 0 {
		from = idOf(parent)
	}
	r.exec(`INSERT INTO runner.runs (run_id, namespace, kind, name, digest, status, seq, input, trigger, accepted_at, ended_at, parent_run_id)
		VALUES ($1, 'default', 'agent', 'shop', 'd', $2, 1, '{}', '{}', clock_timestamp(), CASE WHEN $2 NOT IN ('running', 'waiting') THEN clock_timestamp() END, nullif($3, ''))`, idOf(n), status, from)
	return idOf(n)
}

// deleted plays the runner: it carries out what was ordered.
func (r *rig) deleted() {
	r.t.Helper()
	r.exec(`WITH RECURSIVE tree AS (SELECT o.run_id AS root, o.run_id, o.principal, o.reason FROM console.v_deletions o
			UNION ALL SELECT t.root, c.run_id, t.principal, t.reason FROM tree t JOIN runner.runs c ON c.parent_run_id = t.run_id),
		gone AS (DELETE FROM runner.runs r USING tree t WHERE r.run_id = t.run_id RETURNING r.*, t.root, t.principal AS by, t.reason)
		INSERT INTO runner.deleted (run_id, n, root_run_id, namespace, kind, name, status, ended_at, deleted_by, reason)
		SELECT run_id, row_number() OVER (ORDER BY run_id), root, namespace, kind, name, status, ended_at, by, reason FROM gone`)
}

// Only a tree that has ended goes, as a whole and from its root; then each door says that
// it is gone, by whom and when.
func TestDelete_OnlyWhatHasEnded(t *testing.T) {
	t.Parallel()
	r := setup(t)
	root, child := r.ended(1, "completed", 0), r.ended(2, "waiting", 1)
	other := r.ended(3, "failed", 0)
	operator := doortest.Token(authn.Operator)
	refused := func(want int, text, method, path, token string) {
		t.Helper()
		if status, _, raw := r.do(method, path, token, ""); status != want || !strings.Contains(raw, text) {
			t.Errorf("%s %s: %d %s, want %d with %q", method, path, status, raw, want, text)
		}
	}
	refused(403, "", "DELETE", "/v1/runs/"+root, doortest.Token(authn.Viewer))
	refused(409, "run "+child+" is waiting; cancel it first", "DELETE", "/v1/runs/"+root, operator)
	refused(409, "delete run "+root, "DELETE", "/v1/runs/"+child, operator)
	refused(404, "there is no run", "DELETE", "/v1/runs/"+idOf(9), operator)
	program := r.tell(authn.Operator, "POST", "/v1/runs", `{"name":"nightly"}`).RunID
	refused(409, "it is a program's own", "DELETE", "/v1/runs/"+string(program), operator)
	if done := r.tell(authn.Operator, "POST", "/v1/runs/"+string(program)+"/complete", `{"status":"completed"}`); done.code != 200 {
		t.Fatalf("end the program's run: %d %s", done.code, done.body)
	}
	// Its end changes nothing, and the text does not ask for one.
	if status, _, raw := r.do("DELETE", "/v1/runs/"+string(program), operator, ""); status != 409 || strings.Contains(raw, "complete") {
		t.Errorf("a program's run that has ended: %d %s", status, raw)
	}
	r.exec(`UPDATE runner.runs SET status = 'cancelled', ended_at = clock_timestamp() WHERE run_id = $1`, child)
	// The start of the run and a message to it are still rows of other services.
	r.exec(`INSERT INTO trigger.deliveries (delivery_id, namespace, source_kind, source_name, request_digest, run_id, ref_kind, ref_name, ref_digest, input)
		VALUES (gen_random_uuid(), 'default', 'api', 'a', 'd', $1, 'agent', 'shop', 'd', '{}')`, root)
	r.exec(`INSERT INTO trigger.announcements (run_id) VALUES ($1)`, root)
	r.exec(`INSERT INTO console.commands (id, namespace, run_id, kind, body, principal) VALUES ('m', 'default', $1, 'message', '{"text":"secret"}', 'p'), ('f', 'default', $2, 'fork', '{"prompt":"secret"}', 'p')`, root, child)

	type deleting struct {
		RunID string `json:"run_id"`
		Runs  int    `json:"runs"`
	}
	if dry := get[deleting](r, "DELETE", "/v1/runs/"+root+"?dry_run=true", authn.Operator, ""); dry.Runs != 2 || r.number("SELECT count(*) FROM console.deletions") != 0 {
		t.Errorf("a dry run: %+v", dry)
	}
	for range 2 { // the second is a repeat
		if done := get[deleting](r, "DELETE", "/v1/runs/"+root+"?reason=left", authn.Operator, ""); done.Runs != 2 || done.RunID != root {
			t.Errorf("ordered: %+v", done)
		}
	}
	r.deleted()
	for _, path := range []string{"", "/why", "/journal", "/events", "/bundle"} {
		for _, id := range []string{root, child} {
			refused(410, "was deleted at", "GET", "/v1/runs/"+id+path, operator)
		}
	}
	refused(410, "left", "DELETE", "/v1/runs/"+root, operator)
	refused(410, "was deleted at", "POST", "/v1/runs/"+root+"/retry", operator)
	if status, _, raw := r.do("POST", "/v1/runs/"+root+"/messages", operator, `{"text":"hello"}`); status != 410 {
		t.Errorf("a message to a deleted run: %d %s", status, raw)
	}
	if status, _, raw := r.do("POST", "/v1/runs/"+root+"/cancel", operator, `{}`); status != 410 {
		t.Errorf("a command to a deleted run: %d %s", status, raw)
	}
	var left []string
	for _, run := range get[door.Page[httpapi.Run]](r, "GET", "/v1/runs", authn.Viewer, "").Items {
		left = append(left, string(run.RunID))
	}
	if diff := cmp.Diff([]string{string(program), other}, left); diff != "" {
		t.Errorf("runs in the list (-want +got):\n%s", diff)
	}
	first := get[door.Page[httpapi.Deletion]](r, "GET", "/v1/deletions?limit=1", authn.Viewer, "")
	second := get[door.Page[httpapi.Deletion]](r, "GET", "/v1/deletions?limit=1&cursor="+first.NextCursor, authn.Viewer, "")
	if len(first.Items) != 1 || len(second.Items) != 1 || second.NextCursor != "" || string(first.Items[0].RunID) != child || string(second.Items[0].RunID) != root {
		t.Fatalf("deletions: %+v, then %+v", first, second)
	}
	if d := first.Items[0]; d.Status != "cancelled" || string(d.Root) != root || d.Reason != "left" || d.DeletedBy == "" {
		t.Errorf("the deletion: %+v", d)
	}
	// What the console itself has of it goes as well.
	for i := 0; ; i++ {
		n, err := pg.ForgetSlice(t.Context(), r.db, "console", 1)
		if err != nil || i > 20 {
			t.Fatalf("slice %d: %v", i, err)
		}
		if n == 0 {
			break
		}
	}
	if n := r.number(`SELECT (SELECT count(*) FROM console.commands WHERE body::text LIKE '%secret%') + (SELECT count(*) FROM console.v_deletions)`); n != 0 {
		t.Errorf("%d rows are left of what was said to the run", n)
	}
	if n := r.number(`SELECT count(*) FROM console.commands WHERE kind = 'fork' AND landed_at IS NOT NULL`); n != 1 {
		t.Error("the order that made a run is gone: its origin could be retried twice")
	}
}

// Of many, those that have ended and that no run started are ordered, once.
func TestDelete_ManyByACondition(t *testing.T) {
	t.Parallel()
	r := setup(t)
	for i, status := range []string{"completed", "failed", "cancelled", "expired", "waiting"} {
		r.ended(10+i, status, 0)
	}
	r.ended(20, "completed", 10)
	where := `{"command":"delete","where":"name==\"shop\" && status != \"expired\"","reason":"old"`
	if dry := r.bulk(where + `,"dry_run":true}`); len(dry.Runs) != 3 || r.number("SELECT count(*) FROM console.deletions") != 0 {
		t.Errorf("a dry run finds %d runs, want 3", len(dry.Runs))
	}
	for range 2 {
		done := r.bulk(where + `}`)
		for _, run := range done.Runs {
			if run.CommandID == "" {
				t.Errorf("run %s was not ordered", run.RunID)
			}
		}
		if len(done.Runs) != 3 {
			t.Errorf("%d runs fit, want 3", len(done.Runs))
		}
	}
	if n := r.number(`SELECT count(*) FROM console.v_deletions WHERE reason = 'old'`); n != 3 {
		t.Errorf("%d deletions are ordered, want 3", n)
	}
}
