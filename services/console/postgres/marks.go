package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/services/console"
)

var _ console.Looker = (*Store)(nil)

// marks is one text for each topic that changes without an event. Each line
// reads open rows or the newest one, over an index.
const marks = `
SELECT 'approvals', concat_ws(' ', count(*), max(created_at), (SELECT count(*) FROM approvals.v_deferred WHERE namespace = $1))
  FROM approvals.v_requests WHERE namespace = $1 AND state = 'pending'
UNION ALL
SELECT 'effects', concat_ws(' ', count(*), count(*) FILTER (WHERE state = 'unknown'), max(updated_at),
       (SELECT created_at FROM tools.v_effects WHERE namespace = $1 ORDER BY created_at DESC, effect_id DESC LIMIT 1))
  FROM tools.v_effects WHERE namespace = $1 AND state IN ('intent', 'unknown')
UNION ALL
SELECT 'stops', coalesce(string_agg(stop_id, ' ' ORDER BY stop_id), '') FROM tools.v_stops WHERE namespace = $1 AND ended_at IS NULL
UNION ALL
SELECT 'agents', concat_ws(' ', count(*), max(updated_at)) FROM catalog.v_current WHERE namespace = $1`

// Marks implements console.Looker.
func (s *Store) Marks(ctx context.Context, namespace string) (map[string]string, error) {
	rows, err := s.pool.Query(ctx, marks, namespace)
	if err != nil {
		return nil, fmt.Errorf("look for changes: %w", err)
	}
	out := map[string]string{}
	var topic, mark string
	if _, err := pgx.ForEachRow(rows, []any{&topic, &mark}, func() error { out[topic] = mark; return nil }); err != nil {
		return nil, fmt.Errorf("look for changes: %w", err)
	}
	return out, nil
}
