package pg_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgtest"
)

func TestOpen_RoleAndName(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool, err := pg.Open(t.Context(), pg.Config{URL: db.URL, Role: "holdfast_runner", AppName: "desk-1"})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if got := text(t, pool, "SELECT current_user || ' ' || current_setting('application_name')"); got != "holdfast_runner desk-1" {
		t.Errorf("connected as %q", got)
	}
	if got := pool.Config().MaxConns; got != 8 {
		t.Errorf("MaxConns = %d, want 8", got)
	}
	if got := text(t, pool, "SELECT current_setting('statement_timeout') || ' ' || current_setting('idle_in_transaction_session_timeout')"); got != "30s 15s" {
		t.Errorf("limits of the role = %q, want 30s 15s", got)
	}
}

func TestOpen_RefusesUnsafeCommits(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db.Pool, "ALTER DATABASE "+text(t, db.Pool, "SELECT quote_ident(current_database())")+" SET synchronous_commit = off")
	_, err := pg.Open(t.Context(), pg.Config{URL: db.URL})
	if !errors.Is(err, pg.ErrUnsafe) {
		t.Errorf("open = %v, want ErrUnsafe", err)
	}
}

func TestOpen_SaysNothingSecret(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://u:hunter2@localhost:badport/x", "host='unclosed password=hunter2", "postgres://u:hunter2@127.0.0.1:1/x?sslmode=disable"} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err := pg.Open(ctx, pg.Config{URL: config.Secret(url)})
		cancel()
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("open %d: error %v", len(url), err)
		}
	}
}

// A wrong password or database is no reason to wait.
func TestOpen_FailsAtOnceWhenTimeCannotHelp(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	begin := time.Now()
	if _, err := pg.Open(t.Context(), pg.Config{URL: db.URL, Role: "nobody_of_that_name"}); err == nil {
		t.Error("opened as a role that does not exist")
	}
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("took %v", took)
	}
}

// PgBouncer in transaction mode gives every transaction another server session.
// Statements prepared by name would be unknown there.
func TestCaseG09_ThroughPgBouncer(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool, err := pg.Open(t.Context(), pg.Config{URL: db.PgBouncer(t, "holdfast_runner"), MaxConns: 8, AppName: "desk-1", Named: true})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	mode, keyed := pg.Prepared(pool), pg.NewKeyed(pool)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 100 {
				want := fmt.Sprintf("%d/%d", i, n)
				var got string
				if err := pool.QueryRow(t.Context(), fmt.Sprintf("SELECT $1::text || '' AS q%d", n%7), mode, want).Scan(&got); err != nil || got != want {
					t.Errorf("%q, %v", got, err)
					return
				}
				if err := keyed.One(t.Context(), "SELECT $1::text || 'k'", []any{want}, &got); err != nil || got != want+"k" {
					t.Errorf("by key: %q, %v", got, err)
					return
				}
				if err := pg.InTx(t.Context(), pool, func(tx pgx.Tx) error {
					return tx.QueryRow(t.Context(), "SELECT current_user || $1::text", want).Scan(&got)
				}); err != nil || got != "holdfast_runner"+want {
					t.Errorf("in a transaction: %q, %v", got, err)
					return
				}
			}
		})
	}
	all.Wait()
	if n := text(t, pool, "SELECT count(*)::text FROM pg_prepared_statements"); n != "0" {
		t.Errorf("%s statements are prepared by name", n)
	}
}

// A session that became read-only, as after a fail-over, is not used again: the
// pool and the heartbeat come back as soon as the server takes writes.
func TestCaseC07_ReadOnlySessionsAreDropped(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db.Pool, "CREATE SCHEMA desk")
	exec(t, db.Pool, "CREATE TABLE desk.t (id int)")
	name := text(t, db.Pool, "SELECT current_database()")
	exec(t, db.Pool, "ALTER DATABASE "+name+" SET default_transaction_read_only = on")
	pool, err := pg.Open(t.Context(), pg.Config{URL: db.URL, MaxConns: 2}) // its sessions only read, for good
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	const write = "INSERT INTO desk.t VALUES (1)"
	if _, err := pool.Exec(t.Context(), write); !pg.Transient(err) {
		t.Fatalf("error = %v, want a transient one", err)
	}
	if got := text(t, pool, "SELECT 'reads'"); got != "reads" {
		t.Error(got)
	}
	exec(t, db.Pool, "ALTER DATABASE "+name+" RESET default_transaction_read_only")
	err = pg.Retry(t.Context(), func(ctx context.Context) error { _, err := pool.Exec(ctx, write); return err })
	if err != nil {
		t.Errorf("after the fail-over: %v", err)
	}
	err = pg.InTx(t.Context(), pool, func(tx pgx.Tx) error { _, err := tx.Exec(t.Context(), write); return err })
	if err != nil {
		t.Errorf("after the fail-over, in a transaction: %v", err)
	}
}

// Only what asks for it is prepared by name, and a migration that changes what it
// returns costs one try.
func TestPrepared(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool, err := pg.Open(t.Context(), pg.Config{URL: db.URL, MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	exec(t, db.Pool, "CREATE TABLE public.notes (id int, note text)")
	exec(t, db.Pool, "INSERT INTO public.notes VALUES (1, 'a')")
	mode := pg.Prepared(pool)
	const often, once = "SELECT * FROM public.notes WHERE id = $1", "SELECT note FROM public.notes WHERE id = $1"
	read := func(ctx context.Context) error {
		rows, err := pool.Query(ctx, often, mode, 1)
		if err != nil {
			return err
		}
		rows.Close()
		return rows.Err()
	}
	for range 3 {
		if err := read(t.Context()); err != nil {
			t.Fatal(err)
		}
		text(t, pool, once, 1)
	}
	if n := text(t, pool, "SELECT string_agg(statement, ', ') FROM pg_prepared_statements"); n != often {
		t.Errorf("prepared: %q", n)
	}
	exec(t, db.Pool, "ALTER TABLE public.notes ADD COLUMN more text")
	if err := read(t.Context()); !pg.Transient(err) {
		t.Errorf("after the change: %v, want an error that is worth a retry", err)
	}
	if err := pg.Retry(t.Context(), read); err != nil {
		t.Error(err)
	}
}

// Statements that run all the time are parsed once and planned each time: a plan for
// the empty table would read all of the full one.
func TestOpen_NamedIsPlannedAnew(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db.Pool, "CREATE TABLE public.notes (id int PRIMARY KEY, more text)")
	pool, err := pg.Open(t.Context(), pg.Config{URL: db.URL, MaxConns: 1, Named: true})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	const often = "SELECT count(*)::text FROM public.notes WHERE id = $1"
	for range 8 {
		if got := text(t, pool, often, 1); got != "0" {
			t.Fatal(got)
		}
	}
	if got := text(t, pool, "SELECT custom_plans || ' ' || generic_plans FROM pg_prepared_statements WHERE statement = $1", often); got != "8 0" {
		t.Errorf("%s plans of the statement and of nobody, want 8 and 0", got)
	}
	exec(t, db.Pool, "ALTER TABLE public.notes ADD COLUMN other text, ALTER COLUMN id TYPE bigint")
	if got := text(t, pool, often, 1); got != "0" {
		t.Errorf("after the change: %q", got)
	}
}

// A migration that changes a table under a running process must not leave it
// with failing statements.
func TestOpen_SurvivesSchemaChange(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db.Pool, "CREATE SCHEMA desk")
	exec(t, db.Pool, "CREATE TABLE desk.t (id int, note text)")
	exec(t, db.Pool, "INSERT INTO desk.t VALUES (1, 'a')")
	pool, err := pg.Open(t.Context(), pg.Config{URL: db.URL, MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	const query = "SELECT id::text || note FROM desk.t WHERE id = $1"
	if got := text(t, pool, query, 1); got != "1a" {
		t.Fatal(got)
	}
	exec(t, db.Pool, "ALTER TABLE desk.t ADD COLUMN more text DEFAULT 'm', ALTER COLUMN id TYPE bigint")
	if got := text(t, pool, query, int64(1)); got != "1a" {
		t.Errorf("after the change: %q", got)
	}
}
