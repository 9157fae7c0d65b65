package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

var postgresRestarted = nemesis{
	name: "postgres-restarted", what: "Postgres is stopped and comes back after two seconds",
	strike: func(ctx context.Context, r *rig) error {
		if err := r.database.Stop(ctx); err != nil {
			return err
		}
		rest(ctx, 2*time.Second)
		return r.startPostgres(ctx)
	},
}

var postgresReadOnly = nemesis{
	name: "postgres-read-only", what: "Postgres takes no writes for three seconds, as after a failover, and every session is ended at both ends of that time",
	strike: func(ctx context.Context, r *rig) (err error) {
		c, err := pgx.ParseConfig(r.database.URL().Reveal())
		if err != nil {
			return err
		}
		conn, err := pgx.ConnectConfig(ctx, c)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
		for _, step := range []struct {
			sql  string
			rest time.Duration
		}{
			{`ALTER SYSTEM SET default_transaction_read_only = on`, 0},
			{`SELECT pg_reload_conf()`, 200 * time.Millisecond},
			{endSessions, 3 * time.Second},
			{`ALTER SYSTEM RESET default_transaction_read_only`, 0},
			{`SELECT pg_reload_conf()`, 200 * time.Millisecond},
			{endSessions, 0},
		} {
			if _, err := conn.Exec(ctx, step.sql); err != nil {
				return fmt.Errorf("%s: %w", step.sql, err)
			}
			rest(ctx, step.rest)
		}
		return nil
	},
}

const endSessions = `
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`
