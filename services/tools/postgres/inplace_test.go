package postgres

import (
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/services/tools"
)

// No index knows what an answer changes, and the page of a call has room for it: the answers
// of many calls write no index and move no row to another page.
func TestCalls_AreAnsweredInTheirPlace(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := New(db.Open(t, "holdfast_tools"))
	var indexed []string
	if err := db.Pool.QueryRow(t.Context(), `
		SELECT coalesce(array_agg(DISTINCT a.attname::text), '{}') FROM pg_index x JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = x.indexrelid
		  JOIN pg_attribute a ON a.attrelid = x.indrelid AND d.refobjid = x.indrelid AND d.refobjsubid = a.attnum
		 WHERE x.indrelid = 'tools.calls'::regclass AND a.attname IN
		       ('status', 'epoch', 'result', 'error', 'in_doubt', 'settled_by', 'acting', 'replayed', 'answered_by', 'updated_at')`).Scan(&indexed); err != nil || len(indexed) > 0 {
		t.Errorf("an index of tools.calls has %v (%v)", indexed, err)
	}
	all := firstIntents(40)
	beginAll(t, s, all)
	place := func() (pages, rows int) {
		if err := db.Pool.QueryRow(t.Context(), `SELECT max((ctid::text::point)[0])::int, count(*) FROM tools.calls`).Scan(&pages, &rows); err != nil {
			t.Fatal(err)
		}
		return pages, rows
	}
	before, _ := place()
	var outcomes []tools.Finish
	for _, b := range all {
		outcomes = append(outcomes, tools.Finish{
			Attempt: tools.Attempt{CallID: b.Call.ID, EffectID: b.EffectID, ID: b.AttemptID, Epoch: 1}, Worker: "w",
			Conclusion: tools.Conclusion{State: tools.EffectSucceeded}, Result: []byte(`{"done":true}`), Acted: true,
		})
	}
	did, err := s.settleMany(t.Context(), outcomes)
	if err != nil || len(did) != len(all) {
		t.Fatalf("settled %d: %v", len(did), err)
	}
	if after, rows := place(); after != before || rows != len(all) {
		t.Errorf("%d calls are on pages up to %d, and were up to %d", rows, after, before)
	}
}

// What the ledger answered or refused by itself is counted, whoever writes it: also a release
// that knows nothing of the rows it is counted by.
func TestSpared_FollowsTheCalls(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := New(db.Open(t, "holdfast_tools"))
	all := firstIntents(4)
	beginAll(t, s, all)
	older := db.Open(t, "holdfast_tools")
	for _, sql := range []string{
		`UPDATE tools.calls SET replayed = true, updated_at = clock_timestamp() WHERE key = 'k0'`,
		`UPDATE tools.calls SET status = 'succeeded', updated_at = clock_timestamp() WHERE key = 'k0'`,
		`UPDATE tools.calls SET status = 'mismatch', updated_at = clock_timestamp() WHERE key = 'k1'`,
		`UPDATE tools.calls SET status = 'mismatch', updated_at = clock_timestamp() - interval '2 days' WHERE key = 'k2'`,
		`UPDATE tools.calls SET status = 'succeeded', updated_at = clock_timestamp() WHERE key = 'k3'`,
	} {
		if _, err := older.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	counts := func() tools.Totals {
		got, err := s.Totals(t.Context(), "default")
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := counts(); got.Prevented != 1 || got.Refused != 1 {
		t.Errorf("in %s %d were spared and %d refused, want 1 and 1", tools.TotalsSpan.Round(time.Hour), got.Prevented, got.Refused)
	}
	if _, err := db.Pool.Exec(t.Context(), `DELETE FROM tools.calls`); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM tools.spared`).Scan(&left); err != nil || left > 0 {
		t.Errorf("of deleted calls %d are kept (%v)", left, err)
	}
}
