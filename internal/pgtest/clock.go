package pgtest

import (
	"testing"
	"time"
)

// Clock lets t move the database's time forward, for every session that begins from
// now on: clock_timestamp() is found in a schema of its own first. Call it once, before
// the processes of the test connect.
func (d *DB) Clock(t testing.TB) (forward func(by time.Duration)) {
	t.Helper()
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := d.Pool.Exec(t.Context(), sql, args...); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	exec(`CREATE SCHEMA moved`)
	exec(`CREATE TABLE moved.by (by interval NOT NULL)`)
	exec(`INSERT INTO moved.by VALUES ('0')`)
	exec(`CREATE FUNCTION moved.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT pg_catalog.clock_timestamp() + by FROM moved.by'`)
	exec(`GRANT USAGE ON SCHEMA moved TO PUBLIC`)
	exec(`GRANT SELECT ON moved.by TO PUBLIC`)
	exec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = moved, pg_catalog', current_database()); END $$`)
	return func(by time.Duration) {
		t.Helper()
		exec(`UPDATE moved.by SET by = by + make_interval(secs => $1)`, by.Seconds())
	}
}
