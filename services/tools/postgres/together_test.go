package postgres

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

func firstIntents(n int) (out []tools.Begin) {
	for i := range n {
		run, key := events.NewRunID(), fmt.Sprint("k", i)
		out = append(out, tools.Begin{
			Call: tools.Call{ID: events.NewCallID(run, 3, 0), RunID: run, Namespace: "default", Tool: "pay", ToolDigest: "sha256:t", Pool: "default",
				Args: []byte(`{}`), ArgsDigest: "sha256:a", MintedKey: key, Key: key, Status: "open"},
			EffectID: tools.EffectID("default", "pay", key), AttemptID: fmt.Sprint("t-", i), Worker: "w", Lease: time.Second,
		})
	}
	return out
}

// beginAll begins all at once: the first statement waits until the rest stands behind it.
func beginAll(t *testing.T, s *Store, all []tools.Begin) []tools.Began {
	t.Helper()
	many := s.intents.Many
	var once sync.Once
	s.intents.Many = func(ctx context.Context, items []beginning) ([]opened, error) {
		once.Do(func() {
			for len(items)+s.intents.Waiting() < len(all) && t.Context().Err() == nil {
				time.Sleep(time.Millisecond)
			}
		})
		return many(ctx, items)
	}
	out := make([]tools.Began, len(all))
	var wg sync.WaitGroup
	for i, b := range all {
		wg.Go(func() {
			var err error
			if out[i], err = s.Begin(t.Context(), b); err != nil {
				t.Errorf("begin %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	return out
}

// Of intents that go together, one whose key is used, whose call is answered, or that a
// stop holds, keeps no other from beginning.
func TestIntents_OneIsMissed(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := New(db.Open(t, "holdfast_tools"))
	all := firstIntents(8)
	used := firstIntents(3)[2]
	used.AttemptID = "other"
	if _, err := s.Begin(t.Context(), used); err != nil {
		t.Fatal(err)
	}
	all[5].Call.Tool, all[5].EffectID = "held", tools.EffectID("default", "held", "k5")
	if _, err := db.Pool.Exec(t.Context(), `INSERT INTO tools.stops (stop_id, namespace, scope, name, note, principal) VALUES ('s', 'default', 'tool', 'held', 'n', 'p')`); err != nil {
		t.Fatal(err)
	}
	// An answer that is not committed yet: the statement looks, sees nothing and waits for it.
	answer, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := answer.Exec(t.Context(), `INSERT INTO tools.calls (call_id, run_id, namespace, tool, tool_digest, pool, args, args_digest, minted_key, key, status)
		VALUES ($1, $2, 'default', 'pay', 'd', 'default', '{}', 'a', 'k', 'k', 'failed')`, all[6].Call.ID, all[6].Call.RunID); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			var waits bool
			if err := db.Pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database())`).Scan(&waits); err != nil || waits {
				break
			}
		}
		if err := answer.Commit(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	for i, began := range beginAll(t, s, all) {
		want := tools.Began{Gate: tools.GateOpen, Epoch: 1}
		effects := 1
		switch i {
		case 2:
			want = tools.Began{Gate: tools.GateOpen, Lost: true}
		case 5:
			want.Held = "s"
		case 6:
			want, effects = tools.Began{Gate: tools.GateOpen, Lost: true}, 0
		}
		if began.Waited = 0; began != want {
			t.Errorf("intent %d: %+v, want %+v", i, began, want)
		}
		var n int
		if err := db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM tools.effects WHERE effect_id = $1`, all[i].EffectID).Scan(&n); err != nil || n != effects {
			t.Errorf("intent %d: %d effects, want %d (%v)", i, n, effects, err)
		}
	}
}

// Of outcomes that go together, one that is late keeps no other from being recorded; one
// whose reply is lost is found again.
func TestOutcomes_OneIsLateAndAReplyIsLost(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := New(db.Open(t, "holdfast_tools"))
	all := firstIntents(6)
	beginAll(t, s, all)
	if _, err := db.Pool.Exec(t.Context(), `UPDATE tools.effects SET epoch = 2, attempt_id = 'other' WHERE key = 'k4'`); err != nil {
		t.Fatal(err)
	}
	many := s.outcomes.Many
	var lost, once sync.Once
	s.outcomes.Many = func(ctx context.Context, items []tools.Finish) (out []settled, err error) {
		once.Do(func() {
			for len(items)+s.outcomes.Waiting() < len(all) && t.Context().Err() == nil {
				time.Sleep(time.Millisecond)
			}
		})
		if out, err = many(ctx, items); err == nil && len(items) > 1 {
			lost.Do(func() { out, err = nil, &pgconn.PgError{Code: "40003"} })
		}
		return out, err
	}
	var wg sync.WaitGroup
	for i, b := range all {
		wg.Go(func() {
			answered, mine, err := s.Finish(t.Context(), tools.Finish{
				Attempt: tools.Attempt{CallID: b.Call.ID, EffectID: b.EffectID, ID: b.AttemptID, Epoch: 1}, Worker: "w",
				Conclusion: tools.Conclusion{State: tools.EffectSucceeded}, Result: []byte(`{"n":9007199254740993}`), Acted: true,
			})
			if err != nil || mine != (i != 4) {
				t.Errorf("outcome %d: mine %v, %v", i, mine, err)
			}
			if mine && (len(answered) != 1 || answered[0].ID != b.Call.ID || string(answered[0].Result) != `{"n":9007199254740993}`) {
				t.Errorf("outcome %d answered %+v", i, answered)
			}
			var late bool
			if err := db.Pool.QueryRow(t.Context(), `SELECT late FROM tools.receipts WHERE effect_id = $1`, b.EffectID).Scan(&late); err != nil || late != (i == 4) {
				t.Errorf("outcome %d: its receipt is late %v, %v", i, late, err)
			}
		})
	}
	wg.Wait()
}

// Acts that look at the stops together see each its own.
func TestStandings_EachSeesItsOwn(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := New(db.Open(t, "holdfast_tools"))
	if _, err := db.Pool.Exec(t.Context(), `INSERT INTO tools.stops (stop_id, namespace, scope, name, note, principal)
		VALUES ('s1', 'default', 'tool', 'pay', 'n', 'p'), ('s2', 'other', 'all', '', 'n', 'p')`); err != nil {
		t.Fatal(err)
	}
	for i, saw := range s.standMany(t.Context(), []act{{"default", "look", "r1"}, {"default", "pay", "r2"}, {"other", "look", "r3"}, {"default", "pay", "r2"}}) {
		got := ""
		if saw.stop != nil {
			got = saw.stop.ID
		}
		if want := []string{"", "s1", "s2", "s1"}[i]; got != want || saw.err != nil {
			t.Errorf("act %d sees stop %q (%v), want %q", i, got, saw.err, want)
		}
	}
}

// Statements of many calls find each row by its key, also by a plan that was made while the
// ledger was empty.
func TestTogether_ReadsNothingElse(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for name, tc := range map[string]struct {
		sql  string
		uses []string
	}{
		"effect":   {loadEffectSQL, []string{"effects_id"}},
		"calls":    {lookCallsSQL, []string{"calls_pkey"}},
		"effects":  {lookEffectsSQL, []string{"effects_id"}},
		"around":   {lookAroundSQL, []string{"effects_id", "calls_pkey", "runs_pkey", "deleted_pkey"}},
		"intents":  {openManySQL, []string{"calls_pkey"}},
		"stops":    {standingSQL, nil},
		"outcomes": {settleManySQL, []string{"effects_id"}},
		"answers":  {answerManySQL, []string{"effects_id", "calls_effect"}},
	} {
		plan := db.KeptPlan(t, tc.sql)
		for _, index := range tc.uses {
			if !strings.Contains(plan, "using "+index+" on") {
				t.Errorf("%s does not use %s:\n%s", name, index, plan)
			}
		}
		for _, all := range []string{"Hash Join", "Merge Join", "Hash Anti Join", "Merge Anti Join"} {
			if strings.Contains(plan, all) {
				t.Errorf("%s reads a table from end to end:\n%s", name, plan)
			}
		}
	}
}
