package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/trigger"
)

// What a gate commits need not reach the disk by itself: the delivery's commit
// comes after it in the same log, so a delivery that survives a crash has its
// token and place taken.
const gateSoon = `SET LOCAL synchronous_commit = off`

// refill locks the gate of a webhook and fills its bucket up to now.
const refill = `
INSERT INTO trigger.gates AS g (namespace, webhook, tokens)
VALUES ($1, $2, $3::float8)
ON CONFLICT (namespace, webhook) DO UPDATE
SET tokens = least($3::float8, g.tokens + greatest(0, extract(epoch FROM clock_timestamp() - g.refilled_at)::float8) * $4::float8 / 60),
    refilled_at = clock_timestamp()
RETURNING tokens`

const takeToken = `
UPDATE trigger.gates
SET tokens = tokens - 1
WHERE namespace = $1 AND webhook = $2`

const countPlaces = `
SELECT count(*)
FROM trigger.places
WHERE namespace = $1 AND webhook = $2`

// sweepPlaces removes the places of runs that have ended, and after a minute
// those whose start was never stored.
const sweepPlaces = `
DELETE FROM trigger.places p
WHERE p.namespace = $1 AND p.webhook = $2
  AND NOT EXISTS (SELECT FROM runner.v_open o WHERE o.run_id = p.run_id)
  AND (EXISTS (SELECT FROM runner.v_landed l WHERE l.run_id = p.run_id AND l.cause = 'start:' || p.run_id)
    OR p.taken_at < clock_timestamp() - interval '1 min'
       AND NOT EXISTS (SELECT FROM trigger.announcements a WHERE a.run_id = p.run_id AND a.landed_at IS NULL))`

const takePlace = `
INSERT INTO trigger.places (run_id, namespace, webhook)
VALUES ($1, $2, $3)
ON CONFLICT DO NOTHING`

const leavePlace = `DELETE FROM trigger.places WHERE run_id = $1`

// Enter implements trigger.Gates. Like Insert it rides out a short absence of
// Postgres; at worst a token is taken twice.
func (s *Store) Enter(ctx context.Context, hook trigger.HookName, run events.RunID, l trigger.Limits) (trigger.Entrance, error) {
	ctx, cancel := context.WithTimeout(ctx, insertPatience)
	defer cancel()
	var answer trigger.Entrance
	err := pg.Retry(ctx, func(ctx context.Context) error {
		return pg.InTx(ctx, s.pool, func(tx pgx.Tx) (err error) {
			answer, err = enter(ctx, tx, hook, run, l)
			return err
		})
	})
	if err != nil {
		return trigger.Entrance{}, fmt.Errorf("enter gate: %w", err)
	}
	return answer, nil
}

func enter(ctx context.Context, tx pgx.Tx, hook trigger.HookName, run events.RunID, l trigger.Limits) (trigger.Entrance, error) {
	if _, err := tx.Exec(ctx, gateSoon); err != nil {
		return trigger.Entrance{}, err
	}
	var tokens float64
	if err := tx.QueryRow(ctx, refill, hook.Namespace, hook.Name, float64(l.Burst), float64(l.PerMinute)).Scan(&tokens); err != nil {
		return trigger.Entrance{}, fmt.Errorf("refill: %w", err)
	}
	if l.PerMinute > 0 && tokens < 1 {
		missing := (1 - tokens) / float64(l.PerMinute) * 60
		return trigger.Entrance{Wait: max(time.Duration(missing*float64(time.Second)), time.Millisecond)}, nil
	}
	if l.InFlight > 0 {
		full, err := takeAPlace(ctx, tx, hook, run, l.InFlight)
		if err != nil || full {
			return trigger.Entrance{Full: full}, err
		}
	}
	if l.PerMinute == 0 {
		return trigger.Entrance{}, nil
	}
	_, err := tx.Exec(ctx, takeToken, hook.Namespace, hook.Name)
	return trigger.Entrance{}, err
}

func takeAPlace(ctx context.Context, tx pgx.Tx, hook trigger.HookName, run events.RunID, places int64) (full bool, err error) {
	for swept := false; ; swept = true {
		var taken int64
		if err := tx.QueryRow(ctx, countPlaces, hook.Namespace, hook.Name).Scan(&taken); err != nil {
			return false, fmt.Errorf("count places: %w", err)
		}
		if taken < places {
			_, err := tx.Exec(ctx, takePlace, string(run), hook.Namespace, hook.Name)
			return false, err
		}
		if swept {
			return true, nil
		}
		if _, err := tx.Exec(ctx, sweepPlaces, hook.Namespace, hook.Name); err != nil {
			return false, fmt.Errorf("sweep places: %w", err)
		}
	}
}

// Leave implements trigger.Gates.
func (s *Store) Leave(ctx context.Context, run events.RunID) error {
	if _, err := s.pool.Exec(ctx, leavePlace, string(run)); err != nil {
		return fmt.Errorf("leave place: %w", err)
	}
	return nil
}
