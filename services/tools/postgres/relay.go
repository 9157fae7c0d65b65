package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
)

const owedSQL = `
SELECT message::text, announce_count FROM tools.announcements
 WHERE landed_at IS NULL AND next_announce_at <= clock_timestamp()
 ORDER BY next_announce_at, n LIMIT $1`

// announcedSQL waits 10 s for the receiver, then 20 s, doubling to 5 min.
const announcedSQL = `
UPDATE tools.announcements SET announced_at = coalesce(announced_at, clock_timestamp()), announce_count = announce_count + 1,
	next_announce_at = clock_timestamp() + least(interval '10 s' * 2 ^ least(announce_count, 5), interval '5 min')
 WHERE id = ANY ($1) AND landed_at IS NULL AND next_announce_at <= clock_timestamp()`

// landedSQL looks answers up in the runner's view, and calls that act again in
// our own rows.
const landedSQL = `
UPDATE tools.announcements a SET landed_at = clock_timestamp()
 WHERE a.landed_at IS NULL AND a.announced_at IS NOT NULL
   AND (EXISTS (SELECT 1 FROM runner.v_landed l WHERE l.run_id = a.run_id AND l.cause = a.id)
        OR (a.id = 'call:' || a.call_id AND NOT EXISTS (
              SELECT 1 FROM tools.calls c JOIN tools.effects e ON e.effect_id = c.effect_id
               WHERE c.call_id = a.call_id AND c.status = 'open' AND e.state = 'failed')))`

// NewRelay returns the relay of what operators' verdicts owe. publish waits
// until the stream has stored the message. Somebody must call Run; Kick says
// that there is something new.
func (s *Store) NewRelay(publish func(context.Context, events.Message) error) *pg.Relay {
	return &pg.Relay{Name: "tools", Load: s.owed, Mark: s.announced, Landed: s.landed, Publish: publish}
}

type owedRow struct {
	Message string
	Count   int
}

func (s *Store) owed(ctx context.Context, limit int) ([]events.Message, error) {
	found, err := collect[owedRow](s.pool.Query(ctx, owedSQL, limit))
	if err != nil {
		return nil, fmt.Errorf("load owed messages: %w", err)
	}
	out := make([]events.Message, 0, len(found))
	for _, r := range found {
		var m events.Message
		if err := json.Unmarshal([]byte(r.Message), &m); err != nil {
			return nil, fmt.Errorf("decode owed message: %w", err)
		}
		m.MsgID = pg.AnnounceID(m.MsgID, r.Count)
		out = append(out, m)
	}
	return out, nil
}

func (s *Store) announced(ctx context.Context, ids []string) error {
	_, err := s.pool.Exec(ctx, announcedSQL, ids)
	return err
}

func (s *Store) landed(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, landedSQL)
	return err
}
