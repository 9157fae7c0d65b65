package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/trigger"
)

const insertSignal = `
INSERT INTO trigger.signals (signal_id, namespace, name, key, data, source_kind, source_name, dedupe_key, request_digest, principal, traceparent, held, expires_at)
VALUES ($1::text::uuid, $2, $3, $4, $5, $6, $7, nullif($8, ''), $9, $10, $11, $12, clock_timestamp() + $13::interval)
ON CONFLICT DO NOTHING
RETURNING received_at, expires_at`

// insertSignalLogged is insertSignal, and when that inserts, the entry of the
// signal's request.
const insertSignalLogged = `
WITH signal AS (` + insertSignal + `),
attempt AS (` + attemptInto + `
SELECT $14::text::uuid, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24,
	$25, $26, $27, $28, $29, $30, $31, $32, $33, nullif($34, ''), nullif($35, '')::uuid, nullif($36, '')::uuid, $37
FROM signal
ON CONFLICT (namespace, attempt_id) DO NOTHING)
SELECT received_at, expires_at FROM signal`

// signalColumns leave out the data.
const signalColumns = `signal_id::text, namespace, name, key, source_kind, source_name, coalesce(dedupe_key, ''), request_digest, principal, traceparent,
	held, state, coalesce(run_id, ''), coalesce(item, ''), tries, late, received_at, expires_at, taken_at`

func scanSignal(row pgx.CollectableRow) (trigger.Signal, error) {
	var x trigger.Signal
	err := scanSignalAnd(row, &x)
	return x, err
}

func scanSignalAnd(row pgx.CollectableRow, x *trigger.Signal, more ...any) error {
	var item string
	err := row.Scan(append([]any{&x.ID, &x.Namespace, &x.Name, &x.Key, &x.Source.Kind, &x.Source.Name, &x.Dedupe, &x.Digest, &x.Principal, &x.TraceParent,
		&x.Held, &x.State, &x.RunID, &item, &x.Tries, &x.Late, &x.ReceivedAt, &x.ExpiresAt, &x.TakenAt}, more...)...)
	x.CallID = events.CallID(strings.TrimPrefix(item, "signal/"))
	return err
}

const findSignalConflict = `
SELECT ` + signalColumns + `
FROM trigger.signals
WHERE signal_id = $1::text::uuid OR (namespace = $2 AND source_kind = $3 AND source_name = $4 AND dedupe_key = nullif($5, ''))
ORDER BY received_at
LIMIT 1`

// InsertSignal implements trigger.Signals. It rides out a short absence of
// Postgres: repeating it is harmless.
func (s *Store) InsertSignal(ctx context.Context, x trigger.Signal) (stored trigger.Signal, inserted bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, insertPatience)
	defer cancel()
	err = pg.Retry(ctx, func(ctx context.Context) error {
		stored, inserted, err = s.insertSignal(ctx, x)
		return err
	})
	if err != nil {
		return trigger.Signal{}, false, fmt.Errorf("insert signal: %w", err)
	}
	return stored, inserted, nil
}

func (s *Store) insertSignal(ctx context.Context, x trigger.Signal) (trigger.Signal, bool, error) {
	query := insertSignal
	args := []any{string(x.ID), x.Namespace, x.Name, x.Key, x.Data, x.Source.Kind, x.Source.Name, x.Dedupe, string(x.Digest), x.Principal, x.TraceParent, x.Held, x.KeepFor}
	if x.Attempt != nil {
		query, args = insertSignalLogged, append(args, attemptArgs(x.Attempt)...)
	}
	err := s.pool.QueryRow(ctx, query, args...).Scan(&x.ReceivedAt, &x.ExpiresAt)
	if err == nil {
		x.State = trigger.SignalKept
		return x, true, nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return trigger.Signal{}, false, err
	}
	found, err := s.oneSignal(ctx, findSignalConflict, string(x.ID), x.Namespace, x.Source.Kind, x.Source.Name, x.Dedupe)
	if err != nil {
		return trigger.Signal{}, false, fmt.Errorf("find the signal that is there already: %w", err)
	}
	return found, found.ID == x.ID, nil
}

const findSignal = `
SELECT ` + signalColumns + `
FROM trigger.signals
WHERE namespace = $1 AND source_kind = $2 AND source_name = $3 AND dedupe_key = $4`

// FindSignal implements trigger.Signals.
func (s *Store) FindSignal(ctx context.Context, namespace string, src trigger.Source, dedupe string) (trigger.Signal, error) {
	return s.oneSignal(ctx, findSignal, namespace, src.Kind, src.Name, dedupe)
}

func (s *Store) oneSignal(ctx context.Context, query string, args ...any) (trigger.Signal, error) {
	rows, err := s.pool.Query(ctx, query, args...)
	if err != nil {
		return trigger.Signal{}, err
	}
	x, err := pgx.CollectExactlyOneRow(rows, scanSignal)
	if errors.Is(err, pgx.ErrNoRows) {
		return trigger.Signal{}, trigger.ErrNotFound
	}
	return x, err
}

// Replicas sweep at the same time; each takes other rows.
const sweepSignals = `
DELETE FROM trigger.signals
WHERE signal_id IN (
	SELECT signal_id FROM trigger.signals
	WHERE state IN ('taken', 'expired') AND coalesce(taken_at, expires_at) < clock_timestamp() - $1::interval
	LIMIT $2
	FOR UPDATE SKIP LOCKED)`

// SweepSignals implements trigger.Signals.
func (s *Store) SweepSignals(ctx context.Context, age time.Duration, limit int) (int, error) {
	tag, err := s.pool.Exec(ctx, sweepSignals, age, limit)
	if err != nil {
		return 0, fmt.Errorf("sweep signals: %w", err)
	}
	return int(tag.RowsAffected()), nil
}

const listSignals = `
SELECT ` + signalColumns + `
FROM trigger.signals
WHERE namespace = $1 AND ($2 = '' OR state = $2) AND ($3 = '' OR name = $3) AND ($4 = '' OR key = $4)
	AND ($5 = '' OR signal_id < nullif($5, '')::uuid)
ORDER BY signals.signal_id DESC
LIMIT $6`

// ListSignals implements trigger.Signals.
func (s *Store) ListSignals(ctx context.Context, namespace string, f trigger.SignalFilter, before trigger.DeliveryID, limit int) ([]trigger.Signal, error) {
	rows, err := s.pool.Query(ctx, listSignals, namespace, f.State, f.Name, f.Key, string(before), limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanSignal)
}

// The oldest kept signal of a name and key goes to the wait that is open longest,
// the next one to the next, and a wait that one is on its way to gets no other.
// Replicas share the rows; the unique index decides when they mean the same wait.
const assignSignals = `
WITH open AS (
	SELECT w.namespace, w.name, w.key, w.run_id, w.item,
		row_number() OVER (PARTITION BY w.namespace, w.name, w.key ORDER BY w.since, w.run_id, w.item) AS n
	FROM runner.v_waits w
	WHERE EXISTS (SELECT FROM trigger.signals k
			WHERE k.state = 'kept' AND NOT k.held AND k.expires_at > clock_timestamp() AND (k.namespace, k.name, k.key) = (w.namespace, w.name, w.key))
		AND NOT EXISTS (SELECT FROM trigger.signals s WHERE s.state = 'sent' AND (s.run_id, s.item) = (w.run_id, w.item))
	ORDER BY w.since
	LIMIT 1000),
kept AS (
	SELECT k.signal_id, k.namespace, k.name, k.key
	FROM trigger.signals k
	WHERE k.state = 'kept' AND NOT k.held AND k.expires_at > clock_timestamp()
		AND (k.namespace, k.name, k.key) IN (SELECT namespace, name, key FROM open)
	ORDER BY k.signal_id
	LIMIT 1000
	FOR UPDATE SKIP LOCKED),
ranked AS (SELECT *, row_number() OVER (PARTITION BY namespace, name, key ORDER BY signal_id) AS n FROM kept)
UPDATE trigger.signals s
SET state = 'sent', run_id = o.run_id, item = o.item, tries = s.tries + 1,
	announced_at = NULL, announce_count = 0, next_announce_at = clock_timestamp()
FROM ranked r JOIN open o USING (namespace, name, key, n)
WHERE s.signal_id = r.signal_id`

const owedSignals = `
SELECT ` + signalColumns + `, data, announce_count
FROM trigger.signals
WHERE state = 'sent' AND next_announce_at <= clock_timestamp()
ORDER BY next_announce_at
LIMIT $1`

const signalsAnnounced = `
UPDATE trigger.signals
SET announced_at = coalesce(announced_at, clock_timestamp()),
	announce_count = announce_count + 1,
	next_announce_at = clock_timestamp() + least(interval '10 s' * 2 ^ least(announce_count, 5), interval '5 min')
WHERE state = 'sent' AND 'signal:' || signal_id::text || '-' || tries = ANY ($1)`

// A run has recorded the signal: it is taken, or the wait had ended and the
// signal is free for another.
const signalsLanded = `
UPDATE trigger.signals s
SET state = CASE WHEN v.taken THEN 'taken' ELSE 'kept' END,
	taken_at = CASE WHEN v.taken THEN clock_timestamp() END,
	late = s.late + CASE WHEN v.taken THEN 0 ELSE 1 END,
	run_id = CASE WHEN v.taken THEN s.run_id END,
	item = CASE WHEN v.taken THEN s.item END
FROM runner.v_signals v
WHERE s.state = 'sent' AND v.run_id = s.run_id AND v.cause = 'signal:' || s.signal_id::text || '-' || s.tries`

const expireSignals = `UPDATE trigger.signals SET state = 'expired' WHERE state = 'kept' AND NOT held AND expires_at <= clock_timestamp()`

// SignalRelay gives kept signals to runs that wait, announces them on RUNS
// through publish until the runner has them, and takes back those that came late.
func (s *Store) SignalRelay(publish func(context.Context, events.Message) error, log *slog.Logger) *pg.Relay {
	return &pg.Relay{
		Name: "trigger-signals",
		Log:  log,
		Load: s.loadSignals,
		Publish: func(ctx context.Context, m events.Message) error {
			if err := publish(ctx, m); err != nil {
				return err
			}
			return failpoint.Hit("trigger.signal_published", m.ID)
		},
		Mark: func(ctx context.Context, ids []string) error {
			_, err := s.pool.Exec(ctx, signalsAnnounced, ids)
			return err
		},
		Landed: func(ctx context.Context) error {
			for _, query := range []string{signalsLanded, expireSignals} {
				if _, err := s.pool.Exec(ctx, query); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func (s *Store) loadSignals(ctx context.Context, limit int) ([]events.Message, error) {
	_, err := s.pool.Exec(ctx, assignSignals)
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && pgErr.Code == "23505" {
		err = nil // another replica gave that wait a signal; the next sweep sees it
	}
	if err != nil {
		return nil, fmt.Errorf("give signals to waits: %w", err)
	}
	rows, err := s.pool.Query(ctx, owedSignals, limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (events.Message, error) {
		var x trigger.Signal
		var count int
		if err := scanSignalAnd(row, &x, &x.Data, &count); err != nil {
			return events.Message{}, err
		}
		m, err := trigger.SignalMessage(x)
		m.MsgID = pg.AnnounceID(m.ID, count)
		return m, err
	})
}
