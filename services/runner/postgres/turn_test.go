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
