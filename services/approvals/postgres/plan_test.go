package postgres

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pgtest"
)

// A list reads what it shows, whatever filter is sparse.
func TestListPlans(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for _, sql := range []string{`ALTER TABLE approvals.requests DISABLE TRIGGER USER`, `INSERT INTO approvals.requests (approval_id, namespace, run_id, kind, call_id, agent, tool, tool_digest, args, digest,
			ask_cause, asked_at, created_at, expires_at, valid_for, state, decided_by, decided_at)
		SELECT 'a' || i, 'default', 'r' || i, 'action', 'c', 'a', 't', 'd', '{}', 'd',
			'c', now(), now() + i * interval '1 ms', now() + interval '9 h', interval '1 h', 'approved', 'ann', now() FROM generate_series(1, 20000) i`,
		`ANALYZE approvals.requests`} {
		if _, err := db.Pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		query           string
		kind, run, want string
		more            []any
	}{
		"all":             {query: listSQL, want: "requests_by_time"},
		"doubts":          {query: listSQL, kind: "doubt", want: "requests_by_kind"},
		"of a run":        {query: listSQL, run: "r77", want: "requests_by_run"},
		"pending":         {query: listStateSQL, want: "requests_", more: []any{"pending", "hide"}},
		"approved doubts": {query: listStateSQL, kind: "doubt", want: "requests_by_kind", more: []any{"happened", ""}},
	} {
		rows, err := db.Pool.Query(t.Context(), "EXPLAIN "+tc.query, append([]any{"default", tc.kind, tc.run, "9999-01-01", "", 51}, tc.more...)...)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(plan, "\n"); !strings.Contains(text, tc.want) || strings.Contains(text, "Seq Scan") {
			t.Errorf("%s: want the index %s in\n%s", name, tc.want, text)
		}
	}
}

// A look for reminders reads those that are due, not all that waits.
func TestRemindPlan(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for _, sql := range []string{`ALTER TABLE approvals.requests DISABLE TRIGGER USER`, `INSERT INTO approvals.requests (approval_id, namespace, run_id, kind, call_id, agent, tool, tool_digest, args, digest,
			ask_cause, asked_at, created_at, expires_at, valid_for, remind_at)
		SELECT 'a' || i, 'default', 'r' || i, 'action', 'c', 'a', 't', 'd', '{}', 'd',
			'c', now(), now(), now() + i * interval '1 s', interval '1 h', CASE WHEN i % 10 = 0 THEN now() + i * interval '1 s' END FROM generate_series(1, 20000) i`,
		`ANALYZE approvals.requests`} {
		if _, err := db.Pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := db.Pool.Query(t.Context(), "EXPLAIN "+remindSQL, 200)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(plan, "\n"); !strings.Contains(text, "Index Scan using requests_remind") || !strings.Contains(text, "Index Cond: (remind_at <= ") {
		t.Errorf("want the index requests_remind in\n%s", text)
	}
}
