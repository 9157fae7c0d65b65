package pg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/config"
)

// Config says which database to open and as whom.
type Config struct {
	// URL is a postgres:// URL or a keyword/value string.
	URL config.Secret
	// Role replaces the user of URL when it is set; the password stays.
	Role string
	// MaxConns bounds the pool; zero means 8.
	MaxConns int32
	// AppName is shown in pg_stat_activity.
	AppName string
	// Named is for a service whose statements are long and run all the time: each is
	// parsed once per connection, which costs as much as to plan it, and still planned
	// each time, because a plan that was made for an empty table stays until its
	// statistics are renewed. Behind a pooler it has no meaning.
	Named bool
	// Tracer sees every statement of the pool, see NewTracer; nil traces nothing.
	Tracer pgx.QueryTracer
	// Silence is how long a statement waits at a line that says nothing, before the
	// line is closed and the statement fails with a Transient error. Zero means 45 s,
	// which is longer than the roles let a statement run.
	Silence time.Duration
}

const (
	defaultMaxConns = 8
	connectTimeout  = 5 * time.Second
	// openTimeout bounds how long Open waits for a Postgres that is starting.
	openTimeout = 30 * time.Second
)

// ErrUnsafe is wrapped by Open's error when the server would lose commits that
// it has confirmed.
var ErrUnsafe = errors.New("unsafe database setting")

// Open connects a pool and checks the server. It waits for a Postgres that is
// starting, 30 s at most, and refuses synchronous_commit=off with ErrUnsafe.
//
// Statements are described once per connection and not prepared by name, but
// those of a [Config.Named] and those that ask for it with [Prepared]. No session
// setting is made behind a pooler: the statement
// and idle time limits hang on the roles, which the base migration sets. So
// PgBouncer in transaction mode may stand between.
//
// Nothing waits longer than five seconds for a connection of the pool (ErrBusy).
func Open(ctx context.Context, c Config) (*pgxpool.Pool, error) {
	pc, err := pgxpool.ParseConfig(c.URL.Reveal())
	if err != nil {
		return nil, fmt.Errorf("parse database url: %w", redact(err))
	}
	pc.MaxConns = c.MaxConns
	if pc.MaxConns == 0 {
		pc.MaxConns = defaultMaxConns
	}
	pc.MaxConnLifetimeJitter = pc.MaxConnLifetime / 10
	pc.PingTimeout = 2 * time.Second
	c.apply(pc.ConnConfig)
	pc.ConnConfig.Tracer = bounded(c.Tracer)

	wait, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if err := Retry(wait, func(ctx context.Context) error { return check(ctx, pc.ConnConfig) }); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if c.Named && pc.ConnConfig.StatementCacheCapacity > 0 {
		pc.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
		pc.ConnConfig.RuntimeParams["plan_cache_mode"] = "force_custom_plan"
	}
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("open pool: %w", err)
	}
	return pool, nil
}

// apply sets what the pool and single connections have in common.
func (c Config) apply(cc *pgx.ConnConfig) {
	if c.Role != "" {
		cc.User = c.Role
	}
	if cc.ConnectTimeout == 0 {
		cc.ConnectTimeout = connectTimeout
	}
	cc.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	if c.AppName != "" {
		cc.RuntimeParams["application_name"] = c.AppName
	}
	cc.OnPgError = keepSession
	cc.DialFunc = listening(cc.DialFunc, cmp.Or(c.Silence, silence))
}

// keepSession reports whether a session may be used after an error. After a
// fail-over one may still be at the node that only reads by now: it would refuse
// writes for as long as the pool keeps it.
func keepSession(_ *pgconn.PgConn, e *pgconn.PgError) bool {
	return e.Severity != "FATAL" && e.SeverityUnlocalized != "FATAL" && e.Code != readOnly
}

// connect opens one connection outside any pool.
func (c Config) connect(ctx context.Context) (*pgx.Conn, error) {
	cc, err := pgx.ParseConfig(c.URL.Reveal())
	if err != nil {
		return nil, fmt.Errorf("parse database url: %w", redact(err))
	}
	c.apply(cc)
	// A statement of a heartbeat runs twice a second on its own connection; a
	// description that a fail-over made stale must not matter.
	cc.DefaultQueryExecMode = pgx.QueryExecModeExec
	return pgx.ConnectConfig(ctx, cc)
}

// check looks at the server that cc connects to, and whether statements may be
// prepared there.
func check(ctx context.Context, cc *pgx.ConnConfig) error {
	first := cc.Copy()
	first.Tracer = nil
	conn, err := pgx.ConnectConfig(ctx, first)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var sync string
	var backend uint32
	if err := conn.QueryRow(ctx, "SELECT current_setting('synchronous_commit'), pg_backend_pid()::bigint", pgx.QueryExecModeExec).Scan(&sync, &backend); err != nil {
		return err
	}
	if sync == "off" {
		return fmt.Errorf("%w: synchronous_commit is off, a crash would lose confirmed commits; set it to on", ErrUnsafe)
	}
	if conn.PgConn().PID() != backend { // a pooler answers for a backend that is not its own
		cc.StatementCacheCapacity = 0
	}
	return nil
}

// Prepared is how to send a statement that is run often and whose plan does not
// depend on how large its tables are, an INSERT for instance: parsed and planned
// once per connection, which costs more than to run it. Others are planned each
// time: a plan that was made for an empty table would scan it when it is large,
// until its statistics are renewed.
//
// Behind a pooler, which lets each transaction meet another session, it is the
// same as the default. Ask once per pool, not per statement.
func Prepared(pool *pgxpool.Pool) pgx.QueryExecMode {
	cc := pool.Config().ConnConfig
	if cc.StatementCacheCapacity == 0 {
		return cc.DefaultQueryExecMode
	}
	return pgx.QueryExecModeCacheStatement
}

// redact keeps a URL with its password out of an error. pgx quotes the string
// that it could not parse.
func redact(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return errors.New("it is not a valid connection string")
}
