package pg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/multitracer"
	"github.com/jackc/pgx/v5/pgxpool"
)

// acquireTimeout bounds the wait for a connection of a pool.
const acquireTimeout = 5 * time.Second

// ErrBusy says that the pool had no free connection for five seconds.
// Transient reports true for it.
var ErrBusy = errors.New("no free database connection")

// bounded returns a tracer that ends each wait for a connection of the pool after
// acquireTimeout, also that of a statement which the pool runs by itself, and
// traces what t does, which may be nil. It is a tracer because that is where
// pgxpool lets one in.
func bounded(t pgx.QueryTracer) pgx.QueryTracer {
	all := &multitracer.Tracer{}
	if t != nil {
		all = multitracer.New(t)
	}
	all.PoolAcquireTracers = append(all.PoolAcquireTracers, patience{})
	return all
}

type patience struct{}

var _ pgxpool.AcquireTracer = patience{}

// wait is the context of one wait: when its own time is over it says so in words
// that an operator can do something with.
type wait struct {
	context.Context
	outer  context.Context
	cancel context.CancelFunc
}

func (w *wait) Err() error {
	err := w.Context.Err()
	if err == nil || w.outer.Err() != nil {
		return err
	}
	return fmt.Errorf("%w for %s: raise --database-max-conns or look for long transactions in pg_stat_activity", ErrBusy, acquireTimeout)
}

// Value also finds the wait itself, for its end.
func (w *wait) Value(key any) any {
	if key == (patience{}) {
		return w
	}
	return w.Context.Value(key)
}

func (patience) TraceAcquireStart(ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireStartData) context.Context {
	w := &wait{outer: ctx}
	w.Context, w.cancel = context.WithTimeout(ctx, acquireTimeout)
	return w
}

func (patience) TraceAcquireEnd(ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireEndData) {
	if w, ok := ctx.Value(patience{}).(*wait); ok {
		w.cancel()
	}
}
