package pg_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgtest"
)

// named is a pool of one connection whose statements are parsed once, and a table.
func named(t *testing.T) (*pgxpool.Pool, *pgtest.DB) {
	t.Helper()
	db := pgtest.New(t)
	exec(t, db.Pool, "CREATE TABLE public.notes (id int PRIMARY KEY, note text)")
	pool, err := pg.Open(t.Context(), pg.Config{URL: db.URL, MaxConns: 1, Named: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool, db
}

// The plan of a statement that finds its rows by key is made once and uses the index,
// though the table was empty then; statements beside it are planned each time, and
// nothing of it stays in the session.
func TestKeyed_KeepsItsPlan(t *testing.T) {
	t.Parallel()
	pool, db := named(t)
	k := pg.NewKeyed(pool)
	// So small a table is read from end to end unless somebody knows better.
	exec(t, db.Pool, "INSERT INTO public.notes VALUES (7, 'x')")
	exec(t, db.Pool, "ANALYZE public.notes")
	exec(t, db.Pool, "DELETE FROM public.notes")
	const often, others = "SELECT note FROM public.notes WHERE id = $1", "SELECT count(*)::text FROM public.notes WHERE id = $1"
	var note string
	for range 3 {
		if err := k.One(t.Context(), often, []any{1}, &note); !errors.Is(err, pgx.ErrNoRows) {
			t.Fatalf("of an empty table: %v", err)
		}
		text(t, pool, others, 1)
	}
	if err := k.InTx(t.Context(), func(tx pgx.Tx) error {
		var name, plan string
		if err := tx.QueryRow(t.Context(), "SELECT name FROM pg_prepared_statements WHERE statement = $1", often).Scan(&name); err != nil {
			return err
		}
		if err := tx.QueryRow(t.Context(), "EXPLAIN EXECUTE "+name+"(1)", pgx.QueryExecModeSimpleProtocol).Scan(&plan); err != nil {
			return err
		}
		if !strings.HasPrefix(plan, "Index Scan") {
			t.Errorf("the kept plan is %q", plan)
		}
		var here string
		if err := tx.QueryRow(t.Context(), "EXPLAIN SELECT note FROM public.notes WHERE id = 2", pgx.QueryExecModeSimpleProtocol).Scan(&here); err != nil {
			return err
		}
		if !strings.HasPrefix(here, "Index Scan") {
			t.Errorf("a plan that is made in the transaction is %q", here)
		}
		return tx.QueryRow(t.Context(), often, 1).Scan(&note)
	}); !errors.Is(err, pgx.ErrNoRows) {
		t.Fatal(err)
	}
	plans := func(sql string) string {
		return text(t, pool, "SELECT custom_plans || ' ' || generic_plans FROM pg_prepared_statements WHERE statement = $1", sql)
	}
	if got := plans(often); got != "0 5" { // with the one that is explained
		t.Errorf("%s plans made anew and kept, want 0 and 5", got)
	}
	if got := plans(others); got != "3 0" {
		t.Errorf("beside it: %s plans made anew and kept, want 3 and 0", got)
	}
	if got := text(t, pool, "SELECT current_setting('plan_cache_mode') || ' ' || current_setting('enable_seqscan')"); got != "force_custom_plan on" {
		t.Errorf("the session is left with %s", got)
	}
}

// Behind a pooler a session is another's next, and nothing is kept.
func TestKeyed_WithoutNamedStatements(t *testing.T) {
	t.Parallel()
	_, db := named(t)
	var mode string
	k := pg.NewKeyed(db.Pool)
	read := func(tx pgx.Tx) error {
		return tx.QueryRow(t.Context(), "SELECT current_setting('plan_cache_mode') || ' ' || current_setting('enable_seqscan')").Scan(&mode)
	}
	if err := k.InTx(t.Context(), read); err != nil || mode != "auto on" {
		t.Errorf("%s, %v; want auto on", mode, err)
	}
	if err := k.One(t.Context(), "SELECT current_setting('plan_cache_mode')", nil, &mode); err != nil || mode != "auto" {
		t.Errorf("%s, %v; want auto", mode, err)
	}
}

// What One wrote is committed when it returns, and nothing when it fails; a batch is
// one transaction.
func TestKeyed_Commits(t *testing.T) {
	t.Parallel()
	pool, db := named(t)
	k := pg.NewKeyed(pool)
	const insert = "INSERT INTO public.notes VALUES ($1, $2) RETURNING note"
	var note string
	if err := k.One(t.Context(), insert, []any{1, "a"}, &note); err != nil || note != "a" {
		t.Fatalf("%q, %v", note, err)
	}
	if got := text(t, db.Pool, "SELECT count(*)::text FROM public.notes"); got != "1" {
		t.Errorf("another session sees %s rows", got)
	}
	if err := k.One(t.Context(), insert, []any{1, "b"}, &note); err == nil {
		t.Error("a second row under one key")
	}
	bad := errors.New("not what was expected")
	b := &pgx.Batch{}
	b.Queue(insert, 2, "c")
	b.Queue("SELECT note FROM public.notes WHERE id = $1", 2).QueryRow(func(row pgx.Row) error {
		if err := row.Scan(&note); err != nil || note != "c" {
			t.Errorf("the batch sees %q, %v", note, err)
		}
		return bad
	})
	if err := k.Send(t.Context(), b); !errors.Is(err, bad) {
		t.Errorf("the batch returned %v", err)
	}
	b = &pgx.Batch{}
	b.Queue(insert, 3, "d")
	b.Queue(insert, 1, "e")
	if err := k.Send(t.Context(), b); err == nil {
		t.Error("the batch hides an error")
	}
	if got := text(t, db.Pool, "SELECT count(*)::text FROM public.notes WHERE id = 3"); got != "0" {
		t.Error("half of a batch is committed")
	}
}

// A migration that changes what a statement returns costs one try.
func TestKeyed_AfterAMigration(t *testing.T) {
	t.Parallel()
	pool, db := named(t)
	k := pg.NewKeyed(pool)
	exec(t, db.Pool, "INSERT INTO public.notes VALUES (1, 'a')")
	read := func(ctx context.Context) error {
		b := &pgx.Batch{}
		b.Queue("SELECT * FROM public.notes WHERE id = $1", 1).Query(func(rows pgx.Rows) error {
			rows.Close()
			return rows.Err()
		})
		return k.Send(ctx, b)
	}
	if err := read(t.Context()); err != nil {
		t.Fatal(err)
	}
	exec(t, db.Pool, "ALTER TABLE public.notes ADD COLUMN more text")
	if err := read(t.Context()); !pg.Transient(err) {
		t.Errorf("after the change: %v, want an error that is worth a retry", err)
	}
	if err := pg.Retry(t.Context(), read); err != nil {
		t.Error(err)
	}
}
