package pg

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/failpoint"
)

// InTx runs fn in one transaction and commits it when fn returns nil; an error
// or a panic rolls back. It waits at most five seconds for a connection
// (ErrBusy) and never retries.
//
// When the commit itself returns a Transient error, its reply may have been
// lost: the transaction may have happened. Read again before deciding.
func InTx(ctx context.Context, pool *pgxpool.Pool, fn func(pgx.Tx) error) error {
	return inTx(ctx, pool, pgx.TxOptions{}, fn)
}

func inTx(ctx context.Context, pool *pgxpool.Pool, o pgx.TxOptions, fn func(pgx.Tx) error) (err error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("acquire connection: %w", err)
	}
	defer conn.Release()
	tx, err := conn.BeginTx(ctx, o)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	committed := false
	defer func() {
		if committed {
			return
		}
		// The caller's context may be over; the connection must still come back clean.
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = tx.Rollback(rctx) // on failure pgx closes the connection, which rolls back
	}()
	if err := fn(tx); err != nil {
		return err
	}
	if err := failpoint.Hit("pg.committing", ""); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	committed = true
	return failpoint.Hit("pg.committed", "")
}
