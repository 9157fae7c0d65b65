package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

const insertNotice = `
INSERT INTO runner.notices (notice_id, namespace, channel, body) VALUES ($1, $2, $3, $4::text::json) ON CONFLICT DO NOTHING`

func insertNotices(ctx context.Context, tx pgx.Tx, notices []events.Notice) error {
	for _, n := range notices {
		if _, err := tx.Exec(ctx, insertNotice, string(n.NoticeID), n.Namespace, n.Channel, marshalText(n)); err != nil {
			return fmt.Errorf("notice %s: %w", n.NoticeID, err)
		}
	}
	return nil
}

// noticed makes the notice of the alert that the statement inserts, in the
// channel that is its parameter; none when the alert was there, or without one.
func noticed(insert, channel string) string {
	return `
WITH a AS (` + insert + `
    RETURNING alert_id, namespace)
INSERT INTO runner.notices (notice_id, namespace, channel, alert_id)
SELECT 'alert-' || left(alert_id, 40), namespace, ` + channel + `::text, alert_id FROM a WHERE ` + channel + `::text <> ''
ON CONFLICT DO NOTHING`
}

// createTelling makes a run and the notices that its first rows give reason to.
func (s *Store) createTelling(ctx context.Context, c runner.Commit, query string, args []any) (epoch int64, at time.Time, err error) {
	err = pg.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, query, args...).Scan(&epoch, &at); err != nil {
			return err
		}
		return insertNotices(ctx, tx, c.Notices)
	})
	return epoch, at, conflict(c.After.RunID, err)
}

const refOf = `SELECT namespace, kind, name, digest FROM runner.runs WHERE run_id = $1`

// RefOf implements runner.Store.
func (s *Store) RefOf(ctx context.Context, id events.RunID) (namespace string, ref events.Ref, err error) {
	err = s.pool.QueryRow(ctx, refOf, string(id)).Scan(&namespace, &ref.Kind, &ref.Name, &ref.Digest)
	if err != nil {
		err = fmt.Errorf("definition of run %s: %w", id, err)
	}
	return namespace, ref, err
}

const dueNotices = `
SELECT n.notice_id, n.namespace, n.channel, n.at, n.announce_count, n.body::text,
    a.alert_id, a.pool, a.window_start, a.percent, a.ceiling, a.used, a.unit, a.at, a.passed_by, r.kind, r.name
FROM runner.notices n
LEFT JOIN runner.alerts a USING (alert_id)
LEFT JOIN runner.runs r ON r.run_id = CASE WHEN a.pool LIKE 'run:%' THEN a.window_start WHEN a.pool LIKE 'flow-%' THEN substr(a.pool, 6, 36) END
WHERE n.next_announce_at <= (SELECT clock_timestamp())
ORDER BY n.next_announce_at, n.notice_id LIMIT $1`

// announcedNotices waits 10 s for approvals, then 20 s, doubling to 5 min.
const announcedNotices = `
UPDATE runner.notices SET
    announced_at = COALESCE(announced_at, clock_timestamp()), announce_count = announce_count + 1,
    next_announce_at = clock_timestamp() + LEAST(interval '5 min', interval '10 s' * power(2, LEAST(announce_count, 10)))
WHERE 'notify:' || notice_id = ANY ($1) AND next_announce_at IS NOT NULL`

const landedNotices = `
UPDATE runner.notices n SET landed_at = clock_timestamp(), next_announce_at = NULL
WHERE n.next_announce_at IS NOT NULL AND n.announced_at IS NOT NULL
    AND EXISTS (SELECT 1 FROM approvals.v_notices v WHERE v.notice_id = n.notice_id)`

// Notices returns the relay that gives notices to approvals until it has them.
func (s *Store) Notices(publish func(context.Context, events.Message) error, log *slog.Logger) *pg.Relay {
	return &pg.Relay{
		Name: "runner-notices", Load: s.dueNotices, Publish: publish, Log: log,
		Mark: func(ctx context.Context, ids []string) error {
			_, err := s.pool.Exec(ctx, announcedNotices, ids)
			return err
		},
		Landed: func(ctx context.Context) error { _, err := s.pool.Exec(ctx, landedNotices); return err },
	}
}

func (s *Store) dueNotices(ctx context.Context, limit int) ([]events.Message, error) {
	rows, err := s.pool.Query(ctx, dueNotices, limit)
	if err != nil {
		return nil, fmt.Errorf("due notices: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (events.Message, error) {
		var k runner.KeptNotice
		if err := row.Scan(&k.ID, &k.Namespace, &k.Channel, &k.At, &k.Announced, &k.Body,
			&k.AlertID, &k.Pool, &k.Window, &k.Percent, &k.Limit, &k.Used, &k.Unit, &k.AlertAt, &k.PassedBy, &k.Kind, &k.Name); err != nil {
			return events.Message{}, err
		}
		m, err := runner.NoticeMessage(k)
		m.MsgID = pg.AnnounceID(m.ID, k.Announced)
		return m, err
	})
}
