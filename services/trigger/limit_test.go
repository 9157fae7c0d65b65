package trigger_test

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/services/trigger"
)

// rush sends n deliveries with ids of their own to replicas in turn, at once.
func rush(n int, path, prefix string, replicas ...*replica) []answer {
	answers := make([]answer, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			answers[i] = replicas[i%len(replicas)].post(path, fmt.Sprintf(`{"id":"%s-%d"}`, prefix, i))
		})
	}
	wg.Wait()
	return answers
}

// sort splits answers into the accepted ones and those that may be sent again.
func sorted(t *testing.T, answers []answer, code string) (taken []string, later int) {
	t.Helper()
	for _, a := range answers {
		switch {
		case a.status == http.StatusAccepted && a.RunID != "":
			taken = append(taken, a.RunID)
		case a.status == http.StatusTooManyRequests && a.Code == code:
			if wait, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || wait < 1 || wait > 60 {
				t.Errorf("Retry-After %q", a.header.Get("Retry-After"))
			}
			later++
		default:
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	return taken, later
}

// The rate holds over replicas, a repeat is not counted, and the database's
// clock fills the bucket.
func TestHook_RateLimit(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, hook("raw", `provider: none, agent: anything, dedupe: "${body.id}", rateLimit: {perMinute: 30, burst: 3}`))
	a, b := w.start(t), w.start(t)
	began := time.Now()
	answers := rush(12, "/hooks/raw", "x", a, b)
	taken, later := sorted(t, answers, trigger.CodeRateLimited)
	if most := 3 + int(time.Since(began).Seconds()/2) + 1; len(taken) < 3 || len(taken) > most || len(taken)+later != 12 {
		t.Fatalf("%d taken and %d refused, want 3 taken", len(taken), later)
	}
	if n := w.count(t, "trigger.deliveries"); n != len(taken) {
		t.Errorf("%d deliveries, want %d", n, len(taken))
	}
	for i, first := range answers { // a repeat costs nothing, and is not refused
		if first.RunID == "" {
			continue
		}
		again := b.post("/hooks/raw", fmt.Sprintf(`{"id":"x-%d"}`, i))
		if again.RunID != first.RunID || again.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("a repeat is answered %d %s", again.status, again.body)
		}
	}
	until(t, "the bucket to fill", func() bool { return b.post("/hooks/raw", `{"id":"y"}`).status == http.StatusAccepted })
	if took := time.Since(began); took < 1500*time.Millisecond {
		t.Errorf("the bucket had one more after %s, want about 2 s", took)
	}
	// A person who replays what was refused need not wait.
	var refused string
	if err := w.db.Pool.QueryRow(t.Context(), `SELECT min(attempt_id::text) FROM trigger.attempts WHERE reason = 'rate_limited'`).Scan(&refused); err != nil {
		t.Fatal(err)
	}
	if again, err := a.svc.Replay(t.Context(), trigger.DeliveryID(refused), trigger.Replay{Namespace: "default", Principal: "test"}); err != nil || again.Accepted.RunID == "" {
		t.Errorf("replay of what was refused: %+v, %v", again, err)
	}
	if other := a.post("/hooks/keyed", `{"event":{"channel":"a","ts":"b"}}`); other.status != http.StatusAccepted {
		t.Errorf("a webhook without a limit: %d", other.status)
	}
}

// land records runs where the runner's views show them; status ends them.
func (w *world) land(t *testing.T, ended bool, runs ...string) {
	t.Helper()
	for _, run := range runs {
		_, err := w.db.Pool.Exec(t.Context(), `
			WITH started AS (
				INSERT INTO runner.journal (run_id, seq, kind, status, cause, inbound, worker, at, data)
				VALUES ($1, 1, 'run_started', 'queued', 'start:' || $1, true, 'test', clock_timestamp(), '{}') ON CONFLICT DO NOTHING)
			INSERT INTO runner.runs (run_id, namespace, kind, name, digest, status, seq, input, trigger, accepted_at, ended_at)
			VALUES ($1, 'default', 'agent', 'anything', 'd', 'running', 1, '{}', '{}', clock_timestamp(), CASE WHEN $2::boolean THEN clock_timestamp() END)
			ON CONFLICT (run_id) DO UPDATE SET ended_at = excluded.ended_at`, run, ended)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// At most as many runs as the limit says are in flight, over replicas; the end
// of a run makes room for the next.
func TestHook_MaxInFlight(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, hook("raw", `provider: none, agent: anything, dedupe: "${body.id}", maxInFlight: 3`))
	a, b := w.start(t), w.start(t)
	answers := rush(12, "/hooks/raw", "x", a, b)
	taken, later := sorted(t, answers, trigger.CodeInFlight)
	if len(taken) != 3 || later != 9 {
		t.Fatalf("%d taken and %d refused, want 3 and 9", len(taken), later)
	}
	for i, first := range answers {
		if first.RunID == "" {
			continue
		}
		if again := b.post("/hooks/raw", fmt.Sprintf(`{"id":"x-%d"}`, i)); again.RunID != first.RunID {
			t.Errorf("a repeat while all places are taken: %d %s", again.status, again.body)
		}
	}
	w.land(t, false, taken...)
	if more := a.post("/hooks/raw", `{"id":"y"}`); more.status != http.StatusTooManyRequests {
		t.Errorf("with three runs that go on: %d %s", more.status, more.body)
	}
	w.land(t, true, taken[0], taken[1])
	next, later := sorted(t, rush(6, "/hooks/raw", "z", a, b), trigger.CodeInFlight)
	if len(next) != 2 || later != 4 {
		t.Errorf("after the end of two: %d taken and %d refused, want 2 and 4", len(next), later)
	}

	// What never became a delivery keeps its place for a minute only.
	w.land(t, true, append(next, taken[2])...)
	if _, err := w.db.Pool.Exec(t.Context(), `
		INSERT INTO trigger.places (run_id, namespace, webhook, taken_at)
		SELECT 'lost-' || i, 'default', 'raw', clock_timestamp() - interval '61 s' FROM generate_series(1, 3) i`); err != nil {
		t.Fatal(err)
	}
	accepted(t, a.post("/hooks/raw", `{"id":"last"}`))

	// Two copies of one delivery take one place.
	w.apply(t, hook("twin", `provider: none, agent: anything, dedupe: "${body.id}", maxInFlight: 2`))
	var wg sync.WaitGroup
	for _, r := range []*replica{a, b, a, b} {
		wg.Go(func() { r.post("/hooks/twin", `{"id":"same"}`) })
	}
	wg.Wait()
	accepted(t, a.post("/hooks/twin", `{"id":"other"}`))
	if n := w.count(t, "trigger.deliveries WHERE source_name = 'twin'"); n != 2 {
		t.Errorf("%d deliveries, want 2", n)
	}

	// A paused webhook takes everything: not every sender tries again.
	w.apply(t, hook("raw", `provider: none, agent: anything, paused: true, maxInFlight: 1`))
	for _, held := range rush(4, "/hooks/raw", "held", a, b) {
		accepted(t, held)
	}
}
