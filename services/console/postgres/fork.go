package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

const (
	// retryOf finds the one retry of a run.
	retryOf = `SELECT ` + commandColumns + ` FROM console.commands WHERE namespace = $1 AND retry_of = $2`
	// origin is the run that is to be continued, as far as a runner has it.
	origin = `SELECT kind, name, digest, status, seq FROM runner.v_runs WHERE run_id = $1 AND namespace = $2`
	// insertFork writes the definition's version and the time into the body.
	insertFork = `
INSERT INTO console.commands (id, namespace, run_id, kind, body, principal, idempotency_key, retry_of)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT DO NOTHING
RETURNING ` + commandColumns
	clock = `SELECT clock_timestamp()`
	// queuedForks are orders that no runner has taken, in the columns of queuedRuns.
	queuedForks = `
SELECT c.run_id, c.namespace, c.body->'ref'->>'kind', c.body->'ref'->>'name', c.body->'ref'->>'digest', 'queued', 0::bigint, '', NULL::json, NULL::json, NULL::json,
       '{}'::jsonb, json_build_object('kind', CASE WHEN c.retry_of IS NULL THEN 'fork' ELSE 'retry' END, 'id', c.body->>'from'), c.principal, '', '',
       0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint, '', 0::bigint, NULL::timestamptz, 0,
       c.created_at, c.created_at, c.created_at, NULL::timestamptz, c.announced_at IS NOT NULL
  FROM ` + ordersOfForks + ` c`
	// ordersOfForks are the commands but for those to runs that were deleted.
	ordersOfForks = `(SELECT q.* FROM console.commands q WHERE NOT EXISTS (SELECT FROM runner.v_deleted x WHERE x.run_id = q.run_id))`
	// pastEffects reads the ledger: the number behind the run's id in a call's is
	// the row of its answer.
	pastEffects = `
SELECT c.call_id, split_part(substr(c.call_id, 38), '-', 1)::bigint AS row, c.tool, c.key, e.state
  FROM tools.v_calls c JOIN tools.v_effects e ON e.effect_id = c.effect_id
 WHERE c.run_id = $1 AND c.namespace = $2 AND c.tool <> $5 AND e.state IN ('succeeded', 'unknown', 'intent') AND split_part(substr(c.call_id, 38), '-', 1)::bigint > $3
 ORDER BY 2, 1 LIMIT $4`
	forksOf = `SELECT run_id, retried, forked_row, status FROM runner.v_forks WHERE forked_from = $1 AND namespace = $2 ORDER BY run_id LIMIT 100`
	forkOf  = `SELECT forked_from, retried, forked_row FROM runner.v_forks WHERE run_id = $1 AND namespace = $2`
)

// AddFork implements console.ForkStore.
func (s *Store) AddFork(ctx context.Context, c console.Command, o console.ForkOrder) (stored console.Command, replayed bool, err error) {
	if err := pg.CleanJSON(c.Body); err != nil {
		return console.Command{}, false, fmt.Errorf("fork of run %s: %w", o.From, err)
	}
	err = pg.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if stored, replayed, err = knownFork(ctx, tx, c, o); err != nil || replayed {
			return err
		}
		var body events.ForkRun
		if err := json.Unmarshal(c.Body, &body); err != nil {
			return err
		}
		if err := forkable(ctx, tx, c.Namespace, o, &body.Ref); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, clock).Scan(&body.AcceptedAt); err != nil {
			return err
		}
		body.AcceptedAt = body.AcceptedAt.UTC()
		raw, err := events.Marshal(body)
		if err != nil {
			return err
		}
		var retried *string
		if o.Retry {
			from := string(o.From)
			retried = &from
		}
		find := func() (console.Command, bool, error) { return knownFork(ctx, tx, c, o) }
		stored, replayed, err = insertOrFind(ctx, tx, find, insertFork, c.ID, c.Namespace, string(c.RunID), c.Kind, raw, c.Principal, textOrNull(c.Key), retried)
		return err
	})
	if err = s.orGone(ctx, c.Namespace, o.From, err); err != nil {
		return console.Command{}, false, fmt.Errorf("add fork of run %s: %w", o.From, err)
	}
	return stored, replayed, nil
}

// knownFork finds the command that stands for this order already.
func knownFork(ctx context.Context, tx pgx.Tx, c console.Command, o console.ForkOrder) (stored console.Command, found bool, err error) {
	if stored, found, err = known(ctx, tx, c); err != nil || found || !o.Retry {
		return stored, found, err
	}
	rows, err := tx.Query(ctx, retryOf, c.Namespace, string(o.From))
	if err != nil {
		return console.Command{}, false, err
	}
	stored, err = pgx.CollectExactlyOneRow(rows, scanCommand)
	if errors.Is(err, pgx.ErrNoRows) {
		return console.Command{}, false, nil
	}
	return stored, err == nil, err
}

func forkable(ctx context.Context, tx pgx.Tx, namespace string, o console.ForkOrder, ref *events.Ref) error {
	var status string
	var seq int64
	err := tx.QueryRow(ctx, origin, string(o.From), namespace).Scan(&ref.Kind, &ref.Name, &ref.Digest, &status, &seq)
	if errors.Is(err, pgx.ErrNoRows) {
		var program bool
		if err := tx.QueryRow(ctx, isProgram, string(o.From), namespace).Scan(&program); err != nil {
			return err
		}
		if program {
			return fmt.Errorf("run %s: %w", o.From, console.ErrProgram)
		}
	}
	switch {
	case err != nil:
		return notFound(err, "get run %s", o.From)
	case o.Retry && ref.Kind == events.KindFlow && status == events.StatusCompleted: // with items that failed
	case ref.Kind != events.KindAgent && !o.Retry:
		return fmt.Errorf("run %s: %w", o.From, console.ErrFlow)
	case o.Retry && status != events.StatusFailed && status != events.StatusExpired:
		return fmt.Errorf("run %s is %s: %w", o.From, status, console.ErrNotFailed)
	case o.At > seq:
		return fmt.Errorf("run %s has %d rows: %w", o.From, seq, console.ErrNoRow)
	}
	return nil
}

// PastEffects implements console.ForkStore.
func (s *Store) PastEffects(ctx context.Context, namespace string, run events.RunID, at int64, limit int) ([]events.PastEffect, error) {
	rows, err := s.pool.Query(ctx, pastEffects, string(run), namespace, at, limit, events.CallbackTool)
	if err != nil {
		return nil, fmt.Errorf("list effects of run %s: %w", run, err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (e events.PastEffect, err error) {
		err = row.Scan(&e.CallID, &e.Row, &e.Tool, &e.Key, &e.State)
		return e, err
	})
}

// queueLinks reads what a run goes on from, and what goes on from it.
func queueLinks(b *pgx.Batch, namespace string, id events.RunID, r *console.Run) {
	b.Queue(forkOf, string(id), namespace).QueryRow(func(row pgx.Row) error {
		var o console.Link
		err := row.Scan(&o.RunID, &o.Retry, &o.Row)
		switch {
		case err == nil:
			r.Origin = &o
		case !errors.Is(err, pgx.ErrNoRows):
			return fmt.Errorf("read origin: %w", err)
		}
		return nil
	})
	b.Queue(forksOf, string(id), namespace).Query(func(rows pgx.Rows) (err error) {
		r.Forks, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (l console.Link, err error) {
			err = row.Scan(&l.RunID, &l.Retry, &l.Row, &l.Status)
			return l, err
		})
		return err
	})
}
