package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

// An ended run takes no command. What its key stands for already is returned as
// it was stored.
const insertCommands = `
WITH asked AS MATERIALIZED (
	SELECT * FROM unnest($2::text[], $3::text[], $4::text[], $5::text[]) AS a(id, run_id, body, key)),
added AS (
	INSERT INTO console.commands (id, namespace, run_id, kind, body, principal, idempotency_key, place)
	SELECT a.id, $1, a.run_id, $6, a.body::json, $7, a.key,
	       CASE WHEN $8 THEN (SELECT coalesce(max(p.place), 0) + 1 FROM console.commands p WHERE p.run_id = a.run_id AND p.place IS NOT NULL) END
	FROM asked a
	WHERE NOT EXISTS (SELECT FROM runner.v_runs r WHERE r.run_id = a.run_id AND r.ended_at IS NOT NULL)
	ORDER BY a.key
	ON CONFLICT (namespace, idempotency_key) DO NOTHING
	RETURNING id, run_id, kind)
SELECT id, run_id, kind FROM added
UNION ALL
SELECT c.id, c.run_id, c.kind FROM asked a JOIN console.commands c ON c.namespace = $1 AND c.idempotency_key = a.key`

// AddCommands implements console.BulkStore. All of cs are of one namespace, kind
// and principal.
func (s *Store) AddCommands(ctx context.Context, cs []console.Command) (map[events.RunID]console.Command, error) {
	if len(cs) == 0 {
		return nil, nil
	}
	first := cs[0]
	var ids, runs, bodies, keys []string
	byRun := make(map[events.RunID]console.Command, len(cs))
	for _, c := range cs {
		ids, runs, bodies, keys = append(ids, c.ID), append(runs, string(c.RunID)), append(bodies, string(c.Body)), append(keys, c.Key)
		byRun[c.RunID] = c
	}
	stored := make(map[events.RunID]console.Command, len(cs))
	err := pg.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if first.Placed() {
			if err := takeTurn(ctx, tx, runs...); err != nil {
				return err
			}
		}
		rows, err := tx.Query(ctx, insertCommands, first.Namespace, ids, runs, bodies, keys, first.Kind, first.Principal, first.Placed())
		if err != nil {
			return err
		}
		var id, kind string
		var run events.RunID
		_, err = pgx.ForEachRow(rows, []any{&id, &run, &kind}, func() error {
			if kind != first.Kind {
				return console.ErrKeyReused
			}
			c := byRun[run]
			c.ID = id
			stored[run] = c
			return nil
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("add %d commands: %w", len(cs), err)
	}
	return stored, nil
}

// Now implements console.BulkStore.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	if err := s.pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
		return now, fmt.Errorf("read the database's clock: %w", err)
	}
	return now.UTC(), nil
}
