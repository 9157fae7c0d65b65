package pg

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/internal/telemetry"
)

const (
	forgetRows  = 1000
	forgetEvery = 5 * time.Second
)

// Forget deletes what one service has of runs that were deleted, with the function
// forget of its schema, until ctx ends. Each slice is a transaction of its own that a
// crash undoes whole; the schema's row "forgotten" says where the next one goes on. Any
// number of processes may do so at once.
func Forget(ctx context.Context, pool *pgxpool.Pool, schema string, log *slog.Logger) error {
	for ctx.Err() == nil {
		began := time.Now()
		n, err := ForgetSlice(ctx, pool, schema, forgetRows)
		if err == nil && n > 0 {
			err = failpoint.Hit(schema+".forgot", "")
		}
		wait := min(time.Since(began), forgetEvery) // others need the database, too
		if err != nil && ctx.Err() == nil {
			log.WarnContext(ctx, "what is left of deleted runs stays for now", "schema", schema, telemetry.KeyErr, err)
		}
		if err != nil || n == 0 {
			wait = forgetEvery
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	return nil
}

// ForgetSlice deletes about most rows and returns how many it deleted; 0 when there is
// nothing to do.
func ForgetSlice(ctx context.Context, pool *pgxpool.Pool, schema string, most int) (n int, err error) {
	err = pool.QueryRow(ctx, "SELECT "+pgx.Identifier{schema, "forget"}.Sanitize()+"($1)", most).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("forget deleted runs in %s: %w", schema, err)
	}
	return n, nil
}
