package postgres

import (
	"context"
	"fmt"

	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

const owedSQL = `SELECT ` + columns + ` FROM approvals.requests
WHERE next_announce_at <= (SELECT clock_timestamp())
ORDER BY next_announce_at, approval_id LIMIT $1`

// announcedSQL waits 10 s for the runner, then 20 s, doubling to 5 min.
const announcedSQL = `
UPDATE approvals.requests SET
	announced_at = COALESCE(announced_at, clock_timestamp()), announce_count = announce_count + 1,
	next_announce_at = clock_timestamp() + LEAST(interval '5 min', interval '10 s' * power(2, LEAST(announce_count, 10)))
WHERE approval_id = ANY ($1) AND next_announce_at IS NOT NULL`

// landedSQL looks into the runner's view, so a decision is finished when the
// runner has committed it and not when the stream has stored it.
const landedSQL = `
UPDATE approvals.requests r SET landed_at = clock_timestamp(), next_announce_at = NULL
WHERE r.next_announce_at IS NOT NULL AND r.announced_at IS NOT NULL
	AND EXISTS (SELECT 1 FROM runner.v_landed l WHERE l.run_id = r.run_id AND l.cause = 'decision:' || r.approval_id)`

// Announcer publishes decisions: the relay of what was committed, and single
// messages for asks that come again.
type Announcer struct {
	*pg.Relay
	publish func(context.Context, events.Message) error
}

var _ approvals.Announcer = (*Announcer)(nil)

// NewAnnouncer returns an announcer that publishes with publish, which waits
// until the stream has stored the message. Somebody must call Run.
func (s *Store) NewAnnouncer(publish func(context.Context, events.Message) error) *Announcer {
	a := &Announcer{publish: publish}
	a.Relay = &pg.Relay{
		Name: "approvals", Load: s.owed, Mark: s.announced, Landed: s.landed,
		Publish: func(ctx context.Context, m events.Message) error {
			if err := publish(ctx, m); err != nil {
				return err
			}
			return failpoint.Hit("approvals.published", m.About)
		},
	}
	return a
}

// Publish implements approvals.Announcer.
func (a *Announcer) Publish(ctx context.Context, m events.Message) error { return a.publish(ctx, m) }

func (s *Store) owed(ctx context.Context, limit int) ([]events.Message, error) {
	found, err := many(s.pool.Query(ctx, owedSQL, limit))
	if err != nil {
		return nil, fmt.Errorf("load owed decisions: %w", err)
	}
	out := make([]events.Message, 0, len(found))
	for _, r := range found {
		out = append(out, approvals.Announcement(r, pg.AnnounceID(r.Cause(), r.AnnounceCount)))
	}
	return out, nil
}

func (s *Store) announced(ctx context.Context, causes []string) error {
	ids := make([]string, 0, len(causes))
	for _, c := range causes {
		ids = append(ids, string(approvals.DecisionOf(c)))
	}
	_, err := s.pool.Exec(ctx, announcedSQL, ids)
	return err
}

func (s *Store) landed(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, landedSQL)
	return err
}
