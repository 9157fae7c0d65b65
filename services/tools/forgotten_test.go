package tools_test

import (
	"testing"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// What tools has of a deleted run goes in slices; the ledger stays, so a call that comes
// again, or that another run makes under the same key, acts no second time.
func TestForget_TheLedgerOutlivesTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	c, other := w.call("pay", `{"amount": 1}`), w.call("pay", `{"amount": 2}`)
	for _, c := range []events.CallTool{c, other} {
		w.send(c, "")
		w.answer(c.CallID, events.CallSucceeded)
	}
	w.idle()
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := w.db.Pool.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`INSERT INTO tools.calls (call_id, run_id, namespace, tool, tool_digest, pool, args, args_digest, minted_key, key, status)
		SELECT $1::text || '-x' || n, $1, 'default', 'look', 'd', 'default', '{}', 'd', 'k', 'k', 'succeeded' FROM generate_series(1, 25) n`, string(c.RunID))
	exec(`INSERT INTO tools.artifacts (artifact_id, namespace, run_id, call_id, effect_id, tool, uri)
		SELECT 'mine', 'default', $1::text, $2::text, NULL, 'look', 'https://a' UNION ALL SELECT 'shared', 'default', $1, $2, e.effect_id, 'pay', 'https://b' FROM tools.calls e WHERE e.call_id = $3`,
		string(c.RunID), string(c.CallID), string(other.CallID))
	exec(`INSERT INTO tools.controls (id, call_id, run_id, action) VALUES ('x', 'x', $1, 'revoke')`, string(c.RunID))
	exec(`INSERT INTO tools.announcements (id, run_id, call_id, message) VALUES ('x', $1, 'x', '{}')`, string(c.RunID))
	exec(`INSERT INTO runner.deleted (run_id, n, root_run_id, namespace, kind, name, status, ended_at, deleted_by) VALUES ($1, 1, $1, 'default', 'agent', 'a', 'completed', clock_timestamp(), 'op')`, string(c.RunID))
	pool := w.db.Open(t, "holdfast_tools")
	slices := 0
	for ; slices < 20; slices++ {
		n, err := pg.ForgetSlice(t.Context(), pool, "tools", 10)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
	}
	if slices < 3 || slices == 20 {
		t.Errorf("29 rows went in %d slices of 10", slices)
	}
	const left = `SELECT (SELECT count(*) FROM tools.calls WHERE run_id = $1) + (SELECT count(*) FROM tools.controls WHERE run_id = $1)
		+ (SELECT count(*) FROM tools.announcements WHERE run_id = $1) + (SELECT count(*) FROM tools.artifacts WHERE artifact_id = 'mine')`
	if n := w.count(left, string(c.RunID)); n != 0 {
		t.Errorf("%d rows of the run are left", n)
	}
	if n := w.count(`SELECT count(*) FROM tools.artifacts WHERE artifact_id = 'shared'`) + w.count(`SELECT count(*) FROM tools.calls WHERE run_id = $1`, string(other.RunID)); n != 2 {
		t.Errorf("of what another run has %d rows are left, want 2", n)
	}
	if n := w.count(`SELECT count(*) FROM tools.effects WHERE run_id = $1 AND state = 'succeeded'`, string(c.RunID)) + w.count(`SELECT count(*) FROM tools.receipts`); n != 3 {
		t.Errorf("effects and receipts: %d, want 3", n)
	}
	w.send(c, ":again")
	look := callOf(t, c.RunID, 9, "look", `{}`)
	w.send(look, "")
	w.control("revoke:"+string(look.CallID), events.ControlTool{CallID: look.CallID, RunID: c.RunID, Action: events.ControlRevoke})
	w.idle()
	if n := w.count(left, string(c.RunID)) + w.count(`SELECT count(*) FROM tools.rejected`); n != 0 {
		t.Errorf("late messages left %d rows", n)
	}
	w.wantEffects(c, 1)
	// A worker that slept with the call in hand does not make it either.
	if _, err := pool.Exec(t.Context(), `INSERT INTO tools.calls (call_id, run_id, namespace, tool, tool_digest, pool, args, args_digest, minted_key, key, status)
		VALUES ('late', $1, 'default', 'look', 'd', 'default', '{}', 'd', 'k', 'k', 'open')`, string(c.RunID)); err != nil {
		t.Fatal(err)
	}
	if n := w.count(`SELECT count(*) FROM tools.calls WHERE call_id = 'late'`); n != 0 {
		t.Error("a call of a deleted run was begun")
	}
}
