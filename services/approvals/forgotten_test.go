package approvals_test

import (
	"testing"

	"github.com/holdfast-run/holdfast/internal/pg"
)

// Of a request of a deleted run its words go, and the audit stays: who decided, what and
// when. An ask that comes late opens nothing.
func TestForget_TheAuditStays(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a, other := b.ask(), b.ask()
	if _, err := b.as("ann").Decide(t.Context(), a.ApprovalID, yes); err != nil {
		t.Fatal(err)
	}
	b.idle()
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := b.admin.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`INSERT INTO approvals.notices (notice_id, namespace, channel, reason, run_id, body) SELECT 'n' || n, 'default', 'ops', 'failed', $1, '{}' FROM generate_series(1, 12) n`, string(a.RunID))
	exec(`INSERT INTO approvals.links (token_sha256, namespace, approval_id, channel, person, purpose, expires_at) VALUES ('x', 'default', $1, 'ops', 'ann', 'decide', clock_timestamp())`, string(a.ApprovalID))
	exec(`INSERT INTO runner.deleted (run_id, n, root_run_id, namespace, kind, name, status, ended_at, deleted_by) VALUES ($1, 1, $1, 'default', 'agent', 'a', 'completed', clock_timestamp(), 'op')`, string(a.RunID))
	for i := 0; ; i++ {
		n, err := pg.ForgetSlice(t.Context(), b.admin, "approvals", 5)
		if err != nil || i > 20 {
			t.Fatalf("slice %d: %v", i, err)
		}
		if n == 0 {
			break
		}
	}
	count := func(sql string, args ...any) (n int) {
		t.Helper()
		if err := b.admin.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count(`SELECT (SELECT count(*) FROM approvals.notices WHERE run_id = $1) + (SELECT count(*) FROM approvals.links)`, string(a.RunID)); n != 0 {
		t.Errorf("%d notices and links are left", n)
	}
	if n := count(`SELECT count(*) FROM approvals.requests r JOIN approvals.decisions d USING (approval_id)
		WHERE approval_id = $1 AND r.args::text = 'null' AND r.labels = '{}' AND r.decided_by = 'ann' AND r.state = 'approved' AND r.next_announce_at IS NULL AND d.principal = 'ann'`, string(a.ApprovalID)); n != 1 {
		t.Errorf("%d requests have lost their words and kept their decision, want 1", n)
	}
	if b.show(a.ApprovalID).DecidedBy != "ann" {
		t.Error("who decided is no longer shown")
	}
	if n := count(`SELECT count(*) FROM approvals.requests WHERE approval_id = $1 AND args::text <> 'null' AND state = 'pending'`, string(other.ApprovalID)); n != 1 {
		t.Error("the request of another run was touched")
	}
	late := question()
	late.RunID = a.RunID
	b.publish(late, "ask:"+string(late.ApprovalID))
	b.idle()
	if n := count(`SELECT (SELECT count(*) FROM approvals.requests WHERE approval_id = $1) + (SELECT count(*) FROM approvals.rejected)`, string(late.ApprovalID)); n != 0 {
		t.Errorf("a late ask left %d rows", n)
	}
}
