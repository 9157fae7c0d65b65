package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/trigger"
)

const insertFire = `
INSERT INTO trigger.fires (namespace, schedule, nominal, fold, suffix, due_at, digest, run_id, delivery_id, origin, state, reason, detail, skips, principal)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9::text::uuid, $10, $11, $12, $13, $14, $15)
ON CONFLICT DO NOTHING
RETURNING id`

// remakeFire is for a backfill: what was let pass, or could start nothing, is
// made after all. Its new id moves it to the top of the history.
const remakeFire = `
INSERT INTO trigger.fires (namespace, schedule, nominal, fold, suffix, due_at, digest, run_id, delivery_id, origin, state, reason, detail, skips, principal)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9::text::uuid, $10, $11, $12, $13, $14, $15)
ON CONFLICT (namespace, schedule, nominal, fold, suffix) DO UPDATE
SET id = DEFAULT, fired_at = clock_timestamp(), digest = excluded.digest, run_id = excluded.run_id, delivery_id = excluded.delivery_id,
    origin = excluded.origin, state = excluded.state, reason = excluded.reason, detail = excluded.detail, principal = excluded.principal, ended_at = NULL
WHERE trigger.fires.state IN ('skipped', 'rejected') AND excluded.state <> 'skipped'
RETURNING id`

// What somebody asked for does not give way to the clock.
const supersede = `
UPDATE trigger.fires
SET state = 'skipped', reason = $3, skips = 1, run_id = NULL
WHERE namespace = $1 AND schedule = $2 AND state = 'buffered' AND origin = 'clock' AND id <> $4`

// dropBuffered lets go what waits for a schedule that is gone.
const dropBuffered = `
UPDATE trigger.fires
SET state = 'skipped', reason = $3, skips = 1, run_id = NULL
WHERE namespace = $1 AND schedule = $2 AND state = 'buffered'`

const insertCancel = `
INSERT INTO trigger.cancels (run_id, namespace, schedule, reason)
VALUES ($1, $2, $3, $4)
ON CONFLICT DO NOTHING`

// insertFiring writes one fire and what it starts. made is false when it was
// made before: whatever moved the hand back, it does not fire again. superseded
// counts those that waited and gave way.
func insertFiring(ctx context.Context, tx pgx.Tx, h trigger.Hand, f trigger.Firing) (made bool, superseded int64, err error) {
	query := insertFire
	if f.Origin == trigger.OriginBackfill {
		query = remakeFire
	}
	var run, delivery any
	if f.RunID != "" {
		run = string(f.RunID)
	}
	if f.Delivery != nil {
		delivery = string(f.Delivery.ID)
	}
	var id int64
	err = tx.QueryRow(ctx, query, h.Namespace, h.Name, f.Fire.Nominal, f.Fire.Fold, f.Suffix, f.Fire.At, string(f.Digest),
		run, delivery, f.Origin, f.State, f.Reason, f.Detail, f.Skips, f.Principal).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, 0, nil
	}
	if err != nil {
		return false, 0, err
	}
	if f.Supersede {
		tag, err := tx.Exec(ctx, supersede, h.Namespace, h.Name, trigger.ReasonSuperseded, id)
		if err != nil {
			return false, 0, err
		}
		superseded = tag.RowsAffected()
	}
	for _, open := range f.Cancel {
		if _, err := tx.Exec(ctx, insertCancel, string(open), h.Namespace, h.Name, "gives way to the fire "+f.Key()+" of schedule "+h.Name); err != nil {
			return false, 0, err
		}
	}
	return true, superseded, insertStart(ctx, tx, f)
}

// insertStart writes what a fire starts, or why it starts nothing.
func insertStart(ctx context.Context, tx pgx.Tx, f trigger.Firing) (err error) {
	switch {
	case f.Delivery != nil:
		_, err = tx.Exec(ctx, insertDelivery, insertArgs(*f.Delivery)...)
	case f.Rejected != nil:
		_, err = tx.Exec(ctx, reject, rejectArgs(*f.Rejected)...)
	}
	return err
}

const openRuns = `
SELECT f.run_id
FROM trigger.fires f
WHERE f.namespace = $1 AND f.schedule = $2 AND f.state = 'started' AND f.ended_at IS NULL
  AND NOT EXISTS (SELECT FROM runner.v_ends e WHERE e.run_id = f.run_id)
ORDER BY f.id
LIMIT 1000`

const countBuffered = `
SELECT count(*) FROM trigger.fires WHERE namespace = $1 AND schedule = $2 AND state = 'buffered'`

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func standing(ctx context.Context, q querier, namespace, name string) (open []events.RunID, buffered int, err error) {
	rows, err := q.Query(ctx, openRuns, namespace, name)
	if err != nil {
		return nil, 0, err
	}
	if open, err = pgx.CollectRows(rows, pgx.RowTo[events.RunID]); err != nil {
		return nil, 0, err
	}
	err = q.QueryRow(ctx, countBuffered, namespace, name).Scan(&buffered)
	return open, buffered, err
}

// Standing implements trigger.Hands.
func (s *Store) Standing(ctx context.Context, name trigger.HandName) (open []events.RunID, buffered int, err error) {
	return standing(ctx, s.pool, name.Namespace, name.Name)
}

const noteEnds = `
UPDATE trigger.fires f
SET ended_at = e.ended_at
FROM runner.v_ends e
WHERE f.state = 'started' AND f.ended_at IS NULL AND e.run_id = f.run_id`

// NoteEnds implements trigger.Hands.
func (s *Store) NoteEnds(ctx context.Context) error {
	if _, err := s.pool.Exec(ctx, noteEnds); err != nil {
		return fmt.Errorf("note ended runs: %w", err)
	}
	return nil
}

const takeWaiting = `
SELECT ` + handColumns + `, clock_timestamp()
FROM trigger.schedules s
WHERE EXISTS (SELECT FROM trigger.fires f WHERE f.namespace = s.namespace AND f.schedule = s.name AND f.state = 'buffered')
  AND NOT EXISTS (SELECT FROM trigger.fires f WHERE f.namespace = s.namespace AND f.schedule = s.name AND f.state = 'started' AND f.ended_at IS NULL)
  AND NOT namespace || '/' || name = ANY ($1)
ORDER BY namespace, name
LIMIT 1
FOR UPDATE OF s SKIP LOCKED`

const fireColumns = `id, nominal, fold, suffix, origin, state, reason, detail, skips, principal, digest, due_at, fired_at, ended_at, coalesce(run_id, '')`

func scanFire(row pgx.CollectableRow) (f trigger.PastFire, err error) {
	err = row.Scan(&f.ID, &f.Nominal, &f.Fold, &f.Suffix, &f.Origin, &f.State, &f.Reason, &f.Detail, &f.Skips, &f.Principal, &f.Digest,
		&f.DueAt, &f.FiredAt, &f.EndedAt, &f.RunID)
	return f, err
}

const oldestBuffered = `
SELECT ` + fireColumns + `
FROM trigger.fires
WHERE namespace = $1 AND schedule = $2 AND state = 'buffered'
ORDER BY id
LIMIT 1`

const settleFire = `
UPDATE trigger.fires
SET state = $2, reason = $3, detail = $4, skips = $5, run_id = $6, delivery_id = $7::text::uuid, digest = $8
WHERE id = $1`

// ReleaseFire implements trigger.Hands.
func (s *Store) ReleaseFire(ctx context.Context, not []trigger.HandName, decide func(context.Context, trigger.Held, trigger.PastFire) (trigger.Firing, error)) (released bool, err error) {
	var f trigger.Firing
	err = pg.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		h, err := hold(ctx, tx, takeWaiting, but(not))
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		// Another replica may have let one go before this one got the lock.
		if err != nil || len(h.Open) > 0 || h.Buffered == 0 {
			return err
		}
		waiting, err := queryOne(ctx, tx, oldestBuffered, scanFire, h.Namespace, h.Name)
		if err != nil {
			return err
		}
		released = true
		if f, err = decide(ctx, h, waiting); err != nil {
			return err
		}
		var run, delivery any
		if f.Delivery != nil {
			run, delivery = string(f.Delivery.RunID), string(f.Delivery.ID)
		}
		if _, err := tx.Exec(ctx, settleFire, waiting.ID, f.State, f.Reason, f.Detail, f.Skips, run, delivery, string(f.Digest)); err != nil {
			return err
		}
		return insertStart(ctx, tx, f)
	})
	if err != nil {
		return false, fmt.Errorf("let a waiting fire go: %w", err)
	}
	if released {
		s.metrics.Fired(ctx, time.Time{}, f)
	}
	return released, nil
}

func queryOne[T any](ctx context.Context, q querier, query string, scan pgx.RowToFunc[T], args ...any) (T, error) {
	rows, err := q.Query(ctx, query, args...)
	if err != nil {
		var none T
		return none, err
	}
	return pgx.CollectExactlyOneRow(rows, scan)
}

const lastFires = `
SELECT DISTINCT ON (schedule) schedule, ` + fireColumns + `
FROM trigger.fires
WHERE namespace = $1 AND state <> 'skipped'
ORDER BY schedule, id DESC
LIMIT 100000`

// LastFires implements trigger.Hands.
func (s *Store) LastFires(ctx context.Context, namespace string) (map[string]trigger.PastFire, error) {
	rows, err := s.pool.Query(ctx, lastFires, namespace)
	if err != nil {
		return nil, err
	}
	last := map[string]trigger.PastFire{}
	var name string
	var f trigger.PastFire
	_, err = pgx.ForEachRow(rows, []any{&name, &f.ID, &f.Nominal, &f.Fold, &f.Suffix, &f.Origin, &f.State, &f.Reason, &f.Detail, &f.Skips,
		&f.Principal, &f.Digest, &f.DueAt, &f.FiredAt, &f.EndedAt, &f.RunID}, func() error {
		last[name] = f
		return nil
	})
	return last, err
}

const fireNow = `
SELECT ` + fireColumns + `
FROM trigger.fires
WHERE namespace = $1 AND schedule = $2 AND suffix = $3 AND origin = 'now' AND state IN ('started', 'buffered')`

// FireNow implements trigger.Hands.
func (s *Store) FireNow(ctx context.Context, name trigger.HandName, suffix string) (trigger.PastFire, error) {
	f, err := queryOne(ctx, s.pool, fireNow, scanFire, name.Namespace, name.Name, suffix)
	if errors.Is(err, pgx.ErrNoRows) {
		err = trigger.ErrNotFound
	}
	return f, err
}

const madeFires = `
SELECT nominal || '/' || fold
FROM trigger.fires
WHERE namespace = $1 AND schedule = $2 AND suffix = $3 AND state IN ('started', 'buffered') AND nominal = ANY ($4)
ORDER BY nominal, fold
LIMIT 10000`

// Made implements trigger.Hands.
func (s *Store) Made(ctx context.Context, name trigger.HandName, suffix string, keys []string) (map[string]bool, error) {
	nominals := make([]string, len(keys))
	for i, k := range keys {
		nominals[i] = k[:len(k)-len("/0")]
	}
	rows, err := s.pool.Query(ctx, madeFires, name.Namespace, name.Name, suffix, nominals)
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	made := make(map[string]bool, len(list))
	for _, key := range list {
		made[key] = true
	}
	return made, err
}

const fireHistory = `
SELECT ` + fireColumns + `
FROM trigger.fires
WHERE namespace = $1 AND schedule = $2 AND ($3 = 0 OR id < $3)
ORDER BY id DESC
LIMIT $4`

// History implements trigger.Hands.
func (s *Store) History(ctx context.Context, name trigger.HandName, before int64, limit int) ([]trigger.PastFire, error) {
	rows, err := s.pool.Query(ctx, fireHistory, name.Namespace, name.Name, before, limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanFire)
}
