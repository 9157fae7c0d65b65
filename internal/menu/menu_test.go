package menu_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/menu"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/web"
)

// fill makes three running runs among five open ones, a question of which one is not
// asked yet, three doubts beside one that a person settled, and stops beside lifted ones.
const fill = `
INSERT INTO runner.runs (run_id, namespace, kind, name, digest, status, seq, input, trigger, accepted_at, ended_at)
SELECT gen_random_uuid()::text, CASE WHEN n > 6 THEN 'other' ELSE 'default' END, 'agent', 'a', 'd', CASE WHEN n <= 3 OR n > 6 THEN 'running' WHEN n = 6 THEN 'completed' ELSE 'waiting' END, 1, '{}', '{"kind":"api"}', clock_timestamp(), CASE WHEN n = 6 THEN clock_timestamp() END
  FROM generate_series(1, 20) n;
INSERT INTO approvals.requests (approval_id, namespace, run_id, kind, call_id, agent, tool, tool_digest, args, digest, summary, labels, ask_cause, asked_at, created_at, expires_at, valid_for, state, decided_by, decided_at, door)
SELECT 'a-' || n, 'default', 'r-' || n, 'action', 'c-' || n, 'a', 't', 'd', '{}', 'd', '', '{}', 'c', clock_timestamp(), clock_timestamp(), clock_timestamp() + interval '9 h', interval '1 h',
       CASE WHEN n <= 4 THEN 'pending' ELSE 'approved' END, CASE WHEN n <= 4 THEN '' ELSE 'maria' END, CASE WHEN n > 4 THEN clock_timestamp() END, CASE WHEN n <= 4 THEN '' ELSE 'api' END
  FROM generate_series(1, 7) n;
INSERT INTO tools.effects (effect_id, namespace, tool, key, state, epoch, call_id, run_id, args, args_digest, in_doubt, settled_by)
SELECT 'e-' || n, 'default', 't', 'k-' || n, CASE WHEN n <= 4 THEN 'unknown' ELSE 'succeeded' END, 1, 'c-' || n, 'r', '{}', 'd', CASE WHEN n <= 4 THEN 'ask' END, CASE WHEN n = 4 THEN 'maria' END FROM generate_series(1, 6) n;
INSERT INTO tools.stops (stop_id, namespace, scope, name, principal, note, since, ended_at, ended_by)
SELECT 's-' || n, 'default', 'tool', 't-' || n, 'maria', 'x', clock_timestamp(), CASE WHEN n > 2 THEN clock_timestamp() END, CASE WHEN n > 2 THEN 'maria' END FROM generate_series(1, 5) n`

// TestCounts_OfEveryDoor reads the numbers as the role of each service that has pages.
func TestCounts_OfEveryDoor(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	if _, err := db.Pool.Exec(t.Context(), fill); err != nil {
		t.Fatal(err)
	}
	want := web.Numbers{Running: 3, Approvals: 4, Doubts: 3, Stops: 2}
	for _, service := range []string{"trigger", "tools", "approvals", "console"} {
		c := menu.New(db.Open(t, "holdfast_"+service))
		got, err := c.Counts(t.Context(), "default")
		if diff := cmp.Diff(want.Counts(), got); err != nil || diff != "" {
			t.Errorf("%s counts (-want +got)\n%s%v", service, diff, err)
		}
		if none, err := c.Counts(t.Context(), "empty"); err != nil || cmp.Diff(web.Numbers{}.Counts(), none) != "" {
			t.Errorf("%s counts %v in a namespace without anything: %v", service, none, err)
		}
	}
	var refused bool
	if err := db.Pool.QueryRow(t.Context(), `SELECT NOT has_function_privilege('holdfast_runner', 'catalog.menu(text, int)', 'EXECUTE')`).Scan(&refused); err != nil || !refused {
		t.Errorf("a service without pages may count: %v", err)
	}
}

// TestCounts_AreBounded: no number is counted beyond the rows that may be looked at.
func TestCounts_AreBounded(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	if _, err := db.Pool.Exec(t.Context(), fill); err != nil {
		t.Fatal(err)
	}
	n := web.Numbers{Most: 2}
	if err := db.Pool.QueryRow(t.Context(), `SELECT running, more, approvals, doubts, stops FROM catalog.menu('default', 2)`).Scan(&n.Running, &n.More, &n.Approvals, &n.Doubts, &n.Stops); err != nil {
		t.Fatal(err)
	}
	if n.Running > 2 || !n.More || n.Approvals != 2 || n.Doubts != 2 || n.Stops != 2 {
		t.Errorf("%+v, want two rows looked at for each", n)
	}
	said := ""
	for _, c := range n.Counts()[1:] {
		said += c.N + " " + c.Words + ", "
	}
	if want := "2+ wait for a person, 2+ in doubt, 2+ in force, "; said != want {
		t.Errorf("the menu says %q, want %q", said, want)
	}
	var more bool // than the five that are open
	if err := db.Pool.QueryRow(t.Context(), `SELECT more FROM catalog.menu('default', 6)`).Scan(&more); err != nil || more {
		t.Errorf("runs that have ended count among those that are looked at: %v, %v", more, err)
	}
	if err := db.Pool.QueryRow(t.Context(), `SELECT stops FROM catalog.menu('default', 1)`).Scan(&n.Stops); err != nil || n.Stops != 1 {
		t.Errorf("%d stops of one that may be looked at: %v", n.Stops, err)
	}
}

// TestCounts_OnceASecond: who asks within a second hears what was counted, and does not
// ask the database.
func TestCounts_OnceASecond(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Open(t, "holdfast_console")
	c := menu.New(pool)
	for range 100 { // a second may pass between the two
		first, err := c.Counts(t.Context(), "default")
		if err != nil {
			t.Fatal(err)
		}
		before := pool.Stat().AcquireCount()
		again, err := c.Counts(t.Context(), "default")
		if err != nil || cmp.Diff(first, again) != "" {
			t.Fatalf("%v, %v; want what was counted a moment ago", again, err)
		}
		if pool.Stat().AcquireCount() == before {
			return
		}
	}
	t.Error("the database is asked each time")
}
