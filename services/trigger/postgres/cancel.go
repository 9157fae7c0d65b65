package postgres

import (
	"context"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/trigger"
)

const owedCancels = `
SELECT run_id, namespace, schedule, reason, created_at, announce_count
FROM trigger.cancels
WHERE landed_at IS NULL AND next_announce_at <= clock_timestamp()
ORDER BY next_announce_at, run_id
LIMIT $1`

const cancelsAnnounced = `
UPDATE trigger.cancels
SET announced_at = coalesce(announced_at, clock_timestamp()),
    announce_count = announce_count + 1,
    next_announce_at = clock_timestamp() + least(interval '10 s' * 2 ^ least(announce_count, 5), interval '5 min')
WHERE run_id = ANY ($1) AND landed_at IS NULL`

// A cancel has landed when the runner has recorded it, and is no longer wanted
// when the run has ended by itself.
const cancelsLanded = `
UPDATE trigger.cancels c
SET landed_at = clock_timestamp()
WHERE c.landed_at IS NULL AND (
    EXISTS (SELECT FROM runner.v_landed l WHERE l.run_id = c.run_id AND l.cause = 'command:overlap-' || c.run_id)
    OR EXISTS (SELECT FROM runner.v_ends e WHERE e.run_id = c.run_id))`

// CancelRelay announces the cancels of runs that give way to a schedule's next
// one, through publish, until the runner has them.
func (s *Store) CancelRelay(publish func(context.Context, events.Message) error, log *slog.Logger) *pg.Relay {
	return &pg.Relay{
		Name: "trigger-cancels", Log: log, Publish: publish,
		Load: func(ctx context.Context, limit int) ([]events.Message, error) {
			rows, err := s.pool.Query(ctx, owedCancels, limit)
			if err != nil {
				return nil, err
			}
			return pgx.CollectRows(rows, func(row pgx.CollectableRow) (events.Message, error) {
				var c trigger.Cancel
				var count int
				if err := row.Scan(&c.RunID, &c.Namespace, &c.Schedule, &c.Reason, &c.At, &count); err != nil {
					return events.Message{}, err
				}
				m, err := trigger.CancelMessage(c)
				m.MsgID = pg.AnnounceID(m.ID, count)
				return m, err
			})
		},
		Mark: func(ctx context.Context, ids []string) error {
			runs := make([]string, len(ids))
			for i, id := range ids {
				runs[i] = strings.TrimPrefix(id, trigger.CancelCause(""))
			}
			_, err := s.pool.Exec(ctx, cancelsAnnounced, runs)
			return err
		},
		Landed: func(ctx context.Context) error {
			_, err := s.pool.Exec(ctx, cancelsLanded)
			return err
		},
	}
}
