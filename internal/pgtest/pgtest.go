// Package pgtest gives a test a Postgres database of its own, with the
// migrations of every service applied.
//
// The server is the one of HOLDFAST_TEST_DATABASE_URL (a superuser's URL whose
// server trusts the services' roles), else one private server per test process.
// Databases are cloned from a migrated template, which takes about 0.1 s, and
// dropped when the test ends. Roles belong to the whole server: tests must not
// change them.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgdev"
)

// EnvURL names the server to test on instead of a private one.
const EnvURL = "HOLDFAST_TEST_DATABASE_URL"

// DB is one test's database.
type DB struct {
	URL  config.Secret // as superuser
	Pool *pgxpool.Pool // as superuser, four connections
}

// server is what all tests of this process share.
var server = sync.OnceValues(func() (*cluster, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	return openCluster(ctx)
})

var numbers atomic.Int64

// New makes a database for t and drops it when t ends. A machine without
// PostgreSQL skips the test, or fails it when CI is set.
func New(t testing.TB) *DB {
	t.Helper()
	c, err := server()
	if err != nil {
		missing(t, err)
	}
	name := fmt.Sprintf("test_%d_%d_%d", os.Getpid(), time.Now().UnixNano()%1_000_000, numbers.Add(1))
	if err := c.clone(t.Context(), name); err != nil {
		t.Fatalf("make test database: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
		defer cancel()
		if err := c.exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)"); err != nil {
			t.Errorf("drop test database: %v", err)
		}
	})
	db := &DB{URL: c.urlOf(name)}
	db.Pool = open(t, pg.Config{URL: db.URL, MaxConns: 4, AppName: "pgtest"})
	return db
}

// Open connects as role, "holdfast_runner" for instance, until t ends, as its service
// does.
func (d *DB) Open(t testing.TB, role string) *pgxpool.Pool {
	t.Helper()
	return open(t, pg.Config{URL: d.URL, Role: role, AppName: "pgtest", Named: role != "holdfast_trigger"})
}

func open(t testing.TB, c pg.Config) *pgxpool.Pool {
	t.Helper()
	pool, err := pg.Open(t.Context(), c)
	if err != nil {
		t.Fatalf("open test database: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// missing ends a test that has no server: on a laptop that is no failure.
func missing(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, pgdev.ErrNotInstalled) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	t.Fatalf("test database server: %v", err)
}

// cluster is a server with the template.
type cluster struct {
	url      *url.URL
	admin    *pgxpool.Pool
	template string
}

// adminLock serialises the making of templates among test processes.
const adminLock int64 = 0x70677465737400

func openCluster(ctx context.Context) (*cluster, error) {
	raw := os.Getenv(EnvURL)
	if raw == "" {
		s, err := private(ctx)
		if err != nil {
			return nil, err
		}
		raw = s.URL().Reveal()
	}
	u, err := url.Parse(raw)
	if err != nil || !strings.HasPrefix(u.Scheme, "postgres") {
		return nil, fmt.Errorf("%s: want a postgres:// URL", EnvURL)
	}
	schemas, digest, err := schemasOfTree()
	if err != nil {
		return nil, err
	}
	c := &cluster{url: u, template: "holdfast_template_" + digest}
	c.admin, err = pg.Open(ctx, pg.Config{URL: config.Secret(u.String()), MaxConns: 4, AppName: "pgtest-admin"})
	if err != nil {
		return nil, err
	}
	return c, c.makeTemplate(ctx, schemas)
}

// sweeperInput stays open as long as this process lives. It must be reachable:
// the collector would close the pipe, and the sweeper would take that for our
// end and remove the files of the running server.
var sweeperInput io.Closer

// private starts the server of this test process. It ends with the process; a
// shell that waits for that removes its files.
func private(ctx context.Context) (*pgdev.Server, error) {
	dir, err := os.MkdirTemp("", "holdfast-pgtest-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, err
	}
	s, err := pgdev.Start(ctx, pgdev.Config{Dir: dir, Throwaway: true, MaxConnections: 400})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	far := filepath.Dir(s.DataDir()) // elsewhere when root's user cannot reach dir
	const script = `read -r _
i=0; while test -e "$1/data/postmaster.pid" && test $i -lt 100; do sleep 0.1; i=$((i+1)); done
rm -rf -- "$1" "$2"`
	sweep := exec.Command("/bin/sh", "-c", script, "sh", far, dir)
	sweep.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := sweep.StdinPipe()
	if err != nil {
		return nil, err
	}
	sweeperInput = pipe
	return s, sweep.Start()
}

func (c *cluster) exec(ctx context.Context, sql string) error {
	_, err := c.admin.Exec(ctx, sql)
	return err
}

func (c *cluster) urlOf(database string) config.Secret {
	u := *c.url
	u.Path = "/" + database
	return config.Secret(u.String())
}

// makeTemplate migrates a database under another name and renames it when it
// is complete. The name holds a digest of the migrations, so processes that
// share a server share the template, and another checkout gets its own.
func (c *cluster) makeTemplate(ctx context.Context, schemas []pg.Schema) error {
	conn, err := c.admin.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", adminLock); err != nil {
		return err
	}
	defer func() { _, _ = conn.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", adminLock) }()
	var exists bool
	err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", c.template).Scan(&exists)
	if err != nil || exists {
		return err
	}
	fresh := c.template + "_new"
	for _, sql := range []string{"DROP DATABASE IF EXISTS " + fresh + " WITH (FORCE)", "CREATE DATABASE " + fresh} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	if err := pg.Migrate(ctx, c.urlOf(fresh), schemas); err != nil {
		return err
	}
	// A closed session may take a moment to leave the database.
	const leave = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = $1"
	if _, err := conn.Exec(ctx, leave, fresh); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "ALTER DATABASE "+fresh+" RENAME TO "+c.template)
	return err
}

// settingsOfRoles lists what the migrations set per role and database, which a
// clone does not take along.
const settingsOfRoles = `
SELECT r.rolname, split_part(s, '=', 1), substr(s, strpos(s, '=') + 1)
FROM pg_db_role_setting d JOIN pg_roles r ON r.oid = d.setrole, unnest(d.setconfig) s
WHERE d.setdatabase = (SELECT oid FROM pg_database WHERE datname = $1)`

func (c *cluster) clone(ctx context.Context, name string) error {
	db := pgx.Identifier{name}.Sanitize()
	if err := c.exec(ctx, "CREATE DATABASE "+db+" TEMPLATE "+c.template); err != nil {
		return err
	}
	rows, err := c.admin.Query(ctx, settingsOfRoles, c.template)
	if err != nil {
		return err
	}
	var role, key, value string
	var sql strings.Builder
	_, err = pgx.ForEachRow(rows, []any{&role, &key, &value}, func() error {
		fmt.Fprintf(&sql, "ALTER ROLE %s IN DATABASE %s SET %s = '%s';\n",
			pgx.Identifier{role}.Sanitize(), db, pgx.Identifier{key}.Sanitize(), strings.ReplaceAll(value, "'", "''"))
		return nil
	})
	if err != nil || sql.Len() == 0 {
		return err
	}
	_, err = c.admin.Exec(ctx, sql.String(), pgx.QueryExecModeSimpleProtocol)
	return err
}
