package pg_test

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/events"
)

func validToken(s string) bool { return events.ValidToken(s) }

// bare makes an empty database on db's server.
func bare(t *testing.T, db *pgtest.DB, name string) config.Secret {
	t.Helper()
	name = text(t, db.Pool, "SELECT current_database()") + "_" + name
	exec(t, db.Pool, "CREATE DATABASE "+name)
	t.Cleanup(func() {
		if _, err := db.Pool.Exec(context.WithoutCancel(t.Context()), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	u, err := url.Parse(db.URL.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return config.Secret(u.String())
}

func open(t *testing.T, url config.Secret) *pgxpool.Pool {
	t.Helper()
	pool, err := pg.Open(t.Context(), pg.Config{URL: url, MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func schema(files map[string]string) pg.Schema {
	fs := fstest.MapFS{}
	for name, sql := range files {
		fs[name] = &fstest.MapFile{Data: []byte("-- +goose Up\n" + sql)}
	}
	return pg.Schema{Name: "desk", FS: fs}
}

func TestMigrate_ManyAtOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	// Several replicas on one database, and other databases of the same cluster
	// at the same moment. CREATE INDEX CONCURRENTLY would wait for ever for a
	// replica that waits for the lock inside Postgres.
	s := schema(map[string]string{
		"0001_init.sql":  "CREATE SCHEMA desk; CREATE TABLE desk.t (id int); INSERT INTO desk.t VALUES (1);",
		"0002_index.sql": "CREATE INDEX CONCURRENTLY t_id ON desk.t (id);",
	})
	s.FS.(fstest.MapFS)["0002_index.sql"].Data = []byte("-- +goose NO TRANSACTION\n-- +goose Up\nCREATE INDEX CONCURRENTLY t_id ON desk.t (id);")
	var urls []config.Secret
	for _, name := range []string{"a", "b"} {
		urls = append(urls, bare(t, db, name))
	}
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, u := range urls {
		for range 3 {
			wg.Go(func() {
				if err := pg.Migrate(ctx, u, []pg.Schema{s}); err != nil {
					t.Errorf("migrate: %v", err)
				}
			})
		}
	}
	wg.Wait()
	for _, u := range urls {
		pool := open(t, u)
		if got := text(t, pool, "SELECT count(*)::text FROM desk.t"); got != "1" {
			t.Errorf("the first migration ran %s times", got)
		}
		if got := text(t, pool, "SELECT max(version_id)::text FROM public.goose_desk"); got != "2" {
			t.Errorf("version %s", got)
		}
		if got := text(t, pool, "SELECT count(*)::text FROM pg_roles WHERE rolname LIKE 'holdfast\\_%' AND rolcanlogin AND NOT rolsuper"); got != "5" {
			t.Errorf("%s roles", got)
		}
	}
}

func TestMigrate_FailureKeepsWhatWentBefore(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	u := bare(t, db, "a")
	good := schema(map[string]string{"0001_init.sql": "CREATE SCHEMA desk; CREATE TABLE desk.t (id int);"})
	bad := schema(map[string]string{
		"0001_init.sql": "CREATE SCHEMA desk; CREATE TABLE desk.t (id int);",
		"0002_more.sql": "CREATE TABLE desk.u (id int); SELECT nonsense;",
	})
	if err := pg.Migrate(t.Context(), u, []pg.Schema{bad}); !contains(err, "migrate schema desk") || !contains(err, "0002_more.sql") {
		t.Errorf("error = %v, want schema and file", err)
	}
	pool := open(t, u)
	if got := text(t, pool, "SELECT coalesce(to_regclass('desk.t')::text, '') || coalesce(to_regclass('desk.u')::text, '')"); got != "desk.t" {
		t.Errorf("tables %q, want the first only", got)
	}
	// The lock was given back, and a repeat goes on from there.
	if err := pg.Migrate(t.Context(), u, []pg.Schema{good}); err != nil {
		t.Error(err)
	}
}

func TestMigrate_WaitEndsWithContext(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	u := bare(t, db, "a")
	slow := schema(map[string]string{"0001_init.sql": "SELECT pg_sleep(3); CREATE SCHEMA desk;"})
	done := make(chan error, 1)
	go func() { done <- pg.Migrate(t.Context(), u, []pg.Schema{slow}) }()
	pool := open(t, u)
	eventually(t, 5*time.Second, "the first one sleeps", func() bool {
		return text(t, pool, "SELECT count(*)::text FROM pg_stat_activity WHERE query LIKE '%pg_sleep(3)%' AND pid <> pg_backend_pid() AND datname = current_database()") == "1"
	})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := pg.Migrate(ctx, u, []pg.Schema{slow}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("second migrate = %v, want its deadline", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestMigrate_RefusesStrangeNames(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := pg.Schema{Name: "x; DROP TABLE y", FS: fstest.MapFS{}}
	if err := pg.Migrate(t.Context(), bare(t, db, "a"), []pg.Schema{s}); !contains(err, "lower-case") {
		t.Errorf("error = %v", err)
	}
}
