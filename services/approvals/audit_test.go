package approvals_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// audited reads the whole audit of a namespace by small pages.
func (b *bench) audited(who string, f client.AuditFilter) (rows []client.AuditRow, head client.AuditHead) {
	b.t.Helper()
	for p := (client.PageRequest{Limit: 3}); ; {
		page, err := b.as(who).ApprovalsAudit(b.t.Context(), f, p)
		if err != nil {
			b.t.Fatal(err)
		}
		rows, head = append(rows, page.Items...), page.Head
		if p.Cursor = page.NextCursor; p.Cursor == "" {
			return rows, head
		}
	}
}

// said lists rows as "kind actor door".
func said(rows []client.AuditRow) (out []string) {
	for _, r := range rows {
		out = append(out, strings.TrimSpace(r.Kind+" "+r.Actor+" "+r.Door))
	}
	return out
}

func verified(rows []client.AuditRow, head *client.AuditHead, keep ...client.AuditHead) []string {
	c := &client.AuditCheck{Keep: keep}
	for _, r := range rows {
		c.Add(r)
	}
	c.End(head)
	return c.Problems
}

// What happens to a request is in the audit, in its order, by whom and where.
func TestAudit_TellsTheWholeStory(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := newOutside(t)
	b.reviewers(o)
	a := b.ask(in("reviewers"))
	eventually(t, "people are told", func() bool {
		return b.count("SELECT count(*) FROM approvals.audit WHERE kind = 'told'") == 1
	})
	if _, err := b.as("ann").Approval(t.Context(), a.ApprovalID); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		b.page("GET", b.link(a, "ben")+"", nil)
		b.exec("DELETE FROM approvals.links")
	}
	if _, err := b.as("ben").Decide(t.Context(), a.ApprovalID, client.Decision{Decision: "approve", Digest: "sha256:else"}); client.StatusOf(err) != 409 {
		t.Fatal(err)
	}
	if _, err := b.as("ben").Decide(t.Context(), a.ApprovalID, client.Decision{Decision: "approve", Comment: "ok"}); err != nil {
		t.Fatal(err)
	}
	b.exec(`INSERT INTO tools.calls (call_id, run_id, namespace, tool, tool_digest, pool, args, args_digest, minted_key, key, status, effect_id)
		VALUES ($1, $2, 'default', 'propose_price', 'd', 'default', '{}', 'd', 'k', 'k', 'open', 'e-1')`, string(a.CallID), string(a.RunID))
	eventually(t, "the call begins", func() bool {
		return b.count("SELECT count(*) FROM approvals.audit WHERE kind = 'dispatched'") == 1
	})
	b.exec(`UPDATE tools.calls SET status = 'succeeded' WHERE call_id = $1`, string(a.CallID))
	eventually(t, "the call ends", func() bool {
		return b.count("SELECT count(*) FROM approvals.audit WHERE kind = 'outcome'") == 1
	})
	late := b.ask()
	b.withdraw(late, "the run was cancelled")
	b.waitState(late.ApprovalID, events.Withdrawn)
	gone := b.ask(expiresIn(time.Millisecond * 50))
	b.waitState(gone.ApprovalID, events.Expired)

	rows, head := b.audited("adm", client.AuditFilter{Approval: a.ApprovalID})
	want := []string{"requested  run", "told  reviewers", "shown vic api", "shown ann api", "shown ben link", "attempted ben api", "decided ben api", "dispatched  tools", "outcome  tools"}
	got := said(rows)
	// Who looks while the message is on its way may be before it.
	if i := strings.Index(strings.Join(got, ","), "told"); i < 0 {
		t.Error("nobody was told")
	}
	trim := func(list []string) (out []string) {
		for _, s := range list {
			if !strings.HasPrefix(s, "told") && !strings.HasPrefix(s, "shown vic") {
				out = append(out, s)
			}
		}
		return out
	}
	if diff := cmp.Diff(trim(want), trim(got)); diff != "" || len(got) != len(want) {
		t.Errorf("(-want +got)\n%s\n%v", diff, got)
	}
	if d := rows[len(rows)-3].Detail; !strings.Contains(d, `"comment" : "ok"`) || !strings.Contains(d, string(a.Digest)) {
		t.Errorf("the decision says %s", d)
	}
	if rows, _ := b.audited("adm", client.AuditFilter{Run: late.RunID}); len(rows) < 2 || said(rows)[len(rows)-1] != "withdrawn  run" {
		t.Errorf("of the withdrawn: %v", said(rows))
	}
	if rows, _ := b.audited("adm", client.AuditFilter{Run: gone.RunID}); len(rows) < 2 || said(rows)[len(rows)-1] != "expired  clock" {
		t.Errorf("of the expired: %v", said(rows))
	}
	all, head := b.audited("adm", client.AuditFilter{})
	if problems := verified(all, &head); len(problems) > 0 {
		t.Errorf("verified: %v", problems)
	}
	for who, want := range map[string]int{"ann": 403, "vic": 403, "": 401} {
		if _, err := b.as(who).ApprovalsAudit(t.Context(), client.AuditFilter{}, client.PageRequest{}); client.StatusOf(err) != want {
			t.Errorf("%q reads the audit: %v, want %d", who, err, want)
		}
	}
	if rows, _ := b.audited("zoe", client.AuditFilter{}); len(rows) != 0 {
		t.Errorf("another namespace sees %d rows", len(rows))
	}
}

// Whatever a superuser does to the rows is found, with its place.
func TestAudit_FindsWhatWasChanged(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 4 {
		a := b.ask()
		if _, err := b.as("ann").Decide(t.Context(), a.ApprovalID, no); err != nil {
			t.Fatal(err)
		}
	}
	b.idle()
	before, kept := b.audited("adm", client.AuditFilter{})
	if len(before) < 8 || len(verified(before, &kept)) > 0 {
		t.Fatalf("%d rows: %v", len(before), verified(before, &kept))
	}
	n := len(before)
	for name, tc := range map[string]struct {
		sql  string
		want string
	}{
		"changed": {"UPDATE approvals.audit SET actor = 'ben' WHERE seq = 3", "row 3 was changed"},
		"digits":  {"UPDATE approvals.audit SET detail = replace(detail, 'rejected', 'approved') WHERE seq = 3", "row 3 was changed"},
		"time":    {"UPDATE approvals.audit SET at = at - interval '1 microsecond' WHERE seq = 2", "row 2 was changed"},
		"removed": {"DELETE FROM approvals.audit WHERE seq IN (3, 4)", "rows 3 to 4 are missing"},
		"tail":    {fmt.Sprintf("DELETE FROM approvals.audit WHERE seq = %d", n), fmt.Sprintf("rows %d to %d are missing at the end", n, n)},
		"first":   {"DELETE FROM approvals.audit WHERE seq = 1; UPDATE approvals.audit SET seq = seq - 1", "row 1 was changed"},
		"moved":   {"UPDATE approvals.audit SET seq = 1000 WHERE seq = 2; UPDATE approvals.audit SET seq = 2 WHERE seq = 3; UPDATE approvals.audit SET seq = 3 WHERE seq = 1000", "row 2 was changed"},
		"put in": {fmt.Sprintf("INSERT INTO approvals.audit SELECT namespace, %d, at, kind, approval_id, run_id, actor, door, detail, hash, prev FROM approvals.audit WHERE seq = %d", n+1, n),
			fmt.Sprintf("row %d was changed", n+1)},
		"cut and forgotten": {fmt.Sprintf("DELETE FROM approvals.audit WHERE seq > %d; UPDATE approvals.audit_heads h SET seq = a.seq, hash = a.hash FROM approvals.audit a WHERE a.seq = %d", n-2, n-2),
			fmt.Sprintf("rows %d to %d are missing at the end: row %d was kept", n-1, n, n)},
	} {
		tx, err := b.admin.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, sql := range strings.Split(tc.sql, "; ") {
			if _, err := tx.Exec(t.Context(), sql); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		rows, err := tx.Query(t.Context(), `SELECT namespace, seq, to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), kind, approval_id, run_id, actor, door, detail, prev, hash FROM approvals.audit ORDER BY seq`)
		if err != nil {
			t.Fatal(err)
		}
		var now []client.AuditRow
		for rows.Next() {
			var r client.AuditRow
			if err := rows.Scan(&r.Namespace, &r.Seq, &r.At, &r.Kind, &r.ApprovalID, &r.RunID, &r.Actor, &r.Door, &r.Detail, &r.Prev, &r.Hash); err != nil {
				t.Fatal(err)
			}
			now = append(now, r)
		}
		var head client.AuditHead
		if err := tx.QueryRow(t.Context(), "SELECT seq, hash FROM approvals.audit_heads").Scan(&head.Seq, &head.Hash); err != nil {
			t.Fatal(err)
		}
		_ = tx.Rollback(t.Context())
		var keep []client.AuditHead
		if name == "cut and forgotten" { // by whoever owns the database: only what was kept elsewhere tells
			keep = append(keep, kept)
		}
		if got := strings.Join(verified(now, &head, keep...), "; "); !strings.Contains(got, tc.want) {
			t.Errorf("%s: found %q, want %q", name, got, tc.want)
		}
	}
	// In a file rows may be given in any order, and a forger may make hashes fit.
	forged := append([]client.AuditRow{}, before...)
	forged[2].Actor = "ben"
	forged[2].Hash = forged[2].Sum()
	swapped := append([]client.AuditRow{}, before...)
	swapped[2], swapped[3] = swapped[3], swapped[2]
	twice := append(append([]client.AuditRow{}, before[:3]...), before[2:]...)
	for name, tc := range map[string]struct {
		rows []client.AuditRow
		want string
	}{
		"made to fit": {forged, "row 4 does not follow row 3"}, "swapped": {swapped, "row 3 stands after row 4"}, "twice": {twice, "row 3 stands after row 3"},
		"one missing": {append(append([]client.AuditRow{}, before[:3]...), before[4:]...), "row 4 is missing"},
	} {
		if got := strings.Join(verified(tc.rows, &kept), "; "); !strings.Contains(got, tc.want) {
			t.Errorf("%s: found %q, want %q", name, got, tc.want)
		}
	}
	if got := verified(before[3:], &kept, kept); len(got) > 0 {
		t.Errorf("the end of a chain alone: %v", got)
	}
}

// What cannot be emptied holds no data, only digests.
func TestAudit_HoldsDigestsOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.ask(doubt, func(a *events.AskApproval) { a.Args = []byte(`{"iban":"DE89 3704"}`) })
	if _, err := b.as("ann").Decide(t.Context(), a.ApprovalID, client.Decision{Decision: "happened", Result: []byte(`{"iban":"DE89 3704"}`)}); err != nil {
		t.Fatal(err)
	}
	rows, _ := b.audited("adm", client.AuditFilter{Approval: a.ApprovalID})
	last := rows[len(rows)-1]
	if sum := sha256.Sum256([]byte(`{"iban":"DE89 3704"}`)); last.Kind != "decided" || !strings.Contains(last.Detail, hex.EncodeToString(sum[:])) {
		t.Errorf("the decision says %s, want the result's digest", last.Detail)
	}
	for _, r := range rows {
		if strings.Contains(r.Detail, "DE89 3704") {
			t.Errorf("%s says %s", r.Kind, r.Detail)
		}
	}
}

// Many who decide at once leave one chain.
func TestAudit_OneChainOfManyAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var items []client.ItemDecision
	for range 40 {
		a := question()
		b.publish(a, "ask:"+string(a.ApprovalID))
		items = append(items, client.ItemDecision{ID: a.ApprovalID, Digest: a.Digest})
	}
	eventually(t, "all wait", func() bool {
		return b.count("SELECT count(*) FROM approvals.v_requests WHERE state = 'pending'") == 40
	})
	got, err := b.as("ann").DecideMany(t.Context(), client.ManyDecisions{Decision: "approve", Items: items})
	if err != nil || got.Decided != 40 {
		t.Fatalf("%+v, %v", got, err)
	}
	rows, head := b.audited("adm", client.AuditFilter{})
	if problems := verified(rows, &head); len(problems) > 0 || len(rows) != 80 {
		t.Errorf("%d rows, want 80: %v", len(rows), problems)
	}
}
