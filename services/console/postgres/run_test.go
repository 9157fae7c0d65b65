package postgres

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

// Of the runs that a runner has only those are queued that wait under a concurrency
// key: the list of queued ones begins with these.
func TestListRuns_QueuedReadsNoTakenRun(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Open(t, "holdfast_console")
	query, args := listRuns(console.RunFilter{Namespace: "default", Statuses: []string{events.StatusQueued}, Limit: 51})
	rows, err := pool.Query(t.Context(), "EXPLAIN "+query, args...)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(plan, "\n"); !strings.Contains(text, "slots_waiting") {
		t.Errorf("the list of queued runs looks through the runner's:\n%s", text)
	}
}

// A run in the queue of a shared budget says so.
func TestSituation_TellsTheBudgetThatIsWaitedFor(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	id := events.NewRunID()
	for _, sql := range []string{
		`INSERT INTO runner.runs (run_id, namespace, kind, name, digest, status, seq, waiting, input, labels, trigger, principal, model_calls, tool_calls, tokens, accepted_at, paused_for)
			VALUES ($1, 'default', 'agent', 'a', 'd', 'running', 1, '', '{}', '{}', '{}', 'p', 0, 0, 0, clock_timestamp(), '')`,
		`INSERT INTO runner.pending (run_id, namespace, item, kind) VALUES ($1, 'default', 'model', 'model'), ($1, 'default', 'call/x', 'tool')`,
		`INSERT INTO runner.pool_waits (run_id, namespace, pool, window_start, amount, seq, epoch) VALUES ($1, 'default', 'night', 'all', 10, 1, 0)`,
	} {
		if _, err := db.Pool.Exec(t.Context(), sql, id); err != nil {
			t.Fatal(err)
		}
	}
	s, err := New(db.Open(t, "holdfast_console")).Situation(t.Context(), "default", id)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, p := range s.Pending {
		got[p.Item] = p.Pool
	}
	if len(got) != 2 || got["model"] != "night" || got["call/x"] != "" {
		t.Errorf("pools waited for: %v", got)
	}
}
