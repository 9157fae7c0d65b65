package pgtest

import (
	"fmt"
	"regexp"
	"strconv"
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

var placeholder = regexp.MustCompile(`\$(\d+)`)

// KeptPlan is the plan that [pg.Keyed] keeps of a statement, made while its tables hold
// what they hold now: whatever its parameters are.
func (d *DB) KeptPlan(t testing.TB, sql string) string {
	t.Helper()
	most := 0
	for _, m := range placeholder.FindAllStringSubmatch(sql, -1) {
		n, _ := strconv.Atoi(m[1]) // only digits
		most = max(most, n)
	}
	nulls := strings.TrimSuffix(strings.Repeat("NULL, ", most), ", ")
	var lines []string
	err := pgx.BeginFunc(t.Context(), d.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL enable_seqscan = off"); err != nil {
			return err
		}
		if _, err := tx.Exec(t.Context(), "PREPARE kept AS "+sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		rows, err := tx.Query(t.Context(), fmt.Sprintf("EXPLAIN EXECUTE kept(%s)", nulls), pgx.QueryExecModeSimpleProtocol)
		if err == nil {
			lines, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		if err != nil {
			return err
		}
		_, err = tx.Exec(t.Context(), "DEALLOCATE kept")
		return err
	})
	if err != nil {
		t.Fatalf("explain %.100s: %v", sql, err)
	}
	return strings.Join(lines, "\n")
}
