// Package postgres keeps the side-effect ledger in the schema tools. Every time
// that it writes or compares comes from the database's clock.
//
// Locks are taken in one order: the effect, then its calls.
package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

// Store implements the interfaces of package tools. It is safe for concurrent
// use; all it keeps are the changes that wait to go together.
type Store struct {
	pool      *pgxpool.Pool
	keyed     *pg.Keyed // for what each call needs
	looks     *pg.Group[look, looked]
	intents   *pg.Group[beginning, opened]
	standings *pg.Group[act, stood]
	outcomes  *pg.Group[tools.Finish, settled]
}

var (
	_ tools.Store    = (*Store)(nil)
	_ tools.Controls = (*Store)(nil)
	_ tools.Reader   = (*Store)(nil)
)

// New returns a store on pool, which connects as holdfast_tools.
func New(pool *pgxpool.Pool) *Store {
	s := &Store{pool: pool, keyed: pg.NewKeyed(pool)}
	s.looks, s.intents, s.standings, s.outcomes = newLooks(s), newIntents(s), newStandings(s), newOutcomes(s)
	return s
}

func (s *Store) tx(ctx context.Context, fn func(pgx.Tx) error) error {
	return unstorable(pg.InTx(ctx, s.pool, fn))
}

// keyedTx is tx for what each call needs.
func (s *Store) keyedTx(ctx context.Context, fn func(pgx.Tx) error) error {
	return unstorable(s.keyed.InTx(ctx, fn))
}

// unstorable marks errors about the values themselves: no retry cures them.
func unstorable(err error) error {
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok && len(pe.Code) == 5 {
		switch pe.Code[:2] {
		case "22", "54":
			return fmt.Errorf("%w: %w", tools.ErrUnstorable, err)
		}
	}
	return err
}

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func calls(rows pgx.Rows, err error) ([]tools.Call, error) {
	found, err := collect[callRow](rows, err)
	if err != nil {
		return nil, err
	}
	out := make([]tools.Call, 0, len(found))
	for _, r := range found {
		c, err := r.call()
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// oneCall returns nil when there is none.
func oneCall(rows pgx.Rows, err error) (*tools.Call, error) {
	found, err := calls(rows, err)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// oneEffect returns nil when there is none.
func oneEffect(rows pgx.Rows, err error) (*tools.Effect, error) {
	found, err := collect[effectRow](rows, err)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	e, err := found[0].effect()
	return &e, err
}

func collect[T any](rows pgx.Rows, err error) ([]T, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[T])
}

// lockEffectSQL is the first statement of whatever changes an effect's calls
// without changing the effect.
const lockEffectSQL = `SELECT ` + effectColumns + ` FROM tools.effects e WHERE e.effect_id = $1 FOR UPDATE`

func lockEffect(ctx context.Context, tx pgx.Tx, id string) (*tools.Effect, error) {
	return oneEffect(tx.Query(ctx, lockEffectSQL, id))
}

const getCallSQL = `SELECT ` + callColumns + ` FROM tools.calls c WHERE c.call_id = $1`

func getCall(ctx context.Context, q querier, id events.CallID) (*tools.Call, error) {
	return oneCall(q.Query(ctx, getCallSQL, string(id)))
}
