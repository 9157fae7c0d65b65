package pgtest_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgtest"
)

func TestNew_OwnMigratedDatabase(t *testing.T) {
	t.Parallel()
	a, b := pgtest.New(t), pgtest.New(t)
	if a.URL == b.URL {
		t.Fatal("two tests share a database")
	}
	if _, err := a.Pool.Exec(t.Context(), "CREATE TABLE public.mine ()"); err != nil {
		t.Fatal(err)
	}
	var other bool
	if err := b.Pool.QueryRow(t.Context(), "SELECT to_regclass('public.mine') IS NOT NULL").Scan(&other); err != nil {
		t.Fatal(err)
	}
	if other {
		t.Error("a table of one test is seen by another")
	}
	schemas, err := pgtest.Schemas()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range schemas {
		var applied bool
		if err := b.Pool.QueryRow(t.Context(), "SELECT to_regclass($1) IS NOT NULL", "public.goose_"+s.Name).Scan(&applied); err != nil {
			t.Fatal(err)
		}
		if !applied {
			t.Errorf("schema %s is not migrated", s.Name)
		}
	}
}

func TestSchemas_Order(t *testing.T) {
	t.Parallel()
	schemas, err := pgtest.Schemas()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range schemas {
		got = append(got, s.Name)
	}
	want := []string{"console", "trigger", "runner", "tools", "approvals"}
	if !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

func TestOpen_IsTheRoleWithItsLimits(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool := db.Open(t, "holdfast_runner")
	var user, timeout string
	if err := pool.QueryRow(t.Context(), "SELECT current_user, current_setting('statement_timeout')").Scan(&user, &timeout); err != nil {
		t.Fatal(err)
	}
	if user != "holdfast_runner" || timeout != "30s" {
		t.Errorf("user %s with statement_timeout %s, want holdfast_runner with 30s as in a migrated database", user, timeout)
	}
}

func TestNew_IsFast(t *testing.T) {
	t.Parallel()
	pgtest.New(t) // the first one starts the server
	began := time.Now()
	pgtest.New(t)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("a clone took %s", took)
	}
}

func TestServer_StopsAndStarts(t *testing.T) {
	t.Parallel()
	s := pgtest.NewServer(t)
	pool, err := pg.Open(t.Context(), pg.Config{URL: s.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := pool.Exec(t.Context(), "CREATE TABLE public.kept AS SELECT 1 AS n"); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	if conn, err := pgx.Connect(t.Context(), s.URL().Reveal()); err == nil {
		_ = conn.Close(t.Context())
		t.Fatal("a stopped server answers")
	}
	s.Start()
	var n int
	if err := pg.Retry(t.Context(), func(ctx context.Context) error {
		return pool.QueryRow(ctx, "SELECT n FROM public.kept").Scan(&n)
	}); err != nil || n != 1 {
		t.Errorf("kept = %d, %v; want 1", n, err)
	}
}
