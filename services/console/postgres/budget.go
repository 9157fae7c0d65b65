package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/services/console"
)

// Names of windows order as the windows do.
const pools = `
SELECT pool, window_start, unit, ceiling, used, reserved, alerts FROM runner.v_pools p
 WHERE namespace = $1 AND ($2 = pool OR $2 = '' AND NOT EXISTS (
       SELECT FROM runner.v_pools n WHERE (n.namespace, n.pool) = (p.namespace, p.pool) AND n.window_start > p.window_start))
 ORDER BY pool, window_start DESC LIMIT $3`

// Pools implements console.PoolReader.
func (s *Store) Pools(ctx context.Context, namespace, name string, limit int) ([]console.Pool, error) {
	rows, err := s.pool.Query(ctx, pools, namespace, name, limit)
	if err != nil {
		return nil, fmt.Errorf("list budgets of %s: %w", namespace, err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (console.Pool, error) {
		var p console.Pool
		var alerts []byte
		if err := row.Scan(&p.Name, &p.Window, &p.Unit, &p.Limit, &p.Used, &p.Reserved, &alerts); err != nil {
			return p, err
		}
		return p, json.Unmarshal(alerts, &p.Alerts)
	})
}
