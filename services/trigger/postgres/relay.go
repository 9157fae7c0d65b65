package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/trigger"
)

var _ trigger.Relay = (*pg.Relay)(nil)

const markAnnounced = `
UPDATE trigger.announcements
SET announced_at = coalesce(announced_at, clock_timestamp()),
    announce_count = announce_count + 1,
    next_announce_at = clock_timestamp() + least(interval '10 s' * 2 ^ least(announce_count, 5), interval '5 min')
WHERE run_id = ANY ($1) AND landed_at IS NULL`

// A start has landed when the runner has committed it; NATS's word for it is not
// enough.
const markLanded = `
UPDATE trigger.announcements a
SET landed_at = clock_timestamp(), announced_at = coalesce(a.announced_at, clock_timestamp())
FROM runner.v_landed l
WHERE a.landed_at IS NULL AND l.run_id = a.run_id AND l.cause = 'start:' || a.run_id`

// Run ids are ordered by time.
const countBacklog = `
SELECT waiting, coalesce(extract(epoch FROM clock_timestamp() - (SELECT d.accepted_at FROM trigger.deliveries d WHERE d.run_id = oldest)), 0)::float8
FROM (
	SELECT count(*) AS waiting, min(run_id) AS oldest
	FROM trigger.announcements
	WHERE landed_at IS NULL AND next_announce_at < 'infinity') backlog`

// Backlog implements trigger.Store.
func (s *Store) Backlog(ctx context.Context) (waiting int64, oldest time.Duration, err error) {
	var seconds float64
	if err := s.pool.QueryRow(ctx, countBacklog).Scan(&waiting, &seconds); err != nil {
		return 0, 0, fmt.Errorf("count starts that no runner has: %w", err)
	}
	return waiting, time.Duration(seconds * float64(time.Second)), nil
}

// Publisher stores messages on the bus; bus.Bus is one.
type Publisher interface {
	Publish(ctx context.Context, m events.Message) error
	PublishAll(ctx context.Context, batch []events.Message) []error
}

// Relay announces deliveries on RUNS through to until the runner has them.
func (s *Store) Relay(to Publisher, log *slog.Logger) *pg.Relay {
	return &pg.Relay{
		Name:  "trigger",
		Log:   log,
		Limit: 256,
		Load:  s.load,
		Publish: func(ctx context.Context, m events.Message) error {
			return published(m, to.Publish(ctx, m))
		},
		PublishAll: func(ctx context.Context, batch []events.Message) []error {
			errs := to.PublishAll(ctx, batch)
			for i, m := range batch {
				errs[i] = published(m, errs[i])
			}
			return errs
		},
		Mark: func(ctx context.Context, ids []string) error {
			runs := make([]string, len(ids))
			for i, id := range ids {
				runs[i] = strings.TrimPrefix(id, trigger.StartCause(""))
			}
			if _, err := s.pool.Exec(ctx, markAnnounced, runs); err != nil {
				return fmt.Errorf("mark deliveries announced: %w", err)
			}
			return nil
		},
		Landed: func(ctx context.Context) error {
			if _, err := s.pool.Exec(ctx, markLanded); err != nil {
				return fmt.Errorf("mark deliveries landed: %w", err)
			}
			return nil
		},
	}
}

func published(m events.Message, err error) error {
	if err != nil {
		return err
	}
	return failpoint.Hit("trigger.published", m.About)
}
