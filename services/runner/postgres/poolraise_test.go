package postgres

import (
	"slices"
	"testing"

	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/runner"
)

func budget(t *testing.T, text string) runner.Pool {
	t.Helper()
	docs, err := spec.Parse("t.yaml", []byte("apiVersion: holdfast/v1\nkind: Budget\nmetadata: {name: night}\nspec: {"+text+"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	return runner.Pool{Name: "night", Budget: docs[0].Budget}
}

// Five hundred runs are paused for one pool: a look takes the oldest that have
// room, at most as many as it may, each once in five seconds.
func TestWakePaused_InBatchesAndOnlyWhatFits(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := New(db.Open(t, "holdfast_runner"))
	exec := func(sql string) {
		t.Helper()
		if _, err := db.Pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`INSERT INTO runner.runs (run_id, namespace, kind, name, digest, status, seq, input, trigger, paused_for, accepted_at)
		SELECT to_char(n, 'FM0000'), 'default', 'agent', 'a', 'd', CASE n WHEN 7 THEN 'needs_attention' ELSE 'paused' END, 2, '{}', '{}', 'pool:night', now() FROM generate_series(1, 500) n`)
	exec(`INSERT INTO runner.runs (run_id, namespace, kind, name, digest, status, seq, input, trigger, paused_for, accepted_at)
		VALUES ('x', 'default', 'agent', 'a', 'd', 'paused', 2, '{}', '{}', 'toolCalls', now()), ('y', 'default', 'agent', 'a', 'd', 'paused', 2, '{}', '{}', 'pool:other', now()),
		       ('z', 'zoo', 'agent', 'a', 'd', 'paused', 2, '{}', '{}', 'pool:night', now())`)
	// Each needs 10, the third far more than there will ever be; the first was
	// paused by a release that kept no note.
	exec(`INSERT INTO runner.pool_pauses (run_id, namespace, pool, window_start, amount, unit, seq)
		SELECT to_char(n, 'FM0000'), 'default', 'night', 'all', CASE n WHEN 3 THEN 9223372036854775807 ELSE 10 END, 'tokens', 2 FROM generate_series(2, 500) n`)
	pools, err := s.PausedPools(t.Context(), runner.PausedPool{}, 10)
	if want := []runner.PausedPool{{Namespace: "default", Name: "night"}, {Namespace: "default", Name: "other"}, {Namespace: "zoo", Name: "night"}}; err != nil || !slices.Equal(pools, want) {
		t.Fatalf("%v (%v), want %v", pools, err, want)
	}
	if rest, err := s.PausedPools(t.Context(), pools[0], 1); err != nil || !slices.Equal(rest, pools[1:2]) {
		t.Errorf("behind the first: %v (%v)", rest, err)
	}
	wake := func(p runner.Pool, limit, want int) []runner.PoolPause {
		t.Helper()
		woken, err := s.WakePaused(t.Context(), "default", p, limit)
		if err != nil || len(woken) != want {
			t.Fatalf("%d woken (%v), want %d", len(woken), err, want)
		}
		return woken
	}
	wake(runner.Pool{Name: "night"}, 100, 0) // the definition is gone
	// 1 + 7*10 fit: of the first, which is looked at with no need, and seven others.
	first := wake(budget(t, "limit: 75"), 100, 8)
	if got := first[7]; got.RunID != "0010" || got.Seq != 2 || got.Wakes != 1 {
		t.Errorf("the last is %+v, want run 0010 at row 2: neither the third, which fits never, nor the seventh, which is parked", got)
	}
	wake(budget(t, "limit: 75"), 100, 0)   // they are under way
	wake(budget(t, "limit: 5"), 100, 0)    // lowered again
	wake(budget(t, "limit: 91"), 100, 2)   // raised by two
	wake(budget(t, "limit: 9000"), 50, 40) // at most fifty are looked at, ten of which are under way
	exec(`UPDATE runner.pool_pauses SET woken_at = now() - interval '6 s' WHERE woken_at IS NOT NULL`)
	if again := wake(budget(t, "limit: 75"), 100, 8); again[0].Wakes != 2 {
		t.Errorf("woken for the %dth time, want the second", again[0].Wakes)
	}
	exec(`UPDATE runner.runs SET status = 'running', paused_for = '' WHERE run_id < '0400'`)
	wake(budget(t, "limit: 1, onExceeded: alert"), 1000, 101)
	// In another unit nobody knows what they need: as many try as there is room for.
	exec(`UPDATE runner.pool_pauses SET woken_at = NULL`)
	wake(budget(t, "unit: modelCalls, limit: 4"), 100, 4)
}
