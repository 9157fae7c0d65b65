package pgtest

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Find lists the tables that hold a text anywhere, in text or bytes, of every
// service.
func (d *DB) Find(t testing.TB, text string) (found []string) {
	t.Helper()
	rows, err := d.Pool.Query(t.Context(), `
		SELECT format('%I.%I', n.nspname, c.relname),
		       coalesce((SELECT string_agg(format(' OR position(convert_to($1, ''UTF8'') in %I) > 0', a.attname), '') FROM pg_attribute a
		                  WHERE a.attrelid = c.oid AND a.atttypid = 'bytea'::regtype AND a.attnum > 0 AND NOT a.attisdropped), '')
		  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		 WHERE c.relkind IN ('r', 'p') AND n.nspname !~ '^(pg_|information_schema)' ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	type table struct{ Name, OrBytes string }
	tables, err := pgx.CollectRows(rows, pgx.RowToStructByPos[table])
	if err != nil || len(tables) < 10 {
		t.Fatalf("%d tables: %v", len(tables), err)
	}
	for _, tab := range tables {
		var n int
		if err := d.Pool.QueryRow(t.Context(), `SELECT count(*) FROM `+tab.Name+` x WHERE position($1::text in x::text) > 0`+tab.OrBytes, text).Scan(&n); err != nil {
			t.Fatalf("%s: %v", tab.Name, err)
		}
		if n > 0 {
			found = append(found, fmt.Sprintf("%s (%d rows)", tab.Name, n))
		}
	}
	return found
}
