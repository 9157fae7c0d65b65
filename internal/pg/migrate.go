package pg

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/holdfast-run/holdfast/internal/config"
)

// Schema is one service's migrations.
type Schema struct {
	Name string // of the Postgres schema and of the version table: lower-case letters
	FS   fs.FS  // holds NNNN_name.sql at its root
}

// NewSchema is a service's schema whose files were embedded as
// migrations/*.sql.
func NewSchema(name string, files embed.FS) Schema {
	sub, err := fs.Sub(files, "migrations")
	if err != nil {
		panic(err) // the path is a constant
	}
	return Schema{Name: name, FS: sub}
}

//go:embed migrations/*.sql
var baseFiles embed.FS

// Base holds the roles of all services. Migrate applies it first.
func Base() Schema {
	sub, err := fs.Sub(baseFiles, "migrations")
	if err != nil {
		panic(fmt.Sprintf("embedded migrations: %v", err))
	}
	return Schema{Name: "base", FS: sub}
}

// migrateLock is the advisory lock of all migrations of a database, "holdfast"
// read as a number.
const migrateLock int64 = 0x686f6c6466617374

var schemaName = regexp.MustCompile(`^[a-z][a-z_]{0,40}$`)

// Migrate brings the database to the newest version: the base schema, then
// schemas in order, each with its own version table public.goose_<name>. It
// runs one at a time per database: a second call waits and then finds nothing
// to do. A migration that fails leaves those before it applied.
//
// url must reach Postgres directly, not through PgBouncer in transaction mode,
// as a user who may create schemas and roles.
func Migrate(ctx context.Context, url config.Secret, schemas []Schema) error {
	cc, err := pgx.ParseConfig(url.Reveal())
	if err != nil {
		return fmt.Errorf("parse database url: %w", redact(err))
	}
	if cc.ConnectTimeout == 0 {
		cc.ConnectTimeout = connectTimeout
	}
	cc.DefaultQueryExecMode = pgx.QueryExecModeExec // a described statement would not survive the DDL around it
	cc.RuntimeParams["application_name"] = "holdfast-migrate"

	unlock, err := lockMigrations(ctx, cc)
	if err != nil {
		return err
	}
	defer unlock()

	db := stdlib.OpenDB(*cc)
	defer db.Close()
	for _, s := range append([]Schema{Base()}, schemas...) {
		if err := migrateSchema(ctx, db, s); err != nil {
			return fmt.Errorf("migrate schema %s: %w", s.Name, err)
		}
	}
	return nil
}

func migrateSchema(ctx context.Context, db *sql.DB, s Schema) error {
	if !schemaName.MatchString(s.Name) {
		return fmt.Errorf("name %q is not lower-case letters", s.Name)
	}
	store, err := database.NewStore(database.DialectPostgres, "public.goose_"+s.Name)
	if err != nil {
		return err
	}
	// Changes that are made at the same time land in any order; each file stands by
	// itself, so one with a smaller number may come later.
	p, err := goose.NewProvider("", db, s.FS, goose.WithStore(store), goose.WithDisableGlobalRegistry(true), goose.WithAllowOutofOrder(true))
	if err != nil {
		return err
	}
	_, err = p.Up(ctx)
	if pe, ok := errors.AsType[*goose.PartialError](err); ok && pe.Failed != nil {
		return fmt.Errorf("%s: %w", pe.Failed.Source.Path, pe.Err)
	}
	return err
}

// lockMigrations takes the lock on a session of its own. It asks again and
// again instead of waiting inside Postgres: a session that waits there holds a
// snapshot, and CREATE INDEX CONCURRENTLY of the holder would wait for it.
func lockMigrations(ctx context.Context, cc *pgx.ConnConfig) (unlock func(), err error) {
	var conn *pgx.Conn
	err = Retry(ctx, func(ctx context.Context) (err error) {
		conn, err = pgx.ConnectConfig(ctx, cc)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	closeConn := func() {
		// Closing the session releases the lock.
		cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(cctx)
	}
	for {
		var got bool
		err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", migrateLock).Scan(&got)
		if err != nil {
			closeConn()
			return nil, fmt.Errorf("take migration lock: %w", err)
		}
		if got {
			return closeConn, nil
		}
		select {
		case <-ctx.Done():
			closeConn()
			return nil, errors.Join(errors.New("another migration holds the lock"), ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}
