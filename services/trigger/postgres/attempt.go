package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/services/trigger"
)

const attemptInto = `INSERT INTO trigger.attempts (attempt_id, namespace, webhook, digest, outcome, reason, detail, count, status, received_at, took_us,
	remote, content_type, headers, query, body_bytes, body_digest, body, event_id, dedupe_key, run_id, delivery_id, replay_of, principal)`

const insertAttempt = attemptInto + `
VALUES ($1::text::uuid, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11,
	$12, $13, $14, $15, $16, $17, $18, $19, $20, nullif($21, ''), nullif($22, '')::uuid, nullif($23, '')::uuid, $24)
ON CONFLICT (namespace, attempt_id) DO NOTHING`

// insertLogged is insertDelivery, and when that inserts, the entry of the
// delivery's request.
const insertLogged = `
WITH delivery AS (` + insertInto + `),
announcement AS (` + announce + `),
attempt AS (` + attemptInto + `
SELECT $19::text::uuid, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29,
	$30, $31, $32, $33, $34, $35, $36, $37, $38, nullif($39, ''), nullif($40, '')::uuid, nullif($41, '')::uuid, $42
FROM delivery
ON CONFLICT (namespace, attempt_id) DO NOTHING)
SELECT accepted_at FROM delivery`

func attemptArgs(a *trigger.Attempt) []any {
	return []any{string(a.ID), a.Namespace, a.Webhook, string(a.Version), a.Outcome, a.Reason, a.Detail, max(a.Count, 1), a.Status,
		a.ReceivedAt, a.Took.Microseconds(), a.Remote, a.ContentType, object(a.Header), object(a.Query), a.BodyBytes, string(a.BodyDigest), a.Body,
		a.EventID, a.Key, string(a.RunID), string(a.DeliveryID), string(a.ReplayOf), a.Principal}
}

func object(m map[string][]string) map[string][]string {
	if m == nil {
		return map[string][]string{}
	}
	return m
}

// KeepAttempt implements trigger.Attempts.
func (s *Store) KeepAttempt(ctx context.Context, a *trigger.Attempt) error {
	if _, err := s.pool.Exec(ctx, insertAttempt, attemptArgs(a)...); err != nil {
		return fmt.Errorf("insert attempt: %w", err)
	}
	return nil
}

const attemptColumns = `attempt_id::text, namespace, webhook, digest, outcome, reason, detail, count, status, received_at, took_us,
	remote, content_type, headers, query, body_bytes, body_digest, event_id, dedupe_key,
	coalesce(run_id, ''), coalesce(delivery_id::text, ''), coalesce(replay_of::text, ''), principal`

func attemptFields(a *trigger.Attempt, us *int64) []any {
	return []any{&a.ID, &a.Namespace, &a.Webhook, &a.Version, &a.Outcome, &a.Reason, &a.Detail, &a.Count, &a.Status, &a.ReceivedAt, us,
		&a.Remote, &a.ContentType, &a.Header, &a.Query, &a.BodyBytes, &a.BodyDigest, &a.EventID, &a.Key,
		&a.RunID, &a.DeliveryID, &a.ReplayOf, &a.Principal}
}

func scanAttempt(row pgx.CollectableRow) (trigger.Attempt, error) {
	var a trigger.Attempt
	var us int64
	err := row.Scan(attemptFields(&a, &us)...)
	a.Took = time.Duration(us) * time.Microsecond
	return a, err
}

func scanAttemptAndBody(row pgx.CollectableRow) (trigger.Attempt, error) {
	var a trigger.Attempt
	var us int64
	err := row.Scan(append(attemptFields(&a, &us), &a.Body)...)
	a.Took = time.Duration(us) * time.Microsecond
	return a, err
}

const attemptByID = `
SELECT ` + attemptColumns + `, body
FROM trigger.attempts
WHERE namespace = $1 AND attempt_id = $2::text::uuid`

// Attempt implements trigger.Attempts.
func (s *Store) Attempt(ctx context.Context, namespace string, id trigger.DeliveryID) (trigger.Attempt, error) {
	rows, err := s.pool.Query(ctx, attemptByID, namespace, string(id))
	if err != nil {
		return trigger.Attempt{}, err
	}
	a, err := pgx.CollectExactlyOneRow(rows, scanAttemptAndBody)
	if errors.Is(err, pgx.ErrNoRows) {
		return trigger.Attempt{}, trigger.ErrNotFound
	}
	return a, err
}

const replayable = `
SELECT ` + attemptColumns + `
FROM trigger.attempts
WHERE namespace = $1 AND webhook = $2 AND outcome = $3 AND received_at >= $4 AND received_at < $5 AND replay_of IS NULL AND count = 1
	AND ($6 = '' OR attempt_id > nullif($6, '')::uuid)
ORDER BY attempts.attempt_id
LIMIT $7`

// ReplayableAttempts implements trigger.Attempts.
func (s *Store) ReplayableAttempts(ctx context.Context, namespace string, f trigger.ReplayFilter, limit int) ([]trigger.Attempt, error) {
	rows, err := s.pool.Query(ctx, replayable, namespace, f.Webhook, f.Outcome, f.From, f.To, string(f.After), limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanAttempt)
}

// Replicas sweep at the same time; each takes other rows.
const sweepAttempts = `
DELETE FROM trigger.attempts
WHERE (namespace, attempt_id) IN (
	SELECT namespace, attempt_id FROM trigger.attempts
	WHERE received_at < (SELECT clock_timestamp()) - $1::interval
	LIMIT $2
	FOR UPDATE SKIP LOCKED)`

// SweepAttempts implements trigger.Attempts.
func (s *Store) SweepAttempts(ctx context.Context, age time.Duration, limit int) (int, error) {
	tag, err := s.pool.Exec(ctx, sweepAttempts, age, limit)
	if err != nil {
		return 0, fmt.Errorf("sweep attempts: %w", err)
	}
	return int(tag.RowsAffected()), nil
}

// What is sorted is the column, which has an index, and not its text in the list.
const listAttempts = `
SELECT ` + attemptColumns + `
FROM trigger.attempts
WHERE namespace = $1 AND ($2 = '' OR webhook = $2) AND ($3 = '' OR outcome = $3) AND received_at >= $4 AND ($7::timestamptz IS NULL OR received_at < $7)
	AND ($5 = '' OR attempt_id < nullif($5, '')::uuid)
ORDER BY attempts.attempt_id DESC
LIMIT $6`

// Starts that no webhook made, and those of webhooks whose entry was swept: the sweep
// takes the oldest entries, so these are before the first that is left. Held ones were
// accepted in the end.
const listUnlogged = `
SELECT ` + deliveryHeadColumns + fromDeliveries + `
WHERE namespace = $1 AND ($2 = '' OR source_kind = 'webhook' AND source_name = $2) AND $3 IN ('', 'accepted') AND accepted_at >= $4 AND ($7::timestamptz IS NULL OR accepted_at < $7)
	AND ($5 = '' OR delivery_id < nullif($5, '')::uuid)
	AND (source_kind <> 'webhook' OR delivery_id < coalesce((SELECT a.attempt_id FROM trigger.attempts a WHERE a.namespace = $1 ORDER BY a.attempt_id LIMIT 1), 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
ORDER BY d.delivery_id DESC
LIMIT $6`

const deliveriesByID = `
SELECT ` + deliveryHeadColumns + fromDeliveries + `
WHERE namespace = $1 AND delivery_id = ANY ($2::text[]::uuid[])
ORDER BY d.delivery_id
LIMIT 1000`

// Entries implements trigger.Attempts.
func (s *Store) Entries(ctx context.Context, namespace string, f trigger.EntryFilter, before trigger.DeliveryID, limit int) ([]trigger.Entry, error) {
	var until *time.Time
	if !f.Until.IsZero() {
		until = &f.Until
	}
	args := []any{namespace, f.Webhook, f.Outcome, f.Since, string(before), limit, until}
	rows, err := s.pool.Query(ctx, listAttempts, args...)
	if err != nil {
		return nil, err
	}
	attempts, err := pgx.CollectRows(rows, scanAttempt)
	if err != nil {
		return nil, fmt.Errorf("list attempts: %w", err)
	}
	var bare []trigger.Delivery
	if f.Webhook == "" || len(attempts) < limit { // what was swept is before all that is left
		if rows, err = s.pool.Query(ctx, listUnlogged, args...); err != nil {
			return nil, err
		}
		if bare, err = pgx.CollectRows(rows, scanDelivery); err != nil {
			return nil, fmt.Errorf("list deliveries: %w", err)
		}
	}
	var entries []trigger.Entry
	for _, a := range attempts {
		entries = append(entries, trigger.Entry{ID: a.ID, Attempt: &a})
	}
	for _, d := range bare {
		entries = append(entries, trigger.Entry{ID: d.ID, Delivery: &d})
	}
	slices.SortFunc(entries, func(a, b trigger.Entry) int { return cmp.Compare(b.ID, a.ID) })
	entries = entries[:min(limit, len(entries))]
	return entries, s.addDeliveries(ctx, namespace, entries)
}

// addDeliveries adds the other side of accepted requests.
func (s *Store) addDeliveries(ctx context.Context, namespace string, entries []trigger.Entry) error {
	at := map[trigger.DeliveryID]int{}
	var ids []string
	for i, e := range entries {
		if e.Attempt != nil && e.Attempt.DeliveryID == e.ID {
			at[e.ID] = i
			ids = append(ids, string(e.ID))
		}
	}
	if ids == nil {
		return nil
	}
	rows, err := s.pool.Query(ctx, deliveriesByID, namespace, ids)
	if err != nil {
		return err
	}
	list, err := pgx.CollectRows(rows, scanDelivery)
	if err != nil {
		return fmt.Errorf("read deliveries: %w", err)
	}
	for _, d := range list {
		entries[at[d.ID]].Delivery = &d
	}
	return nil
}
