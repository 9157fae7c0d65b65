package postgres

import (
	"errors"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/runner"
)

// While a run waits for a pool no other takes the room before it, a lost wake
// is repeated, and what can never fit is woken to pause.
func TestPoolWait_NobodyOvertakesAndWakesAreRepeated(t *testing.T) {
	db, s, st := created(t)
	docs, err := spec.Parse("t.yaml", []byte("apiVersion: holdfast/v1\nkind: Budget\nmetadata: {name: night}\nspec: {limit: 100}\n"))
	if err != nil {
		t.Fatal(err)
	}
	pool := runner.Pool{Name: "night", Budget: docs[0].Budget}
	of := func(id events.RunID, amount int64) runner.Reservation {
		return runner.Reservation{RunID: id, Namespace: "default", Seq: st.Seq, Epoch: 1, Pools: []runner.Pool{pool}, Most: runner.Amounts{Tokens: amount}}
	}
	reserve := func(r runner.Reservation) runner.Reserved {
		t.Helper()
		got, err := s.Reserve(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	wakes := func() int {
		t.Helper()
		due, err := s.WakeWaits(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		return len(due)
	}
	release(t, s, st)
	holder, newcomer := events.NewRunID(), events.NewRunID()
	if r := reserve(of(holder, 60)); !r.OK {
		t.Fatalf("%+v, want booked", r)
	}
	r := reserve(of(st.RunID, 60))
	if r.OK || r.Full {
		t.Fatalf("%+v, want refused for now", r)
	}
	if err := s.Await(t.Context(), st.RunID, st.Seq+1, r); !errors.Is(err, runner.ErrVersionConflict) {
		t.Errorf("await at another row: %v, want a conflict", err)
	}
	if err := s.Await(t.Context(), st.RunID, st.Seq, r); err != nil {
		t.Fatal(err)
	}
	if n := wakes(); n != 0 {
		t.Errorf("%d woken without room", n)
	}
	if r := reserve(of(newcomer, 10)); r.OK {
		t.Error("a run that came later took the room of one that waits")
	}
	if err := s.Unreserve(t.Context(), of(holder, 0), "w"); err != nil {
		t.Fatal(err)
	}
	if r := reserve(of(newcomer, 10)); r.OK {
		t.Error("a run that came later took the room before the first was woken")
	}
	if n := wakes(); n != 1 {
		t.Errorf("%d woken, want 1", n)
	}
	if n := wakes(); n != 0 {
		t.Errorf("%d woken again at once, want 0", n)
	}
	if _, err := db.Pool.Exec(t.Context(), `UPDATE runner.pool_waits SET woken_at = woken_at - interval '6 s'`); err != nil {
		t.Fatal(err)
	}
	if n := wakes(); n != 1 {
		t.Errorf("%d woken after a lost wake, want 1", n)
	}
	if r := reserve(of(st.RunID, 60)); !r.OK {
		t.Errorf("%+v, want booked by the one that was woken", r)
	}
	if r := reserve(of(newcomer, 10)); !r.OK {
		t.Errorf("%+v, want booked: nobody waits", r)
	}
	// Used up: who waits is woken, to pause.
	if err := s.Await(t.Context(), st.RunID, st.Seq, runner.Reserved{Refused: "night", Window: "all", Amount: 90}); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Pool.Exec(t.Context(), `UPDATE runner.pools SET used = 20`); err != nil {
		t.Fatal(err)
	}
	if n := wakes(); n != 1 {
		t.Errorf("%d woken for a pool that is used up, want 1", n)
	}
}

// Those that wait for a window that has passed try again in the new one.
func TestPoolWait_ANewWindowWakes(t *testing.T) {
	db, s, st := created(t)
	release(t, s, st)
	if _, err := db.Pool.Exec(t.Context(), `INSERT INTO runner.pools (namespace, pool, window_start, unit, ceiling, reserved)
		VALUES ('default', 'night', '2026-11-28', 'tokens', 100, 90)`); err != nil {
		t.Fatal(err)
	}
	if err := s.Await(t.Context(), st.RunID, st.Seq, runner.Reserved{Refused: "night", Window: "2026-11-28", Amount: 50}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		sql  string
		want int
	}{
		{`SELECT`, 0},
		{`UPDATE runner.pool_waits SET tried_at = tried_at - interval '31 s'`, 1},
		{`UPDATE runner.pool_waits SET tried_at = clock_timestamp(), woken_at = NULL`, 0},
		{`INSERT INTO runner.pools (namespace, pool, window_start, unit, ceiling) VALUES ('default', 'night', '2026-11-29', 'tokens', 100)`, 1},
	} {
		if _, err := db.Pool.Exec(t.Context(), step.sql); err != nil {
			t.Fatal(err)
		}
		due, err := s.WakeWaits(t.Context(), 100)
		if err != nil || len(due) != step.want {
			t.Errorf("after %s: %d woken (%v), want %d", step.sql, len(due), err, step.want)
		}
	}
}

// release gives back the claim that created takes.
func release(t *testing.T, s *Store, st *runner.State) {
	t.Helper()
	if err := s.Release(t.Context(), st.RunID, runner.Claim{Worker: "a", Epoch: 1}); err != nil {
		t.Fatal(err)
	}
}

// A run that moves to another version while it waits for a pool leaves the queue: the
// version may have other pools, and who came later would wait behind it for ever.
func TestPoolWait_WhoMovesLeavesTheQueue(t *testing.T) {
	db, s, st := created(t)
	release(t, s, st)
	if err := s.Await(t.Context(), st.RunID, st.Seq, runner.Reserved{Refused: "night", Window: "all", Amount: 60}); err != nil {
		t.Fatal(err)
	}
	waits := func() (n int) {
		t.Helper()
		if err := db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM runner.pool_waits`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	after, facts := signal(t, st, "s1")
	if _, _, err := s.Commit(t.Context(), runner.Commit{Before: st, After: after, Facts: facts, Worker: "a", Cause: "s1"}); err != nil || waits() != 1 {
		t.Fatalf("%d wait after a signal (%v), want 1", waits(), err)
	}
	body := events.Migrated{}
	body.Ref = events.Ref{Kind: events.KindAgent, Name: "a", Digest: "newer"}
	data, err := events.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	f := fact(after.Seq+1, events.FactMigrated, "m1", false, string(data))
	moved := after.Clone()
	if err := moved.Apply(f); err != nil || !moved.OwesModelCall() {
		t.Fatalf("%v; it is %s", err, moved.Status())
	}
	if _, _, err := s.Commit(t.Context(), runner.Commit{Before: after, After: moved, Facts: []runner.Fact{f}, Worker: "a", Cause: "m1"}); err != nil || waits() != 0 {
		t.Errorf("%d wait after the move (%v), want none", waits(), err)
	}
}
