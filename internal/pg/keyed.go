package pg

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/failpoint"
)

// Keyed sends statements that find all their rows by key and run all the time. There
// is one good way to run such a statement, whatever its tables hold, so its plan is
// made once per connection and kept, where others are planned each time
// ([Config.Named]): to plan a commit of several tables costs three times what it takes
// to run it. A kept plan scans no table that has an index for it, so one that was made
// while the table was empty stays right when it is full, as long as there is one index to
// choose: where two fit, an empty table does not say which, so ask for a row by its key
// and nothing else, and join many by LATERAL with a LIMIT. pgtest.KeptPlan shows it.
//
// In a pool that is not Named, and behind a pooler, statements run as any other.
type Keyed struct {
	pool  *pgxpool.Pool
	keeps bool
}

const (
	keepPlans    = `SELECT set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true)`
	beginKeeping = `BEGIN; SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL enable_seqscan = off`
)

// NewKeyed returns a sender for pool.
func NewKeyed(pool *pgxpool.Pool) *Keyed {
	return &Keyed{pool: pool, keeps: pool.Config().ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement}
}

// One runs a statement and reads its one row; without any it returns
// [pgx.ErrNoRows]. What it wrote is committed when it returns nil.
func (k *Keyed) One(ctx context.Context, sql string, args []any, dest ...any) error {
	if !k.keeps {
		if err := failpoint.Hit("pg.committing", ""); err != nil {
			return err
		}
		if err := k.pool.QueryRow(ctx, sql, args...).Scan(dest...); err != nil {
			return err
		}
		return failpoint.Hit("pg.committed", "")
	}
	var none error // from a callback it would look like a statement that has become useless
	b := &pgx.Batch{}
	b.Queue(sql, args...).QueryRow(func(row pgx.Row) error {
		err := row.Scan(dest...)
		if errors.Is(err, pgx.ErrNoRows) {
			none, err = err, nil
		}
		return err
	})
	if err := k.Send(ctx, b); err != nil {
		return err
	}
	return none
}

// Send runs the statements of a batch in one round trip and one transaction, and
// their callbacks. It returns the first error, also of a callback. When it has a
// connection, and right before it sends anything, it calls each of sending.
func (k *Keyed) Send(ctx context.Context, b *pgx.Batch, sending ...func()) error {
	if k.keeps {
		all := &pgx.Batch{}
		all.Queue(keepPlans)
		all.QueuedQueries = append(all.QueuedQueries, b.QueuedQueries...)
		b = all
	}
	if err := failpoint.Hit("pg.committing", ""); err != nil {
		return err
	}
	conn, err := k.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	for _, f := range sending {
		f()
	}
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	return failpoint.Hit("pg.committed", "")
}

// InTx is [InTx] for statements of which each finds its rows by key.
func (k *Keyed) InTx(ctx context.Context, fn func(pgx.Tx) error) error {
	var o pgx.TxOptions
	if k.keeps {
		o.BeginQuery = beginKeeping
	}
	return inTx(ctx, k.pool, o, fn)
}
