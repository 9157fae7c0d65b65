package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/services/console"
)

const placesOfRun = `
SELECT w.shown, w.name, w.max, w.since,
       (SELECT count(DISTINCT owner) FROM runner.v_slots h WHERE h.namespace = w.namespace AND h.key = w.key AND h.held),
       coalesce((SELECT array_agg(o.owner ORDER BY o.since, o.owner) FROM (
           SELECT owner, min(since) AS since FROM runner.v_slots h WHERE h.namespace = w.namespace AND h.key = w.key AND h.held
           GROUP BY owner ORDER BY 2, 1 LIMIT 10) o), '{}'),
       (SELECT count(*) FROM runner.v_slots a WHERE a.namespace = w.namespace AND a.key = w.key AND NOT a.held AND a.replaced_by IS NULL AND (a.rank, a.place) < (w.rank, w.place)),
       coalesce(w.replaced_by, '')
  FROM runner.v_slots w WHERE w.run_id = $1 AND w.namespace = $2 AND NOT w.held ORDER BY w.place`

const concurrencyKeys = `
SELECT k.key, k.shown, k.name, k.max, k.held,
       coalesce((SELECT array_agg(o.owner ORDER BY o.since, o.owner) FROM (
           SELECT owner, min(since) AS since FROM runner.v_slots h WHERE h.namespace = $1 AND h.key = k.key AND h.held GROUP BY owner ORDER BY 2, 1 LIMIT 10) o), '{}'),
       k.waiting,
       coalesce((SELECT array_agg(o.run_id ORDER BY o.rank, o.place) FROM (
           SELECT run_id, rank, place FROM runner.v_slots w WHERE w.namespace = $1 AND w.key = k.key AND NOT w.held AND w.replaced_by IS NULL ORDER BY rank, place LIMIT 10) o), '{}')
  FROM (SELECT * FROM (SELECT key, min(shown) AS shown, min(name) AS name, (array_agg(max ORDER BY place DESC))[1] AS max,
               count(DISTINCT owner) FILTER (WHERE held) AS held, count(*) FILTER (WHERE NOT held AND replaced_by IS NULL) AS waiting
          FROM runner.v_slots WHERE namespace = $1 AND ($2 = '' OR name = $2) GROUP BY key) every
         WHERE $4 = '' OR (-waiting, -held, key) > (-$5::bigint, -$6::bigint, $4)
         ORDER BY waiting DESC, held DESC, key LIMIT $3) k
 ORDER BY k.waiting DESC, k.held DESC, k.key`

// Concurrency implements console.ConcurrencyReader.
func (s *Store) Concurrency(ctx context.Context, namespace, name string, after console.KeyPlace, limit int) ([]console.ConcurrencyKey, error) {
	rows, err := s.pool.Query(ctx, concurrencyKeys, namespace, name, limit, after.ID, after.Waiting, after.Held)
	if err != nil {
		return nil, fmt.Errorf("list concurrency keys of %s: %w", namespace, err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[console.ConcurrencyKey])
}
