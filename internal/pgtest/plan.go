package pgtest

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Plan is how the database would run a statement, as EXPLAIN says it, when it must not
// read a table from end to end.
func (d *DB) Plan(t testing.TB, sql string, args ...any) string {
	t.Helper()
	var lines []string
	err := pgx.BeginFunc(t.Context(), d.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "SET LOCAL enable_seqscan = off"); err != nil {
			return err
		}
		rows, err := tx.Query(t.Context(), "EXPLAIN "+sql, args...)
		if err == nil {
			lines, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		return err
	})
	if err != nil {
		t.Fatalf("explain %.100s: %v", sql, err)
	}
	return strings.Join(lines, "\n")
}
