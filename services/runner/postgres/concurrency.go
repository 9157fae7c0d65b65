package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// Whoever takes a place under a key has the key's row until its commit. The rows
// come in the order of the array, which is sorted, so two runs with the same keys
// wait for each other in one order. Freeing a place needs no lock: there is only
// more room than was counted.
const lockKeys = `
INSERT INTO runner.slot_keys (namespace, key) SELECT $1, k FROM unnest($2::text[]) AS k
ON CONFLICT (namespace, key) DO UPDATE SET used_at = clock_timestamp()`

// $4 says whose places the keys may be: those of runs above.
const seeKeys = `
SELECT (SELECT count(DISTINCT owner) FROM runner.slots h WHERE h.namespace = $1 AND h.key = k.key AND h.held),
       coalesce((SELECT array_agg(o.owner ORDER BY o.since, o.owner) FROM (
           SELECT owner, min(since) AS since FROM runner.slots h WHERE h.namespace = $1 AND h.key = k.key AND h.held GROUP BY owner ORDER BY 2, 1 LIMIT 10) o), '{}'),
       (SELECT count(*) FROM runner.slots w WHERE w.namespace = $1 AND w.key = k.key AND NOT w.held AND w.replaced_by IS NULL),
       (SELECT count(*) FROM runner.slots w WHERE w.namespace = $1 AND w.key = k.key AND NOT w.held AND w.replaced_by IS NULL AND w.rank <= $3),
       EXISTS (SELECT FROM runner.slots h WHERE h.namespace = $1 AND h.key = k.key AND h.held AND h.owner = k.above)
FROM unnest($2::text[], $4::text[]) WITH ORDINALITY AS k(key, above, nth) ORDER BY k.nth`

const insertSlots = `
INSERT INTO runner.slots (run_id, namespace, key, shown, name, max, rank, owner, held)
SELECT $1, $2, k.key, k.shown, k.name, k.max, $3, k.owner, $4
FROM unnest($5::text[], $6::text[], $7::text[], $8::bigint[], $9::text[]) AS k(key, shown, name, max, owner)`

// All that wait under the key go, and of those that hold it the oldest, until there
// is room for the new run once they have ended.
const replaceOthers = `
WITH live AS (
    SELECT owner, min(since) AS since, min(place) AS place FROM runner.slots
    WHERE namespace = $1 AND key = $2 AND held AND owner <> $3 GROUP BY owner HAVING bool_and(replaced_by IS NULL)),
over AS (
    SELECT owner FROM live ORDER BY since, place LIMIT greatest((SELECT count(*) FROM live) - ($4::bigint - 1), 0))
UPDATE runner.slots s SET replaced_by = $3, woken_at = '-infinity', wakes = 0
WHERE s.namespace = $1 AND s.key = $2 AND s.run_id <> $3 AND s.replaced_by IS NULL
  AND (NOT s.held OR s.owner IN (SELECT owner FROM over))`

// Enter implements runner.Concurrent.
func (s *Store) Enter(ctx context.Context, e runner.Entering, begin func([]runner.KeySeen) (runner.Commit, runner.Placing, error)) (at time.Time, err error) {
	var keys, above []string
	for _, k := range e.Keys {
		keys, above = append(keys, string(k.Key)), append(above, string(k.Of))
	}
	rank := rankOf(e.Priority)
	var decided error
	err = pg.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockKeys, e.Namespace, sorted(keys)); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, seeKeys, e.Namespace, keys, rank, above)
		if err != nil {
			return err
		}
		seen, err := pgx.CollectRows(rows, pgx.RowToStructByPos[runner.KeySeen])
		if err != nil {
			return err
		}
		c, entry, err := begin(seen)
		if err != nil {
			decided = err
			return err
		}
		query, args := begins(c)
		var epoch int64
		if err := tx.QueryRow(ctx, query, args...).Scan(&epoch, &at); err != nil {
			return err
		}
		if c.After.End != "" {
			return insertNotices(ctx, tx, c.Notices)
		}
		var shown, names, owners []string
		var most []int64
		for i, k := range e.Keys {
			owner := e.RunID
			if seen[i].Shared {
				owner = k.Of
			}
			shown, names, owners, most = append(shown, k.Shown), append(names, k.Name), append(owners, string(owner)), append(most, k.Max)
		}
		if _, err := tx.Exec(ctx, insertSlots, string(e.RunID), e.Namespace, rank, entry.Awaited == nil, keys, shown, names, most, owners); err != nil {
			return err
		}
		for _, k := range entry.Replace {
			if _, err := tx.Exec(ctx, replaceOthers, e.Namespace, string(k.Key), string(e.RunID), k.Max); err != nil {
				return err
			}
		}
		return nil
	})
	if decided != nil {
		return at, decided
	}
	return at, conflict(e.RunID, err)
}

func rankOf(priority string) int {
	if priority == events.PriorityBatch {
		return 1
	}
	return 0
}

func sorted(keys []string) []string {
	out := slices.Clone(keys)
	slices.Sort(out)
	return slices.Compact(out)
}

// freeSlots ends what a run holds and waits for; knowsSlots says that it knows that
// it has its place.
const (
	freeSlots  = `DELETE FROM runner.slots WHERE run_id = $1`
	knowsSlots = `UPDATE runner.slots SET woken_at = NULL WHERE run_id = $1 AND replaced_by IS NULL`
)

// movesSlots is the statement that a commit takes along; empty for none.
func movesSlots(c runner.Commit) string {
	switch {
	case len(c.After.Started.Concurrency) == 0:
		return ""
	case c.After.End != "" && c.Before.End == "":
		return freeSlots
	case c.Before.Queued && !c.After.Queued:
		return knowsSlots
	}
	return ""
}

// The first in line under each key that has room, as many as there is room for. A
// run that stands still keeps its place in the line and is passed by, and so is one
// whose other key is full.
const nextSlots = `
WITH RECURSIVE k AS (
    (SELECT namespace, key FROM runner.slots WHERE NOT held AND replaced_by IS NULL ORDER BY namespace, key LIMIT 1)
    UNION ALL
    SELECT n.namespace, n.key FROM k CROSS JOIN LATERAL (
        SELECT s.namespace, s.key FROM runner.slots s WHERE NOT s.held AND s.replaced_by IS NULL AND (s.namespace, s.key) > (k.namespace, k.key)
        ORDER BY s.namespace, s.key LIMIT 1) n),
room AS (
    SELECT k.namespace, k.key, h.n AS holders FROM k
    CROSS JOIN LATERAL (SELECT count(DISTINCT owner) AS n FROM runner.slots h WHERE h.namespace = k.namespace AND h.key = k.key AND h.held) h
    CROSS JOIN LATERAL (SELECT max FROM runner.slots w WHERE w.namespace = k.namespace AND w.key = k.key AND NOT w.held AND w.replaced_by IS NULL
                        ORDER BY w.rank, w.place LIMIT 1) f
    WHERE h.n < f.max)
SELECT run_id, namespace FROM (
    SELECT w.run_id, w.namespace, w.rank, w.place, w.max - room.holders AS free, row_number() OVER (PARTITION BY room.namespace, room.key ORDER BY w.rank, w.place) AS nth
    FROM room CROSS JOIN LATERAL (
        SELECT * FROM runner.slots i WHERE i.namespace = room.namespace AND i.key = room.key AND NOT i.held AND i.replaced_by IS NULL
        ORDER BY i.rank, i.place LIMIT 500) w
    JOIN runner.runs r ON r.run_id = w.run_id AND r.status = 'queued'
    WHERE NOT EXISTS (
        SELECT FROM runner.slots o WHERE o.run_id = w.run_id AND o.key <> w.key
          AND (SELECT count(DISTINCT h.owner) FROM runner.slots h WHERE h.namespace = o.namespace AND h.key = o.key AND h.held AND h.owner <> o.owner) >= o.max
          AND NOT EXISTS (SELECT FROM runner.slots h WHERE h.namespace = o.namespace AND h.key = o.key AND h.held AND h.owner = o.owner))) q
WHERE nth <= free GROUP BY run_id, namespace ORDER BY min(rank), min(place) LIMIT $1`

const keysOf = `SELECT key FROM runner.slots WHERE run_id = $1 AND NOT held ORDER BY key`

// All of the run's places or none, counted under the locks of its keys.
const grantSlots = `
UPDATE runner.slots s SET held = true, since = clock_timestamp(), woken_at = '-infinity', wakes = 0
WHERE s.run_id = $1 AND NOT s.held
  AND EXISTS (SELECT FROM runner.runs r WHERE r.run_id = $1 AND r.status = 'queued')
  AND NOT EXISTS (SELECT FROM runner.slots m WHERE m.run_id = $1 AND (m.replaced_by IS NOT NULL
    OR (SELECT count(DISTINCT h.owner) FROM runner.slots h WHERE h.namespace = m.namespace AND h.key = m.key AND h.held) >= m.max
       AND NOT EXISTS (SELECT FROM runner.slots h WHERE h.namespace = m.namespace AND h.key = m.key AND h.held AND h.owner = m.owner)))`

// Keys that nobody has used for an hour.
const dropKeys = `
DELETE FROM runner.slot_keys k USING (SELECT namespace, key FROM runner.slot_keys WHERE used_at < (SELECT clock_timestamp()) - interval '1 h' ORDER BY used_at LIMIT 200) old
WHERE (k.namespace, k.key) = (old.namespace, old.key) AND k.used_at < clock_timestamp() - interval '1 h'
  AND NOT EXISTS (SELECT FROM runner.slots s WHERE s.namespace = k.namespace AND s.key = k.key)`

// GrantSlots implements runner.Concurrent.
func (s *Store) GrantSlots(ctx context.Context, limit int) (granted int, err error) {
	rows, err := s.pool.Query(ctx, nextSlots, limit)
	if err != nil {
		return 0, fmt.Errorf("look who is next under concurrency keys: %w", err)
	}
	type run struct{ ID, Namespace string }
	next, err := pgx.CollectRows(rows, pgx.RowToStructByPos[run])
	if err != nil {
		return 0, fmt.Errorf("look who is next under concurrency keys: %w", err)
	}
	for _, r := range next {
		err := pg.InTx(ctx, s.pool, func(tx pgx.Tx) error {
			rows, err := tx.Query(ctx, keysOf, r.ID)
			if err != nil {
				return err
			}
			keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil || len(keys) == 0 {
				return err
			}
			if _, err := tx.Exec(ctx, lockKeys, r.Namespace, keys); err != nil {
				return err
			}
			tag, err := tx.Exec(ctx, grantSlots, r.ID)
			if tag.RowsAffected() > 0 {
				granted++
			}
			return err
		})
		if err != nil {
			return granted, fmt.Errorf("give run %s its place: %w", r.ID, err)
		}
	}
	return granted, nil
}

// DropKeys forgets the locks of keys that are out of use.
func (s *Store) DropKeys(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, dropKeys)
	return err
}

const untoldSlots = `
UPDATE runner.slots s SET woken_at = clock_timestamp(), wakes = wakes + 1
FROM (SELECT run_id, key FROM runner.slots
      WHERE woken_at < clock_timestamp() - interval '5 s'
        AND (wakes = 0 OR woken_at < clock_timestamp() - interval '5 s' * power(2, least(wakes - 1, 6)))
      ORDER BY woken_at LIMIT $1 FOR UPDATE SKIP LOCKED) due
WHERE s.run_id = due.run_id AND s.key = due.key
RETURNING s.run_id, s.namespace, s.shown, coalesce(s.replaced_by, ''), s.wakes`

// UntoldSlots implements runner.Concurrent.
func (s *Store) UntoldSlots(ctx context.Context, limit int) ([]runner.SlotNews, error) {
	rows, err := s.pool.Query(ctx, untoldSlots, limit)
	if err != nil {
		return nil, fmt.Errorf("take news of concurrency keys: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[runner.SlotNews])
}
