package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

// Each part is one line: what, a code, how many, since when. They read open rows
// only, over the indexes that are there for those, and open runs once for each view.
const checkup = `
WITH open AS MATERIALIZED (
SELECT run_id, status, updated_at, claim_worker, claim_at, CASE WHEN status = 'needs_attention' THEN coalesce(error->>'code', 'unknown') END AS code
  FROM runner.v_runs WHERE namespace = $1 AND ended_at IS NULL),
health AS MATERIALIZED (
SELECT status, paused_for, min_reader, updated_at FROM runner.v_health WHERE namespace = $1),
owed AS MATERIALIZED (
SELECT run_id, since FROM runner.v_pending WHERE namespace = $1 AND kind = 'model' AND pool IS NULL)
SELECT 'parked' AS what, code, count(*) AS n, min(updated_at) AS since
  FROM open WHERE status = 'needs_attention' GROUP BY 2
UNION ALL
SELECT 'paused', paused_for, count(*), min(updated_at)
  FROM health WHERE status = 'paused' GROUP BY 2
UNION ALL
SELECT 'orphans', '', count(*), min(r.claim_at)
  FROM open r
 WHERE r.claim_at < (SELECT clock_timestamp()) - interval '1 min'
   AND NOT EXISTS (SELECT FROM runner.v_workers w WHERE w.name = r.claim_worker AND w.beat >= (SELECT clock_timestamp()) - interval '10 s')
UNION ALL
SELECT 'newer', '', count(*), min(updated_at) FROM health WHERE min_reader > $2
UNION ALL
SELECT 'untaken', '', count(*), min(accepted_at)
  FROM trigger.v_deliveries WHERE namespace = $1 AND landed_at IS NULL AND accepted_at < (SELECT clock_timestamp()) - interval '1 min'
UNION ALL
-- grouped, not joined: a plan that takes either for a few rows would compare each with each
SELECT 'unasked', '', count(*), min(since) FROM (
	SELECT min(since) AS since FROM (
		SELECT run_id, since FROM owed WHERE since < (SELECT clock_timestamp()) - interval '1 min' UNION ALL
		SELECT run_id, NULL FROM open WHERE claim_worker IS NULL AND status NOT IN ('paused', 'needs_attention')) b
	 GROUP BY run_id HAVING count(since) > 0 AND count(*) > count(since)) u
UNION ALL
SELECT 'unlanded', '', count(*), min(created_at)
  FROM console.commands WHERE namespace = $1 AND landed_at IS NULL AND created_at < (SELECT clock_timestamp()) - interval '1 min'
UNION ALL
SELECT 'doubts', '', count(*), min(updated_at) FROM tools.v_effects WHERE namespace = $1 AND state = 'unknown' AND coalesce(in_doubt, '') <> 'probe'
UNION ALL
SELECT 'waiting', '', count(*), min(created_at) FROM approvals.v_requests WHERE namespace = $1 AND state = 'pending'
UNION ALL
SELECT 'notices', state, count(*), min(created_at)
  FROM approvals.v_notices WHERE namespace = $1 AND state IN ('failed', 'unknown') AND created_at > (SELECT clock_timestamp()) - interval '7 days' GROUP BY 2
UNION ALL
SELECT 'rejected', service || ' ' || code, count(*), min(at) FROM (
	SELECT 'runner' AS service, code, at FROM runner.v_rejected WHERE at > (SELECT clock_timestamp()) - interval '1 day' UNION ALL
	SELECT 'tools', code, at FROM tools.v_rejected WHERE at > (SELECT clock_timestamp()) - interval '1 day' UNION ALL
	SELECT 'approvals', code, at FROM approvals.v_rejected WHERE at > (SELECT clock_timestamp()) - interval '1 day' UNION ALL
	SELECT 'trigger', code, at FROM trigger.v_rejected WHERE at > (SELECT clock_timestamp()) - interval '1 day') rejected
 GROUP BY 2
ORDER BY 1, 3 DESC, 2
LIMIT 200`

// Checkup implements console.CheckupReader.
func (s *Store) Checkup(ctx context.Context, namespace string) (console.Checkup, error) {
	rows, err := s.pool.Query(ctx, checkup, namespace, events.Reader)
	if err != nil {
		return console.Checkup{}, fmt.Errorf("check up: %w", err)
	}
	var c console.Checkup
	var what, code string
	var n int64
	var since *time.Time
	_, err = pgx.ForEachRow(rows, []any{&what, &code, &n, &since}, func() error {
		t := console.Tally{Code: code, Count: n, Since: orZero(since)}
		switch what {
		case "parked":
			c.Parked = append(c.Parked, t)
		case "paused":
			c.Paused = append(c.Paused, t)
		case "notices":
			c.Notices = append(c.Notices, t)
		case "rejected":
			c.Rejected = append(c.Rejected, t)
		case "orphans":
			c.Orphans = t
		case "newer":
			c.NewerRuns = t
		case "untaken":
			c.Untaken = t
		case "unasked":
			c.Unasked = t
		case "unlanded":
			c.Unlanded = t
		case "doubts":
			c.Doubts = t
		case "waiting":
			c.Waiting = t
		}
		return nil
	})
	if err != nil {
		return console.Checkup{}, fmt.Errorf("check up: %w", err)
	}
	return c, nil
}
