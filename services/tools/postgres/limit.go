package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/services/tools"
)

// lockLimitsSQL locks rows in the order of their keys, and makes those that are
// not there.
const lockLimitsSQL = `
INSERT INTO tools.limits AS l (limit_key) SELECT k FROM unnest($1::text[]) k ORDER BY k
ON CONFLICT (limit_key) DO UPDATE SET limit_key = excluded.limit_key`

// usageSQL is read under the lock of its limit. A worker that has not been heard
// of for ten seconds is gone, and what it did is over.
const usageSQL = `
WITH mine AS (SELECT w.since, w.call_id FROM tools.limit_waits w WHERE w.call_id = $2 AND w.limit_key = $1),
ahead AS (
	SELECT w.wake_at FROM tools.limit_waits w
	 WHERE w.limit_key = $1 AND w.call_id <> $2
	   AND (NOT EXISTS (SELECT 1 FROM mine) OR (w.since, w.call_id) < (SELECT mine.since, mine.call_id FROM mine))
	 ORDER BY w.since, w.call_id LIMIT 10000)
SELECT clock_timestamp(), CASE WHEN l.last_start > '-infinity' THEN l.last_start END,
       (SELECT count(*) FROM tools.limit_uses u WHERE u.limit_key = $1 AND u.until > clock_timestamp()
           AND EXISTS (SELECT 1 FROM tools.workers o WHERE o.name = u.worker AND o.beat > clock_timestamp() - interval '10 s')),
       (SELECT count(*) FROM ahead),
       (SELECT count(*) FROM ahead WHERE wake_at <= clock_timestamp() AND wake_at > clock_timestamp() - interval '2 s')
  FROM tools.limits l WHERE l.limit_key = $1`

const startLimitSQL = `UPDATE tools.limits SET last_start = clock_timestamp() WHERE limit_key = ANY($1)`

const useLimitSQL = `
INSERT INTO tools.limit_uses (limit_key, holder, worker, until)
VALUES ($1, $2, $3, clock_timestamp() + $4::bigint * interval '1 millisecond')
ON CONFLICT (limit_key, holder) DO NOTHING`

const dropUsesSQL = `DELETE FROM tools.limit_uses WHERE limit_key = $1 AND until < clock_timestamp() - interval '1 hour'`

const dropWaitSQL = `DELETE FROM tools.limit_waits WHERE call_id = $1`

// waitTurnSQL keeps the call's place in the queue. A short wait comes back as a
// message, so the sweep leaves it alone for a while; after a long one the message
// is sent a little early and waits the rest.
const waitTurnSQL = `
INSERT INTO tools.limit_waits AS w (call_id, run_id, namespace, tool, limit_key, says, next_at, wake_at)
VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp() + $7::bigint * interval '1 millisecond', clock_timestamp() + $8::bigint * interval '1 millisecond')
ON CONFLICT (call_id) DO UPDATE SET since = CASE WHEN w.limit_key = excluded.limit_key THEN w.since ELSE excluded.since END,
	limit_key = excluded.limit_key, says = excluded.says, next_at = excluded.next_at, wake_at = excluded.wake_at`

const endUseSQL = `DELETE FROM tools.limit_uses WHERE limit_key = ANY($1) AND holder = $2`

// nextTurnsSQL wakes the call that has waited longest for each limit.
const nextTurnsSQL = `
WITH next AS (
	SELECT w.call_id FROM unnest($1::text[]) k
	 CROSS JOIN LATERAL (SELECT x.call_id FROM tools.limit_waits x JOIN tools.calls c ON c.call_id = x.call_id AND c.status = 'open'
	                      WHERE x.limit_key = k AND x.wake_at > clock_timestamp() ORDER BY x.since, x.call_id LIMIT 1) w
), woken AS (
	UPDATE tools.limit_waits w SET wake_at = clock_timestamp() FROM next WHERE w.call_id = next.call_id RETURNING w.call_id
)
SELECT ` + callColumns + ` FROM woken JOIN tools.calls c ON c.call_id = woken.call_id`

// dueTurnsSQL takes calls whose turn may have come, and forgets those that wait
// no longer.
const dueTurnsSQL = `
WITH due AS (
	SELECT w.call_id, EXISTS (SELECT 1 FROM tools.calls c WHERE c.call_id = w.call_id AND c.status = 'open') AS open
	  FROM tools.limit_waits w WHERE w.wake_at <= clock_timestamp() ORDER BY w.wake_at LIMIT $1 FOR UPDATE SKIP LOCKED
), gone AS (
	DELETE FROM tools.limit_waits w USING due WHERE w.call_id = due.call_id AND NOT due.open
), taken AS (
	UPDATE tools.limit_waits w SET wake_at = clock_timestamp() + interval '30 s' FROM due WHERE w.call_id = due.call_id AND due.open
	RETURNING w.call_id
)
SELECT ` + callColumns + ` FROM taken JOIN tools.calls c ON c.call_id = taken.call_id`

type usageRow struct {
	Now                   time.Time
	LastStart             *time.Time
	Running, Ahead, Woken int64
}

func keysOf(limits []tools.Limit) []string {
	keys := make([]string, 0, len(limits))
	for _, l := range limits {
		keys = append(keys, l.Key)
	}
	return keys
}

// earlyWake is how long before its turn a call is sent again: a sweep may be late
// by a second.
const earlyWake = 1500 * time.Millisecond

// TakeTurn implements tools.Turns.
func (s *Store) TakeTurn(ctx context.Context, t tools.Take) (wait time.Duration, says string, err error) {
	err = pg.Retry(ctx, func(ctx context.Context) error {
		return s.tx(ctx, func(tx pgx.Tx) error {
			wait, says = 0, ""
			keys, key := keysOf(t.Limits), ""
			if _, err := tx.Exec(ctx, lockLimitsSQL, keys); err != nil {
				return err
			}
			for _, l := range t.Limits {
				rows, err := tx.Query(ctx, usageSQL, l.Key, string(t.Call.ID))
				if err != nil {
					return err
				}
				u, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[usageRow])
				if err != nil {
					return err
				}
				w := l.Wait(tools.Usage{Now: u.Now, LastStart: at(u.LastStart), Running: u.Running, Ahead: u.Ahead, Woken: u.Woken})
				if w > wait {
					wait, says, key = w, l.Says, l.Key
				}
			}
			switch {
			case wait == 0:
				return begun(ctx, tx, t, keys)
			case t.NoRow:
				return nil
			}
			if ok, err := openCall(ctx, tx, t.Call, t.EffectID, false); err != nil || !ok {
				return err
			}
			due := wait - earlyWake
			if wait <= 5*time.Second {
				due = wait + wakeSlack
			}
			_, err := tx.Exec(ctx, waitTurnSQL, string(t.Call.ID), string(t.Call.RunID), t.Call.Namespace, t.Call.Tool, key, says,
				wait.Milliseconds(), due.Milliseconds())
			return err
		})
	})
	if wait > 0 {
		wait = max(wait, time.Millisecond)
	}
	return wait, says, err
}

func begun(ctx context.Context, tx pgx.Tx, t tools.Take, keys []string) error {
	if _, err := tx.Exec(ctx, startLimitSQL, keys); err != nil {
		return err
	}
	for _, l := range t.Limits {
		if l.Concurrency == 0 {
			continue
		}
		if _, err := tx.Exec(ctx, dropUsesSQL, l.Key); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, useLimitSQL, l.Key, t.Holder, t.Worker, t.For.Milliseconds()); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, dropWaitSQL, string(t.Call.ID))
	return err
}

// EndTurn implements tools.Turns.
func (s *Store) EndTurn(ctx context.Context, limits []tools.Limit, holder string) (woken []tools.Call, err error) {
	keys := keysOf(limits)
	err = s.tx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockLimitsSQL, keys); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, endUseSQL, keys, holder); err != nil {
			return err
		}
		woken, err = calls(tx.Query(ctx, nextTurnsSQL, keys))
		return err
	})
	return woken, err
}
