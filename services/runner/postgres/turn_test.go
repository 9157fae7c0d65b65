package postgres

import (
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// A model's moments are handed out in order, asking again changes nothing until
// a moment is used or passed, and tokens are settled without moving one.
func TestTurn_BookedInOrderAndSettled(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := New(db.Open(t, "holdfast_runner"))
	ask := func(id events.RunID, model string) runner.ModelTurn {
		return runner.ModelTurn{RunID: id, Namespace: "default", Model: model, Request: time.Second, Tokens: 20 * time.Second}
	}
	take := func(of runner.ModelTurn) runner.TurnTime {
		t.Helper()
		at, err := s.TakeTurn(t.Context(), of)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	a, b, c := ask(events.NewRunID(), "m"), ask(events.NewRunID(), "m"), ask(events.NewRunID(), "m")
	first := take(a)
	if first.Later || first.Wait != 0 {
		t.Errorf("the first waits: %+v", first)
	}
	if other := take(ask(events.NewRunID(), "other")); other.Wait != 0 {
		t.Errorf("another model's call waits: %+v", other)
	}
	second := take(b)
	if gap := second.At.Sub(first.At); gap != 20*time.Second || !second.Later {
		t.Errorf("the second is %s behind: %+v", gap, second)
	}
	if again := take(b); !again.At.Equal(second.At) || !again.Later {
		t.Errorf("asked again: %+v, want %+v", again, second)
	}
	// Neither call used all that it was taken to need; nobody comes before b.
	for range 2 {
		if err := s.SettleTurn(t.Context(), a, -19*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	third := take(c)
	if gap := third.At.Sub(second.At); gap != time.Second {
		t.Errorf("the third is %s behind the second, want the second of the requests' limit", gap)
	}
	// Nor with a limit of tokens alone.
	byTokens := func() runner.ModelTurn {
		return runner.ModelTurn{RunID: events.NewRunID(), Namespace: "default", Model: "tokens", Tokens: 20 * time.Second}
	}
	take(byTokens())
	waits := take(byTokens())
	if err := s.SettleTurn(t.Context(), byTokens(), -30*time.Second); err != nil {
		t.Fatal(err)
	}
	if next := take(byTokens()); next.At.Before(waits.At) {
		t.Errorf("%s is before the turn at %s that was booked first", next.At, waits.At)
	}
	if err := s.SettleTurn(t.Context(), a, time.Minute); err != nil {
		t.Fatal(err)
	}
	if gap := take(a).At.Sub(third.At); gap != 80*time.Second {
		t.Errorf("after a call that used more the next is %s behind, want 80 s", gap)
	}
	// b's turn comes and is used; a lost call books another. c's was missed.
	if _, err := db.Pool.Exec(t.Context(), `UPDATE runner.model_turns SET at = clock_timestamp() + CASE run_id WHEN $1 THEN interval '4 s' ELSE -interval '11 s' END WHERE run_id IN ($1, $2)`, string(b.RunID), string(c.RunID)); err != nil {
		t.Fatal(err)
	}
	if used := take(b); used.Later || used.Wait > 4*time.Second || used.Wait < time.Second {
		t.Errorf("its own turn in 4 s: %+v", used)
	}
	for _, of := range []runner.ModelTurn{b, c} {
		if next := take(of); next.At.Sub(third.At) < 80*time.Second {
			t.Errorf("a turn that is over was used again: %+v", next)
		}
	}
}

// A wait for a turn does not forget the workers that the step has cost; an
// answer does.
func TestTurn_AWaitIsNoProgress(t *testing.T) {
	db, s, st := created(t)
	beat(t, db, "a", 10*time.Second)
	beat(t, db, "b", 0)
	if _, attempts, err := s.TakeOver(t.Context(), st.RunID, runner.Claim{Worker: "a", Epoch: 1}, "b", "b", "m"); err != nil || attempts != 1 {
		t.Fatalf("takeover: %d attempts, %v", attempts, err)
	}
	commit := func(waits bool, want int) {
		t.Helper()
		after, facts := signal(t, st, map[bool]string{true: "w", false: "p"}[waits])
		if _, _, err := s.Commit(t.Context(), runner.Commit{Before: st, After: after, Facts: facts, Worker: "b", Cause: "m", Guard: runner.Claim{Worker: "b", Epoch: 2}, Waits: waits}); err != nil {
			t.Fatal(err)
		}
		st = after
		if l, err := s.Load(t.Context(), st.RunID, nil); err != nil || l.Attempts != want {
			t.Errorf("%d attempts after a commit that waits %v, want %d; %v", l.Attempts, waits, want, err)
		}
	}
	commit(true, 1)
	commit(false, 0)
}
