package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// begunRuns are runs with their first row.
func begunRuns(t *testing.T, s *Store, n int) (out []*runner.State) {
	t.Helper()
	for range n {
		before := runner.NewState(events.NewRunID(), "default")
		after := before.Clone()
		f := fact(1, events.FactStarted, "start", true, `{"ref":{"kind":"agent","name":"a","digest":"d"},"input":{}}`)
		if err := after.Apply(f); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Create(t.Context(), runner.Commit{Before: before, After: after, Facts: []runner.Fact{f}, Worker: "a", Cause: "start", Claim: runner.ClaimTake}); err != nil {
			t.Fatal(err)
		}
		out = append(out, after)
	}
	return out
}

func signals(t *testing.T, st *runner.State) runner.Commit {
	t.Helper()
	after, facts := signal(t, st, "s1")
	return runner.Commit{Before: st, After: after, Facts: facts, Worker: "a", Cause: "s1"}
}

// together commits all of them at once: the first statement waits until the rest stands
// behind it.
func together(t *testing.T, s *Store, all []runner.Commit) []error {
	t.Helper()
	many := s.commits.Many
	var once sync.Once
	s.commits.Many = func(ctx context.Context, items []runner.Commit) ([]committed, error) {
		once.Do(func() {
			for len(items)+s.commits.Waiting() < len(all) && t.Context().Err() == nil {
				time.Sleep(time.Millisecond)
			}
		})
		return many(ctx, items)
	}
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, c := range all {
		wg.Go(func() { _, _, errs[i] = s.Commit(t.Context(), c) })
	}
	wg.Wait()
	return errs
}

func seqOf(t *testing.T, db *pgtest.DB, id events.RunID) (seq, rows int64) {
	t.Helper()
	err := db.Pool.QueryRow(t.Context(), `SELECT seq, (SELECT count(*) FROM runner.journal j WHERE j.run_id = r.run_id) FROM runner.runs r WHERE run_id = $1`, id).Scan(&seq, &rows)
	if err != nil {
		t.Fatal(err)
	}
	return seq, rows
}

// nineCommits are the next commits of nine runs that have begun.
func nineCommits(t *testing.T, s *Store) (all []runner.Commit) {
	t.Helper()
	for _, st := range begunRuns(t, s, 9) {
		all = append(all, signals(t, st))
	}
	return all
}

// Of commits that go together, one whose version or claim is lost writes nothing and
// keeps no other from being done.
func TestCommits_OneMissesItsVersion(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := New(db.Open(t, "holdfast_runner"))
	all := nineCommits(t, s)
	if _, _, err := s.Commit(t.Context(), all[3]); err != nil { // somebody was faster
		t.Fatal(err)
	}
	all[5].Guard = runner.Claim{Worker: "a", Epoch: 7}
	all[6].Claim = runner.ClaimTake // "a" has it
	did, err := s.commitMany(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range all {
		lost := i == 3 || i == 5 || i == 6
		if did[i].done == lost {
			t.Errorf("commit %d: %+v", i, did[i])
		}
		want := int64(2)
		if i == 5 || i == 6 {
			want = 1
		}
		if seq, rows := seqOf(t, db, c.After.RunID); seq != want || rows != want {
			t.Errorf("commit %d: the run is at %d and has %d rows, want %d", i, seq, rows, want)
		}
	}
}

// What Postgres refuses of one run is that run's error alone.
func TestCommits_OneIsPoisoned(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := New(db.Open(t, "holdfast_runner"))
	all := nineCommits(t, s)
	all[2].Facts = slices.Clone(all[2].Facts)
	all[2].Facts[0].Data = []byte("{\"a\":\"\x00\"}")
	all[7].Facts = slices.Clone(all[7].Facts)
	all[7].Facts[0].Cause = "start" // the run has it
	for i, err := range together(t, s, all) {
		switch i {
		case 2:
			if err == nil || errors.Is(err, runner.ErrVersionConflict) {
				t.Errorf("a NUL: %v", err)
			}
		case 7:
			if !errors.Is(err, runner.ErrVersionConflict) {
				t.Errorf("a cause that is recorded: %v, want ErrVersionConflict", err)
			}
		default:
			if err != nil {
				t.Errorf("commit %d: %v", i, err)
			}
		}
		want := int64(2)
		if i == 2 || i == 7 {
			want = 1
		}
		if seq, rows := seqOf(t, db, all[i].After.RunID); seq != want || rows != want {
			t.Errorf("commit %d: the run is at %d and has %d rows, want %d", i, seq, rows, want)
		}
	}
}

// A commit whose reply is lost is found by its rows and answered as if it had come,
// unless another has the claim by then.
func TestCommits_LostReplyIsReadAgain(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := New(db.Open(t, "holdfast_runner"))
	runs := begunRuns(t, s, 3)
	for _, st := range runs {
		if err := s.Release(t.Context(), st.RunID, runner.Claim{Worker: "a", Epoch: 1}); err != nil {
			t.Fatal(err)
		}
	}
	plain, takes, stolen := signals(t, runs[0]), signals(t, runs[1]), signals(t, runs[2])
	takes.Claim, stolen.Claim = runner.ClaimTake, runner.ClaimTake
	many, lost := s.commits.Many, 0
	s.commits.Many = func(ctx context.Context, items []runner.Commit) ([]committed, error) {
		out, err := many(ctx, items)
		if lost++; err == nil && lost == 1 {
			if items[0].After.RunID == stolen.After.RunID {
				_, err = db.Pool.Exec(ctx, `UPDATE runner.runs SET claim_worker = 'b', claim_epoch = claim_epoch + 1 WHERE run_id = $1`, stolen.After.RunID)
				if err != nil {
					t.Error(err)
				}
			}
			return nil, &pgconn.PgError{Code: "40003"}
		}
		return out, err
	}
	for name, tc := range map[string]struct {
		c     runner.Commit
		epoch int64
		want  error
	}{
		"nobody asks for the claim": {plain, 2, nil},
		"it took the claim":         {takes, 3, nil},
		"it took it and lost it":    {stolen, 0, runner.ErrVersionConflict},
	} {
		lost = 0
		epoch, at, err := s.Commit(t.Context(), tc.c)
		if !errors.Is(err, tc.want) || epoch != tc.epoch || at.IsZero() != (err != nil) {
			t.Errorf("%s: epoch %d at %s, %v; want epoch %d, %v", name, epoch, at, err, tc.epoch, tc.want)
		}
		if seq, rows := seqOf(t, db, tc.c.After.RunID); seq != 2 || rows != 2 {
			t.Errorf("%s: the run is at %d and has %d rows", name, seq, rows)
		}
	}
}

// A commit of many runs finds each row by its key, also by a plan that was made while the
// tables were empty.
func TestCommits_ReadNothingElse(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for name, tc := range map[string]struct {
		sql   string
		uses  []string
		looks int // at one row each, which a LIMIT keeps from becoming a join
	}{
		"commit": {commitRuns, []string{"runs_pkey", "pending_pkey", "timers_pkey", "spend_pkey"}, 0},
		"load":   {loadRuns, []string{"runs_pkey", "deleted_pkey"}, 2},
		"find":   {findCommits, []string{"runs_pkey", "journal_pkey"}, 0},
		"rows":   {rowsOf, []string{"journal_pkey"}, 0},
	} {
		plan := db.KeptPlan(t, tc.sql)
		if n := strings.Count(plan, "Limit"); n < tc.looks {
			t.Errorf("%s looks for %d rows by themselves, want %d:\n%s", name, n, tc.looks, plan)
		}
		for _, index := range tc.uses {
			if !strings.Contains(plan, "using "+index+" on") {
				t.Errorf("%s does not use %s:\n%s", name, index, plan)
			}
		}
		for _, all := range []string{"Hash Join", "Merge Join", "Hash Anti Join", "Merge Anti Join", "hashed SubPlan", "Seq Scan", "Bitmap"} {
			if strings.Contains(plan, all) {
				t.Errorf("%s reads a table from end to end:\n%s", name, plan)
			}
		}
	}
}
