package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// grave is a database with runs in it.
type grave struct {
	*pgtest.DB
	*Store
	t *testing.T
}

func newGrave(t *testing.T) grave {
	t.Helper()
	t.Parallel()
	db := pgtest.New(t)
	return grave{DB: db, Store: New(db.Open(t, "holdfast_runner")), t: t}
}

func (g grave) exec(sql string, args ...any) {
	g.t.Helper()
	if _, err := g.DB.Pool.Exec(g.t.Context(), sql, args...); err != nil {
		g.t.Fatalf("%s: %v", sql, err)
	}
}

func (g grave) count(sql string, args ...any) (n int) {
	g.t.Helper()
	if err := g.DB.Pool.QueryRow(g.t.Context(), sql, args...).Scan(&n); err != nil {
		g.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// run inserts a run that has ended, or not, with rows in its journal.
func (g grave) run(name, status string, parent events.RunID, rows int) events.RunID {
	g.t.Helper()
	id := events.NewRunID()
	g.exec(`INSERT INTO runner.runs (run_id, namespace, kind, name, digest, status, seq, input, trigger, parent_run_id, accepted_at, ended_at)
		VALUES ($1, 'default', 'agent', $2, 'd', $3, greatest($5, 1), '{}', '{}', nullif($4, ''), clock_timestamp(), CASE WHEN $3 <> 'running' THEN clock_timestamp() - interval '2 h' END)`, string(id), name, status, string(parent), rows)
	g.exec(`INSERT INTO runner.journal (run_id, seq, kind, status, cause, inbound, worker, at, data)
		SELECT $1, n, 'signal_received', 'running', 'c' || n, true, 'w', clock_timestamp(), '{}' FROM generate_series(1, $2::int) n`, string(id), rows)
	return id
}

func (g grave) delete(ids ...events.RunID) []events.RunID {
	g.t.Helper()
	var list []runner.Deletion
	for _, id := range ids {
		list = append(list, runner.Deletion{RunID: id, By: "op", Reason: "for " + string(id)[:8]})
	}
	gone, err := g.Delete(g.t.Context(), list)
	if err != nil {
		g.t.Fatal(err)
	}
	return gone
}

// A run goes with all that is below it, or stays with all of it: while one has not
// ended, or something is owed for one.
func TestDelete_ATreeGoesTogetherOrStays(t *testing.T) {
	g := newGrave(t)
	root := g.run("root", "completed", "", 3)
	child := g.run("child", "failed", root, 3)
	deep := g.run("deep", "running", child, 3)
	lone := g.run("lone", "cancelled", "", 3)
	if gone := g.delete(child, deep); gone != nil {
		t.Errorf("runs went without the one that started them: %v", gone)
	}
	stays := func(why string) {
		t.Helper()
		if gone := g.delete(root); gone != nil || g.count(`SELECT count(*) FROM runner.runs`) != 4 {
			t.Errorf("%s: %v went", why, gone)
		}
	}
	stays("a run below has not ended")
	g.exec(`UPDATE runner.runs SET status = 'expired', ended_at = clock_timestamp(), claim_worker = 'busy', claim_epoch = 1 WHERE run_id = $1`, string(deep))
	g.exec(`INSERT INTO runner.workers (name, beat, fresh_since) VALUES ('busy', clock_timestamp(), clock_timestamp())`)
	stays("a worker is at it")
	g.exec(`UPDATE runner.workers SET beat = clock_timestamp() - interval '2 min'`)
	owed := map[string][2]string{
		"the post of its end": {`INSERT INTO runner.pending (run_id, namespace, item, kind) VALUES ($1, 'default', 'callback/1', 'callback')`, `DELETE FROM runner.pending`},
		"a notice":            {`INSERT INTO runner.notices (notice_id, namespace, channel, body) VALUES ('n', 'default', 'ops', json_build_object('run_id', $1::text))`, `UPDATE runner.notices SET next_announce_at = NULL`},
		"a call": {`INSERT INTO tools.calls (call_id, run_id, namespace, tool, tool_digest, pool, args, args_digest, minted_key, key, status) VALUES ('c', $1, 'default', 't', 'd', 'p', '{}', 'd', 'k', 'k', 'open')`,
			`UPDATE tools.calls SET status = 'succeeded'`},
		"an approval": {`INSERT INTO approvals.requests (approval_id, namespace, run_id, kind, call_id, agent, tool, tool_digest, args, digest, ask_cause, asked_at, created_at, expires_at, valid_for)
			VALUES ('a', 'default', $1, 'action', 'c', 'x', 't', 'd', '{}', 'd', 'ask', clock_timestamp(), clock_timestamp(), clock_timestamp() + interval '1 h', interval '1 h')`,
			`UPDATE approvals.requests SET state = 'withdrawn', decided_at = clock_timestamp()`},
	}
	for what, sql := range owed {
		g.exec(sql[0], string(deep))
		stays(what)
		g.exec(sql[1])
	}
	if gone := g.delete(root, lone, root); len(gone) != 4 {
		t.Fatalf("%v went, want all four", gone)
	}
	if n := g.count(`SELECT count(*) FROM runner.runs`); n != 0 {
		t.Errorf("%d runs are left", n)
	}
	// Whoever reads deletions in order misses none, and each says with whom and why it went.
	if n := g.count(`SELECT count(*) FROM runner.v_deleted WHERE deleted_by = 'op' AND reason = 'for ' || left(root_run_id, 8) AND n BETWEEN 1 AND 4`); n != 4 {
		t.Errorf("%d deletions are kept as they were ordered", n)
	}
	if n := g.count(`SELECT count(*) FROM runner.v_deleted WHERE root_run_id = $1`, string(root)); n != 3 {
		t.Errorf("%d runs went with the root", n)
	}
	if last := g.count(`SELECT last FROM runner.deletions`); last != 4 {
		t.Errorf("the next deletion comes behind %d", last)
	}
}

// What a deleted run leaves goes in slices of which each is a transaction; a process
// that dies between two of them leaves the rest to the next. Nothing of other runs goes.
func TestCaseG04_ADeletedRunIsPurgedInSlices(t *testing.T) {
	g := newGrave(t)
	long, small, other := g.run("long", "completed", "", 2500), g.run("small", "failed", "", 7), g.run("other", "completed", "", 9)
	for _, id := range []events.RunID{long, other} {
		g.exec(`INSERT INTO blob.blobs (scope, digest, data) SELECT 'run:' || $1::text, 'sha256:' || encode(sha256(n::text::bytea), 'hex'), 'x' FROM generate_series(1, 25) n`, string(id))
		g.exec(`INSERT INTO runner.notices (notice_id, namespace, channel, body, next_announce_at) VALUES ($1, 'default', 'ops', '{}', NULL)`, string(events.RunNotice(id, events.NoticeFailed)))
		g.exec(`INSERT INTO runner.pools (namespace, pool, window_start, unit, ceiling) VALUES ('default', $1, 'all', 'tokens', 5)`, events.FlowPool(id, "tokens"))
		g.exec(`INSERT INTO runner.alerts (alert_id, namespace, pool, window_start, percent, ceiling, used, unit) VALUES ($1, 'default', 'run:tokens', $1, 80, 5, 4, 'tokens')`, string(id))
		g.exec(`INSERT INTO runner.trees (root_run_id, begun, most) VALUES ($1, 1, 9)`, string(id))
	}
	if _, err := g.Store.pool.Exec(t.Context(), `SELECT runner.purge(ARRAY[$1], 10)`, string(other)); err == nil || !strings.Contains(err.Error(), "keeps its rows") {
		t.Fatalf("rows of a run that is not deleted: %v", err)
	}
	if gone := g.delete(long, small); len(gone) != 2 {
		t.Fatalf("%v went", gone)
	}
	rows := func() int { return g.count(`SELECT count(*) FROM runner.journal WHERE run_id <> $1`, string(other)) }
	for want := 2007; want > 0; want -= 500 {
		// A new process for each slice.
		if clean, more, err := New(g.Store.pool).Purge(t.Context(), 500); err != nil || clean != nil || !more {
			t.Fatalf("a slice: %v, %v, %v", clean, more, err)
		}
		if n := rows(); n != want {
			t.Fatalf("%d rows are left, want %d", n, want)
		}
	}
	slices := 0
	for ; slices < 10; slices++ {
		clean, more, err := New(g.Store.pool).Purge(t.Context(), 500)
		if err != nil {
			t.Fatal(err)
		}
		if len(clean) == 2 && time.Since(clean[0].EndedAt) < time.Hour {
			t.Errorf("the end of %v is lost", clean)
		}
		if !more {
			break
		}
	}
	if slices < 4 {
		t.Errorf("rows, bytes and the rest went in %d slices", slices)
	}
	left := func(id events.RunID) (n [6]int) {
		for i, sql := range []string{
			`SELECT count(*) FROM runner.journal WHERE run_id = $1`, `SELECT count(*) FROM blob.blobs WHERE scope = 'run:' || $1`, `SELECT count(*) FROM runner.notices WHERE notice_id LIKE $1 || '%'`,
			`SELECT count(*) FROM runner.pools WHERE pool LIKE 'flow-' || $1 || '%'`, `SELECT count(*) FROM runner.alerts WHERE window_start = $1`, `SELECT count(*) FROM runner.trees WHERE root_run_id = $1`,
		} {
			n[i] = g.count(sql, string(id))
		}
		return n
	}
	if diff := cmp.Diff([6]int{}, left(long)); diff != "" {
		t.Errorf("of the deleted run (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([6]int{9, 25, 1, 1, 1, 1}, left(other)); diff != "" {
		t.Errorf("of the other run (-want +got):\n%s", diff)
	}
	if n := g.count(`SELECT count(*) FROM runner.v_deleted WHERE purged_at IS NOT NULL`); n != 2 {
		t.Errorf("%d deletions are over", n)
	}
	if n, err := g.ForgetDeleted(t.Context(), time.Hour, 10); n != 0 || err != nil {
		t.Errorf("deletions were forgotten too soon: %d, %v", n, err)
	}
	g.exec(`UPDATE runner.deleted SET purged_at = purged_at - interval '2 h' WHERE run_id = $1`, string(small))
	if n, err := g.ForgetDeleted(t.Context(), time.Hour, 10); n != 1 || err != nil {
		t.Errorf("old deletions: %d forgotten, %v", n, err)
	}
}

// A process that slept while its run began, ended and was deleted does not begin it again.
func TestDelete_StaysDeleted(t *testing.T) {
	g := newGrave(t)
	id := g.run("a", "completed", "", 1)
	if gone := g.delete(id); len(gone) != 1 {
		t.Fatalf("%v went", gone)
	}
	if _, err := g.Load(t.Context(), id, nil); !errors.Is(err, runner.ErrDeleted) || !errors.Is(err, runner.ErrNoRun) {
		t.Errorf("the deleted run was read: %v", err)
	}
	// With its rows gone nothing but the deletion itself keeps it away.
	for more := true; more; {
		var err error
		if _, more, err = g.Purge(t.Context(), 500); err != nil {
			t.Fatal(err)
		}
	}
	before := runner.NewState(id, "default")
	after := before.Clone()
	f := fact(1, events.FactStarted, "start:"+string(id), true, `{"ref":{"kind":"agent","name":"a","digest":"d"},"input":{}}`)
	if err := after.Apply(f); err != nil {
		t.Fatal(err)
	}
	if _, _, err := g.Create(t.Context(), runner.Commit{Before: before, After: after, Facts: []runner.Fact{f}, Worker: "a", Cause: f.Cause}); !errors.Is(err, runner.ErrVersionConflict) {
		t.Errorf("it was begun again: %v", err)
	}
	if n := g.count(`SELECT (SELECT count(*) FROM runner.runs) + (SELECT count(*) FROM runner.journal)`); n != 0 {
		t.Errorf("%d runs and rows", n)
	}
}

// Ended runs come by their age, and those that a run started come with that one.
func TestEndedBefore(t *testing.T) {
	g := newGrave(t)
	var want []string
	for i := range 5 {
		id := g.run(fmt.Sprint("a", i), "completed", "", 0)
		g.run("child", "completed", id, 0)
		g.exec(`UPDATE runner.runs SET ended_at = clock_timestamp() - interval '2 h' - $2 * interval '1 min' WHERE run_id = $1`, string(id), 5-i)
		want = append(want, fmt.Sprint("a", i))
	}
	g.exec(`UPDATE runner.runs SET ended_at = clock_timestamp() - interval '30 min' WHERE name = 'a4'`)
	g.run("open", "running", "", 0)
	var got []string
	var after runner.EndedRun
	for {
		page, err := g.EndedBefore(t.Context(), time.Hour, after, 3)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page {
			if got = append(got, r.Ref.Name); r.Age < 2*time.Hour || r.Status != "completed" || r.Namespace != "default" {
				t.Errorf("%+v", r)
			}
		}
		if len(page) < 3 {
			break
		}
		after = page[2]
	}
	if diff := cmp.Diff(want[:4], got); diff != "" {
		t.Errorf("runs that ended more than an hour ago (-want +got):\n%s", diff)
	}
}
