package runner_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

func limited(requestsPerMinute int) string {
	return fmt.Sprintf(`
apiVersion: holdfast/v1
kind: Model
metadata: {name: scripted}
spec: {provider: anthropic, model: scripted, apiKey: {env: KEY}, limits: {requestsPerMinute: %d}}
`, requestsPerMinute)
}

// Ten runs on two workers share a model with a limit, and one worker dies with
// turns in its hands: calls never begin faster than the limit, and all runs end.
func TestTurn_TenRunsNeverExceedTheLimit(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, limited(240))
	const every = 250 * time.Millisecond
	var mu sync.Mutex
	var began []time.Time
	m := &script{answer: func(context.Context, runner.Request, int) (runner.Answer, error) {
		mu.Lock()
		defer mu.Unlock()
		began = append(began, time.Now())
		return said("done"), nil
	}}
	calls := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(began)
	}
	first := r.worker(m)
	r.worker(m)
	var ids []events.RunID
	for range 10 {
		ids = append(ids, r.start(events.KindAgent, "clerk", `{}`))
	}
	r.eventually("three calls have begun", func() bool { return calls() >= 3 }, func() string { return fmt.Sprint(calls()) })
	first.freeze()
	for _, id := range ids {
		r.reaches(id, events.StatusCompleted)
	}
	mu.Lock()
	defer mu.Unlock()
	for i := range began {
		for j := i + 1; j < len(began); j++ {
			// One may be late by less than the space between two.
			if gap, want := began[j].Sub(began[i]), time.Duration(j-i)*every-(every-10*time.Millisecond); gap < want {
				t.Errorf("calls %d and %d began %s apart, want at least %s", i, j, gap, want)
			}
		}
	}
}

// A wait of more than five seconds is a timer row: no slot, no claim, no
// message. Turns come in the order of asking; a cancelled run leaves its own unused.
func TestTurn_ALongWaitHoldsNothing(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, limited(1))
	var mu sync.Mutex
	var order []events.RunID
	w := r.worker(&script{answer: func(_ context.Context, q runner.Request, n int) (runner.Answer, error) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, q.RunID)
		return said("done"), nil
	}})
	var ids []events.RunID
	for i := range 4 {
		id := r.start(events.KindAgent, "clerk", `{}`)
		ids = append(ids, id)
		if i == 0 {
			r.reaches(id, events.StatusCompleted)
			continue
		}
		r.reaches(id, events.StatusWaiting)
	}
	var until []time.Time
	for _, id := range ids[1:] {
		var at time.Time
		var waiting string
		var claimed, timers, pending int
		if err := r.sql.QueryRow(t.Context(), `SELECT m.at, v.waiting, (v.claim_worker IS NOT NULL)::int,
			(SELECT count(*) FROM runner.timers t WHERE t.run_id = v.run_id AND t.due = m.at - interval '1.5 s'), (SELECT count(*) FROM runner.pending p WHERE p.run_id = v.run_id)
			FROM runner.v_runs v JOIN runner.model_turns m USING (run_id) WHERE v.run_id = $1`, string(id)).Scan(&at, &waiting, &claimed, &timers, &pending); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(waiting, "a turn of model scripted until ") || claimed != 0 || timers != 1 || pending != 0 {
			t.Errorf("waits for %q with %d claims, %d timers, %d pending", waiting, claimed, timers, pending)
		}
		until = append(until, at)
	}
	for i := range 2 {
		if gap := until[i+1].Sub(until[i]); gap != time.Minute {
			t.Errorf("turns %s apart, want a minute", gap)
		}
	}
	r.drained()
	for range 16 {
		if !w.Slots().TryAcquire() {
			t.Error("a wait keeps a slot")
		}
	}
	for range 16 {
		w.Slots().Release()
	}
	r.command(ids[1], events.RunCancel, events.Command{})
	r.reaches(ids[1], events.StatusCancelled)
	// The clock goes on by the time up to the last turn.
	if _, err := r.sql.Exec(t.Context(), `UPDATE runner.model_turns SET at = clock_timestamp() + CASE run_id WHEN $1 THEN interval '1 s' ELSE interval '2.5 s' END`, string(ids[2])); err != nil {
		t.Fatal(err)
	}
	if _, err := r.sql.Exec(t.Context(), `UPDATE runner.timers SET next_try = clock_timestamp()`); err != nil {
		t.Fatal(err)
	}
	r.reaches(ids[2], events.StatusCompleted)
	r.reaches(ids[3], events.StatusCompleted)
	want := []string{events.FactStarted, events.FactTurnAwaited, events.FactTimerFired, events.FactModelAnswered, events.FactCompleted}
	if got := r.kinds(ids[3]); !slices.Equal(got, want) {
		t.Errorf("rows %v, want %v", got, want)
	}
	if want := []events.RunID{ids[0], ids[2], ids[3]}; !slices.Equal(order, want) {
		t.Errorf("calls in the order %v, want %v", order, want)
	}
}
