package postgres

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/runner"
)

// created is a run with its first row, claimed by "a" at epoch 1.
func created(t *testing.T) (*pgtest.DB, *Store, *runner.State) {
	t.Helper()
	t.Parallel()
	db := pgtest.New(t)
	s := New(db.Open(t, "holdfast_runner"))
	before := runner.NewState(events.NewRunID(), "default")
	after := before.Clone()
	f := fact(1, events.FactStarted, "start", true, `{"ref":{"kind":"agent","name":"a","digest":"d"},"input":{"n":12345678901234567890}}`)
	if err := after.Apply(f); err != nil {
		t.Fatal(err)
	}
	epoch, _, err := s.Create(t.Context(), runner.Commit{Before: before, After: after, Facts: []runner.Fact{f}, Worker: "a", Cause: "start", Claim: runner.ClaimTake})
	if err != nil || epoch != 1 {
		t.Fatalf("epoch %d, %v", epoch, err)
	}
	return db, s, after
}

func fact(seq int64, kind, cause string, inbound bool, data string) runner.Fact {
	return runner.Fact{Seq: seq, Kind: kind, Status: "running", Cause: cause, Inbound: inbound, Worker: "a", Data: json.RawMessage(data)}
}

func signal(t *testing.T, st *runner.State, cause string) (*runner.State, []runner.Fact) {
	t.Helper()
	f := fact(st.Seq+1, events.FactSignalReceived, cause, true, `{}`)
	after := st.Clone()
	if err := after.Apply(f); err != nil {
		t.Fatal(err)
	}
	return after, []runner.Fact{f}
}

// beat writes a worker's heartbeat, age ago, fresh for a minute.
func beat(t *testing.T, db *pgtest.DB, name string, age time.Duration) {
	t.Helper()
	if _, err := db.Pool.Exec(t.Context(), `INSERT INTO runner.workers (name, beat, fresh_since) VALUES ($1, clock_timestamp() - $2::interval, clock_timestamp() - interval '1 min')
		ON CONFLICT (name) DO UPDATE SET beat = excluded.beat`, name, age); err != nil {
		t.Fatal(err)
	}
}

func TestCommit_VersionAndEpochGuard(t *testing.T) {
	db, s, st := created(t)
	after, facts := signal(t, st, "s1")
	commit := runner.Commit{Before: st, After: after, Facts: facts, Worker: "a", Cause: "s1", Guard: runner.Claim{Worker: "a", Epoch: 1}}

	beat(t, db, "a", 10*time.Second)
	beat(t, db, "b", 0)
	if epoch, attempts, err := s.TakeOver(t.Context(), st.RunID, runner.Claim{Worker: "a", Epoch: 1}, "b", "b", "m"); err != nil || epoch != 2 || attempts != 1 {
		t.Fatalf("takeover: epoch %d, %d attempts, %v", epoch, attempts, err)
	}
	// The journal has not moved, only the claim: the fenced worker's commit is refused.
	if _, _, err := s.Commit(t.Context(), commit); !errors.Is(err, runner.ErrVersionConflict) {
		t.Errorf("a commit under a lost claim: %v, want ErrVersionConflict", err)
	}
	commit.Guard = runner.Claim{}
	if _, _, err := s.Commit(t.Context(), commit); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Commit(t.Context(), commit); !errors.Is(err, runner.ErrVersionConflict) {
		t.Errorf("the same version twice: %v, want ErrVersionConflict", err)
	}
	// The same cause once more, at the right version, stops at the unique index.
	again, facts := signal(t, after, "s1")
	if _, _, err := s.Commit(t.Context(), runner.Commit{Before: after, After: again, Facts: facts, Worker: "b", Cause: "s1"}); !errors.Is(err, runner.ErrVersionConflict) {
		t.Errorf("the same cause twice: %v, want ErrVersionConflict", err)
	}
	l, err := s.Load(t.Context(), st.RunID, nil)
	if err != nil || l.State.Seq != 2 || l.Claim != (runner.Claim{Worker: "b", Epoch: 2, Cause: "m"}) {
		t.Errorf("loaded seq %d claim %+v (%v)", l.State.Seq, l.Claim, err)
	}
	if string(l.State.Started.Input) != `{"n":12345678901234567890}` {
		t.Errorf("input %s lost digits", l.State.Started.Input)
	}
}

func TestCaseC14_TakeoverIsJudgedByTheDatabaseClock(t *testing.T) {
	for name, tc := range map[string]struct {
		owner, taker time.Duration // age of the beats; negative: no row
		fresh        time.Duration // how long the taker has been fresh
		want         error
	}{
		"a dead owner, a fresh taker":             {owner: 1600 * time.Millisecond, fresh: time.Minute},
		"an owner without a heartbeat row":        {owner: -1, fresh: time.Minute},
		"an owner that beat a second ago":         {owner: time.Second, fresh: time.Minute, want: runner.ErrOwnerAlive},
		"a taker that is late itself":             {owner: time.Hour, taker: time.Second, fresh: time.Minute, want: runner.ErrOwnerAlive},
		"a taker that has just come back":         {owner: time.Hour, fresh: time.Second, want: runner.ErrOwnerAlive},
		"a taker that nobody has heard of":        {owner: time.Hour, taker: -1, want: runner.ErrOwnerAlive},
		"an owner that said it stops (-infinity)": {owner: 1 << 62, fresh: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			db, s, st := created(t)
			for worker, age := range map[string]time.Duration{"a": tc.owner, "b": tc.taker} {
				switch {
				case age == 1<<62:
					if _, err := db.Pool.Exec(t.Context(), `INSERT INTO runner.workers (name, beat, fresh_since) VALUES ($1, '-infinity', now())`, worker); err != nil {
						t.Fatal(err)
					}
				case age >= 0:
					beat(t, db, worker, age)
				}
			}
			if _, err := db.Pool.Exec(t.Context(), `UPDATE runner.workers SET fresh_since = clock_timestamp() - $1::interval WHERE name = 'b'`, tc.fresh); err != nil {
				t.Fatal(err)
			}
			_, _, err := s.TakeOver(t.Context(), st.RunID, runner.Claim{Worker: "a", Epoch: 1}, "b", "b", "m")
			if !errors.Is(err, tc.want) || tc.want == nil && err != nil {
				t.Errorf("%v, want %v", err, tc.want)
			}
			// What is counted: that nobody had the run, for how long, and whether the owner had said so.
			var n int64
			var stopped, unseen bool
			if err := db.Pool.QueryRow(t.Context(), `SELECT count(*), coalesce(bool_or(stopped), false), coalesce(bool_or(seen IS NULL), false) FROM runner.takeovers WHERE run_id = $1`, string(st.RunID)).Scan(&n, &stopped, &unseen); err != nil {
				t.Fatal(err)
			}
			if moved := tc.want == nil; (n == 1) != moved || stopped != (tc.owner == 1<<62) || unseen != (moved && (tc.owner == -1 || tc.owner == 1<<62)) {
				t.Errorf("%d rows, stopped %t, last sign of life unknown %t", n, stopped, unseen)
			}
		})
	}
}

func TestClaim_OneWinner(t *testing.T) {
	_, s, st := created(t)
	if err := s.Release(t.Context(), st.RunID, runner.Claim{Worker: "a", Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	type result struct {
		epoch int64
		err   error
	}
	results := make(chan result, 8)
	for range 8 {
		go func() {
			epoch, err := s.Claim(t.Context(), st.RunID, st.Seq, "w", "m")
			results <- result{epoch, err}
		}()
	}
	won := 0
	for range 8 {
		switch r := <-results; {
		case r.err == nil:
			won++
			if r.epoch != 3 { // the release raised it once
				t.Errorf("epoch %d, want 3", r.epoch)
			}
		case !errors.Is(r.err, runner.ErrVersionConflict):
			t.Error(r.err)
		}
	}
	if won != 1 {
		t.Errorf("%d winners, want 1", won)
	}
}

// A refusal belongs to the ceiling that refused. When the pool is raised before
// the alert is written, no alert of the new ceiling may appear.
func TestReserve_AlertNamesTheCeilingThatRefused(t *testing.T) {
	db, s, st := created(t)
	docs, err := spec.Parse("t.yaml", []byte("apiVersion: holdfast/v1\nkind: Budget\nmetadata: {name: night}\nspec: {limit: 100}\n"))
	if err != nil {
		t.Fatal(err)
	}
	pool := runner.Pool{Name: "night", Budget: docs[0].Budget}
	ask := func(seq int64) runner.Reserved {
		t.Helper()
		r, err := s.Reserve(t.Context(), runner.Reservation{RunID: st.RunID, Namespace: "default", Seq: seq, Epoch: 1, Pools: []runner.Pool{pool}, Most: runner.Amounts{Tokens: 101}})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := ask(1); r.OK || !r.Full {
		t.Fatalf("%+v, want refused and full", r)
	}
	// The race: the refusal was read at 100, the raise commits before its alert.
	if err := s.RaisePool(t.Context(), "default", pool, 1000); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Pool.Exec(t.Context(), insertRefusal, "default", "night", "all", int64(100), int64(0), "tokens", string(st.RunID), ""); err != nil {
		t.Fatal(err)
	}
	if r := ask(2); !r.OK {
		t.Fatalf("%+v after the raise", r)
	}
	var n, ceiling int64
	if err := db.Pool.QueryRow(t.Context(), `SELECT count(*), max(ceiling) FROM runner.alerts`).Scan(&n, &ceiling); err != nil || n != 1 || ceiling != 100 {
		t.Errorf("%d alerts, the highest for a ceiling of %d (%v), want one for 100", n, ceiling, err)
	}
}

// A row that older releases do not know raises what the run's readers must know,
// in the same commit; an older store then neither loads nor claims the run.
func TestCommit_RaisesTheReader(t *testing.T) {
	db, s, st := created(t)
	after := st.Clone()
	after.Seq++
	f := fact(after.Seq, "from_the_future", "f1", true, `{}`)
	beat(t, db, "a", time.Hour)
	beat(t, db, "b", 0)
	if _, _, err := s.Commit(t.Context(), runner.Commit{Before: st, After: after, Facts: []runner.Fact{f}, Worker: "a", Cause: "f1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(t.Context(), st.RunID, st); !errors.Is(err, runner.ErrNewer) {
		t.Errorf("load = %v, want ErrNewer", err)
	}
	if wait, ok := fault.Wait(func() error { _, err := s.Load(t.Context(), st.RunID, nil); return err }()); !ok || wait > 5*time.Second {
		t.Errorf("the message comes back after %s (%v), want at most 5 s", wait, ok)
	}
	old := runner.Claim{Worker: "a", Epoch: 1}
	if _, _, err := s.TakeOver(t.Context(), st.RunID, old, "b", "b", "m"); !errors.Is(err, runner.ErrOwnerAlive) {
		t.Errorf("an older release took a run over: %v", err)
	}
	if err := s.Release(t.Context(), st.RunID, old); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Claim(t.Context(), st.RunID, after.Seq, "b", "m"); !errors.Is(err, runner.ErrVersionConflict) {
		t.Errorf("an older release claimed a run: %v", err)
	}
	s.ReadAs(events.Reader + 1)
	if _, err := s.Claim(t.Context(), st.RunID, after.Seq, "b", "m"); err != nil {
		t.Error(err)
	}
}
