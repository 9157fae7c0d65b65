package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

const (
	// listener is who would read the message.
	listener = `SELECT status, kind FROM (
    SELECT r.seq, r.status, r.kind FROM runner.v_runs r WHERE r.run_id = $1 AND r.namespace = $2 UNION ALL
    SELECT 0, 'queued', c.body->'ref'->>'kind' FROM ` + ordersOfForks + ` c WHERE c.run_id = $1 AND c.namespace = $2 AND c.kind = 'fork' UNION ALL
    SELECT 0, 'queued', d.ref_kind FROM ` + startsOfRuns + ` d WHERE d.run_id = $1 AND d.namespace = $2 UNION ALL
    SELECT 1, p.status, 'program' FROM console.programs p WHERE p.run_id = $1 AND p.namespace = $2) runs
ORDER BY seq DESC LIMIT 1`
	// unreadMessages are those that a runner has and no request had, and those that
	// no runner has; one statement, so that none is in between.
	unreadMessages = `
SELECT coalesce((SELECT v.messages_unread FROM runner.v_control v WHERE v.run_id = $1), 0) + (
    SELECT count(*) FROM console.commands c
     WHERE c.run_id = $1 AND c.place IS NOT NULL AND c.kind = '` + events.RunMessage + `' AND c.landed_at IS NULL
       AND NOT EXISTS (SELECT 1 FROM runner.v_landed l WHERE l.run_id = c.run_id AND l.cause = 'command:' || c.id))`
	lastMessage   = `SELECT id FROM console.commands WHERE run_id = $1 AND place IS NOT NULL AND kind = '` + events.RunMessage + `' ORDER BY place DESC LIMIT 1`
	insertMessage = `
INSERT INTO console.commands (id, namespace, run_id, kind, body, principal, idempotency_key, place)
VALUES ($1, $2, $3, $4, $5, $6, $7, ` + nextPlace + `)
ON CONFLICT (namespace, idempotency_key) DO NOTHING
RETURNING ` + commandColumns
	controlOfRun = `SELECT messages, messages_unread, deadline, priority, cache_read_tokens, cache_write_tokens FROM runner.v_control WHERE run_id = $1 AND namespace = $2`
	// newestMessages are read for runs that have some; their rows are few.
	newestMessages = `
SELECT seq, at, coalesce(data->>'principal', ''), left(coalesce(data->>'text', ''), $3)
  FROM runner.v_events WHERE run_id = $1 AND namespace = $2 AND kind = '` + events.FactMessage + `' ORDER BY seq DESC LIMIT $4`
)

// AddMessage implements console.MessageStore.
func (s *Store) AddMessage(ctx context.Context, c console.Command) (stored console.Command, replayed bool, err error) {
	if err := pg.CleanJSON(c.Body); err != nil {
		return console.Command{}, false, fmt.Errorf("message to run %s: %w", c.RunID, err)
	}
	err = pg.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if err := takeTurn(ctx, tx, string(c.RunID)); err != nil {
			return err
		}
		if stored, replayed, err = known(ctx, tx, c); err != nil || replayed {
			return err
		}
		if err := listens(ctx, tx, c); err != nil {
			return err
		}
		var last string
		if err := tx.QueryRow(ctx, lastMessage, string(c.RunID)).Scan(&last); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		placed, err := c.Behind(last)
		if err != nil {
			return err
		}
		find := func() (console.Command, bool, error) { return known(ctx, tx, c) } // the key may come with a command for another run
		stored, replayed, err = insertOrFind(ctx, tx, find, insertMessage, c.ID, c.Namespace, string(c.RunID), c.Kind, placed.Body, c.Principal, textOrNull(c.Key))
		return err
	})
	if err = s.orGone(ctx, c.Namespace, c.RunID, err); err != nil {
		return console.Command{}, false, fmt.Errorf("add message: %w", err)
	}
	return stored, replayed, nil
}

// listens reports why the run will not read c; nil when it will.
func listens(ctx context.Context, tx pgx.Tx, c console.Command) error {
	var status, kind string
	if err := tx.QueryRow(ctx, listener, string(c.RunID), c.Namespace).Scan(&status, &kind); err != nil {
		return notFound(err, "get run %s", c.RunID)
	}
	switch {
	case events.Ended(status):
		return fmt.Errorf("run %s is %s: %w", c.RunID, status, console.ErrEnded)
	case kind == console.KindProgram:
		return fmt.Errorf("run %s: %w", c.RunID, console.ErrProgram)
	case kind != events.KindAgent:
		return fmt.Errorf("run %s: %w", c.RunID, console.ErrNoModel)
	case status == events.StatusCancelling:
		return fmt.Errorf("run %s: %w", c.RunID, console.ErrCancelling)
	}
	var unread int
	if err := tx.QueryRow(ctx, unreadMessages, string(c.RunID)).Scan(&unread); err != nil {
		return err
	}
	if unread >= events.UnreadMessages {
		return fmt.Errorf("run %s has %d unread messages: %w", c.RunID, unread, console.ErrUnread)
	}
	return nil
}

// queueControl reads how a run is steered from outside; messages reads the rest.
func queueControl(b *pgx.Batch, namespace string, id events.RunID, r *console.Run) {
	b.Queue(controlOfRun, string(id), namespace).QueryRow(func(row pgx.Row) error {
		var deadline *time.Time
		err := row.Scan(&r.Messages.All, &r.Messages.Unread, &deadline, &r.Priority, &r.CacheReadTokens, &r.CacheWriteTokens)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		r.Deadline = orZero(deadline)
		return err
	})
}

func (s *Store) control(ctx context.Context, r *console.Run) error {
	b := &pgx.Batch{}
	queueControl(b, r.Namespace, r.ID, r)
	if err := s.keyed.Send(ctx, b); err != nil {
		return fmt.Errorf("read control of run %s: %w", r.ID, err)
	}
	return s.messages(ctx, r)
}

// messages adds the newest of what was said to a run, if something was.
func (s *Store) messages(ctx context.Context, r *console.Run) error {
	m := &r.Messages
	if m.All == 0 {
		return nil
	}
	rows, err := s.pool.Query(ctx, newestMessages, string(r.ID), r.Namespace, console.MessageShown, console.MaxRunMessages)
	if err == nil {
		m.Newest, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (n console.Message, err error) {
			err = row.Scan(&n.Seq, &n.At, &n.Principal, &n.Text)
			n.At = n.At.UTC()
			return n, err
		})
	}
	if err != nil {
		return fmt.Errorf("list messages of run %s: %w", r.ID, err)
	}
	for i := range m.Newest {
		m.Newest[i].Read = i >= m.Unread
	}
	return nil
}
