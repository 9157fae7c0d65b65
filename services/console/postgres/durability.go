package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/services/console"
)

// A run that was written to after it had lost its worker has gone on. One whose row
// is gone was deleted after its end.
const durability = `
WITH went AS (
    SELECT k.run_id, k.at, k.stopped, k.seen FROM runner.v_takeovers k
     WHERE k.at > now() - $2::bigint * interval '1 microsecond' AND k.namespace = $1),
hit AS (
    SELECT w.run_id, max(w.at) AS last FROM went w WHERE NOT w.stopped GROUP BY 1),
state AS (
    SELECT CASE WHEN r.status = 'needs_attention' THEN 'parked' WHEN r.ended_at IS NOT NULL OR r.updated_at > h.last THEN 'resumed' ELSE 'open' END AS became
      FROM hit h JOIN runner.v_runs r ON r.run_id = h.run_id)
SELECT now(), t.lost, t.handed_over, s.runs, s.resumed, s.parked, s.open,
       coalesce(t.p50, 0)::bigint, coalesce(t.p99, 0)::bigint, coalesce(t.most, 0)::bigint,
       (SELECT count(*) FROM tools.v_spared c WHERE c.namespace = $1 AND c.replayed AND c.status = 'succeeded' AND c.at >= now() - $2::bigint * interval '1 microsecond'),
       (SELECT count(*) FROM tools.v_spared c WHERE c.namespace = $1 AND c.status = 'mismatch' AND c.at >= now() - $2::bigint * interval '1 microsecond'),
       (SELECT count(*) FROM tools.v_effects e WHERE e.namespace = $1 AND e.state = 'unknown' AND e.settled_by IS NULL)
  FROM (SELECT count(*) FILTER (WHERE NOT stopped) AS lost, count(*) FILTER (WHERE stopped) AS handed_over,
               percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM at - seen) * 1000000) FILTER (WHERE NOT stopped) AS p50,
               percentile_cont(0.99) WITHIN GROUP (ORDER BY extract(epoch FROM at - seen) * 1000000) FILTER (WHERE NOT stopped) AS p99,
               max(extract(epoch FROM at - seen) * 1000000) FILTER (WHERE NOT stopped) AS most FROM went) t,
       (SELECT count(*) AS runs, count(*) FILTER (WHERE became = 'resumed') AS resumed, count(*) FILTER (WHERE became = 'parked') AS parked,
               count(*) FILTER (WHERE became = 'open') AS open FROM state) s`

// Durability implements console.DurabilityReader.
func (s *Store) Durability(ctx context.Context, namespace string, over time.Duration) (console.Durability, error) {
	var d console.Durability
	var p50, p99, most int64
	err := s.pool.QueryRow(ctx, durability, namespace, over.Microseconds()).Scan(&d.Until, &d.Lost, &d.HandedOver, &d.Runs, &d.Resumed, &d.Parked, &d.Open,
		&p50, &p99, &most, &d.Prevented, &d.Refused, &d.InDoubt)
	if err != nil {
		return d, fmt.Errorf("count what was resumed: %w", err)
	}
	d.Until = d.Until.UTC()
	d.Since = d.Until.Add(-over)
	d.ResumeP50, d.ResumeP99, d.ResumeMax = time.Duration(p50)*time.Microsecond, time.Duration(p99)*time.Microsecond, time.Duration(most)*time.Microsecond
	return d, nil
}
