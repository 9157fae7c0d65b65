package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

const owedCommands = `
SELECT ` + commandColumns + ` FROM console.commands
 WHERE landed_at IS NULL AND next_announce_at <= (SELECT clock_timestamp())
 ORDER BY next_announce_at, id LIMIT $1`

// announcedCommands waits 10 s for the runner, then 20 s, doubling to 5 min.
const announcedCommands = `
UPDATE console.commands
   SET announced_at = coalesce(announced_at, clock_timestamp()),
       announce_count = announce_count + 1,
       next_announce_at = clock_timestamp() + least(interval '10 s' * power(2, least(announce_count, 5)), interval '5 min')
 WHERE id = ANY ($1) AND landed_at IS NULL`

// landedCommands looks into the runner's view: a command is finished when the
// runner has committed it and not when the stream has stored it.
const landedCommands = `
UPDATE console.commands c
   SET landed_at = clock_timestamp()
  FROM runner.v_landed l
 WHERE c.landed_at IS NULL AND c.announced_at IS NOT NULL AND l.run_id = c.run_id
   AND l.cause = CASE c.kind WHEN 'signal' THEN 'signal:' ELSE 'command:' END || c.id`

// NewRelay returns the relay of commands. publish returns when the stream has
// stored the message. Somebody must call Run.
func (s *Store) NewRelay(publish func(context.Context, events.Message) error, log *slog.Logger) *pg.Relay {
	return &pg.Relay{
		Name: "console", Load: s.owed, Mark: s.announced, Landed: s.landed, Log: log,
		Publish: func(ctx context.Context, m events.Message) error {
			if err := publish(ctx, m); err != nil {
				return err
			}
			return failpoint.Hit("console.published", m.About)
		},
	}
}

func (s *Store) owed(ctx context.Context, limit int) ([]events.Message, error) {
	rows, err := s.pool.Query(ctx, owedCommands, limit)
	if err != nil {
		return nil, fmt.Errorf("load owed commands: %w", err)
	}
	commands, err := pgx.CollectRows(rows, scanCommand)
	if err != nil {
		return nil, fmt.Errorf("load owed commands: %w", err)
	}
	out := make([]events.Message, 0, len(commands))
	for _, c := range commands {
		out = append(out, console.Announcement(c, pg.AnnounceID(c.Cause(), c.AnnounceCount)))
	}
	return out, nil
}

func (s *Store) announced(ctx context.Context, causes []string) error {
	ids := make([]string, 0, len(causes))
	for _, cause := range causes {
		_, id, _ := strings.Cut(cause, ":")
		ids = append(ids, id)
	}
	_, err := s.pool.Exec(ctx, announcedCommands, ids)
	return err
}

func (s *Store) landed(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, landedCommands)
	return err
}
