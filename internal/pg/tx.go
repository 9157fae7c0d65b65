package pg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrBusy says that the pool had no free connection for five seconds.
// Transient reports true for it.
var ErrBusy = errors.New("no free database connection")

// InTx runs fn in one transaction and commits it when fn returns nil; an error
// or a panic rolls back. It waits at most five seconds for a connection
// (ErrBusy) and never retries.
//
// When the commit itself returns a Transient error, its reply may have been
// lost: the transaction may have happened. Read again before deciding.
func InTx(ctx context.Context, pool *pgxpool.Pool, fn func(pgx.Tx) error) (err error) {
	conn, err := acquire(ctx, pool)
	if err != nil {
		return err
	}
	defer conn.Release()
	tx, err := conn.Begin(ctx)
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
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	committed = true
	return nil
}

func acquire(ctx context.Context, pool *pgxpool.Pool) (*pgxpool.Conn, error) {
	actx, cancel := context.WithTimeout(ctx, acquireTimeout)
	defer cancel()
	conn, err := pool.Acquire(actx)
	if err != nil {
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			return nil, fmt.Errorf("acquire connection: %w", ErrBusy)
		}
		return nil, fmt.Errorf("acquire connection: %w", err)
	}
	return conn, nil
}
