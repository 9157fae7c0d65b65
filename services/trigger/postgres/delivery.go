package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/services/trigger"
)

// insertPatience is how long an insert is tried while Postgres comes back. The
// sender waits; afterwards it is told to try again. Large inputs have more time.
const insertPatience = 2 * time.Second

// Store implements trigger.Store. It is safe for concurrent use.
type Store struct {
	pool    *pgxpool.Pool
	group   *pg.Group[trigger.Delivery, outcome]
	metrics *trigger.Metrics  // nil: nothing is counted
	often   pgx.QueryExecMode // of the statements that store a delivery
}

var _ trigger.Store = (*Store)(nil)

// New returns a store on a pool of the role holdfast_trigger.
func New(pool *pgxpool.Pool) *Store {
	s := &Store{pool: pool, often: pg.Prepared(pool)}
	s.group = newGroup(s)
	return s
}

// Measure makes the store count into m from now on; call it before use.
func (s *Store) Measure(m *trigger.Metrics) *Store {
	s.metrics = m
	return s
}

const deliveryColumns = `delivery_id::text, namespace, source_kind, source_name, coalesce(dedupe_key, ''), request_digest,
	run_id, ref_kind, ref_name, ref_digest, input::text, labels, principal, traceparent, held, accepted_at, announced_at, landed_at`

// fromDeliveries joins what the relay knows of each.
const fromDeliveries = `
FROM trigger.deliveries d
JOIN trigger.announcements USING (run_id)`

// deliveryHeadColumns are deliveryColumns without the input, for lists.
const deliveryHeadColumns = `delivery_id::text, namespace, source_kind, source_name, coalesce(dedupe_key, ''), request_digest,
	run_id, ref_kind, ref_name, ref_digest, 'null', labels, principal, traceparent, held, accepted_at, announced_at, landed_at`

func scanDelivery(row pgx.CollectableRow) (trigger.Delivery, error) {
	var d trigger.Delivery
	err := scanDeliveryAfter(row, &d)
	return d, err
}

// scanDeliveryAfter reads deliveryColumns that follow other columns.
func scanDeliveryAfter(row pgx.CollectableRow, d *trigger.Delivery, before ...any) error {
	var input string
	err := row.Scan(append(before, &d.ID, &d.Namespace, &d.Source.Kind, &d.Source.Name, &d.Key, &d.Digest,
		&d.RunID, &d.Ref.Kind, &d.Ref.Name, &d.Ref.Digest, &input, &d.Labels, &d.Principal, &d.TraceParent, &d.Held,
		&d.AcceptedAt, &d.AnnouncedAt, &d.LandedAt)...)
	d.Input = json.RawMessage(input)
	return err
}

// The conflict names no constraint: a repeat meets the unique key of its source,
// and an insert whose reply was lost meets its own primary key.
const insertInto = `
INSERT INTO trigger.deliveries (delivery_id, namespace, source_kind, source_name, dedupe_key, request_digest, run_id,
	ref_kind, ref_name, ref_digest, input, labels, principal, traceparent, held, callback, deadline, priority)
VALUES ($1::text::uuid, $2, $3, $4, nullif($5, ''), $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)
ON CONFLICT DO NOTHING
RETURNING run_id, held, accepted_at, octet_length(input::text) AS bytes`

// announce makes what a statement's delivery inserted a debt of the relay's. Who
// inserted it announces it from memory at once, and other replicas leave it alone
// that long; what is too large for that (events.MaxInline) is due now.
const announce = `
	INSERT INTO trigger.announcements (run_id, next_announce_at)
	SELECT run_id, CASE WHEN held THEN 'infinity' WHEN bytes > 65536 THEN clock_timestamp() ELSE clock_timestamp() + interval '2 s' END FROM delivery`

const insertDelivery = `
WITH delivery AS (` + insertInto + `),
announcement AS (` + announce + `)
SELECT accepted_at FROM delivery`

func insertArgs(d trigger.Delivery) []any {
	return []any{string(d.ID), d.Namespace, d.Source.Kind, d.Source.Name, d.Key, string(d.Digest), string(d.RunID),
		d.Ref.Kind, d.Ref.Name, string(d.Ref.Digest), d.Input, orEmpty(d.Labels), d.Principal, d.TraceParent, d.Held, d.Callback, d.Deadline, d.Priority}
}

func orEmpty(labels map[string]string) map[string]string {
	if labels == nil {
		return map[string]string{}
	}
	return labels
}

// A concurrent insert under the same key is committed by the time ours found the
// conflict, so this statement's own snapshot sees it.
const findConflict = `
SELECT ` + deliveryColumns + fromDeliveries + `
WHERE namespace = $2 AND (delivery_id = $1::text::uuid OR source_kind = $3 AND source_name = $4 AND dedupe_key = nullif($5, ''))
ORDER BY accepted_at
LIMIT 1`

// Insert implements trigger.Store. It rides out a short absence of Postgres:
// repeating it is harmless. Concurrent inserts share a statement.
func (s *Store) Insert(ctx context.Context, d trigger.Delivery) (stored trigger.Delivery, inserted bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, insertPatience+time.Duration(len(d.Input)>>22)*time.Second)
	defer cancel()
	var o outcome
	if deliveryBytes(d) > aloneFrom {
		err = pg.Retry(ctx, func(ctx context.Context) error {
			o, err = s.insertAlone(ctx, d)
			return err
		})
	} else {
		o, err = s.group.Do(ctx, d)
	}
	if err := cmp.Or(err, o.err); err != nil {
		return trigger.Delivery{}, false, fmt.Errorf("insert delivery: %w", err)
	}
	return o.stored, o.inserted, nil
}

func (s *Store) insertOne(ctx context.Context, d trigger.Delivery) (trigger.Delivery, bool, error) {
	query, args := insertDelivery, insertArgs(d)
	if d.Attempt != nil {
		query, args = insertLogged, append(args, attemptArgs(d.Attempt)...)
	}
	err := s.pool.QueryRow(ctx, query, append([]any{s.often}, args...)...).Scan(&d.AcceptedAt)
	if err == nil {
		return d, true, nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return trigger.Delivery{}, false, err
	}
	rows, err := s.pool.Query(ctx, findConflict, string(d.ID), d.Namespace, d.Source.Kind, d.Source.Name, d.Key)
	if err != nil {
		return trigger.Delivery{}, false, err
	}
	found, err := pgx.CollectExactlyOneRow(rows, scanDelivery)
	if err != nil {
		return trigger.Delivery{}, false, fmt.Errorf("find the delivery that is there already: %w", err)
	}
	return again(found, d), found.ID == d.ID, nil
}

// again is a delivery that was found under its own id, because the reply to its
// insert was lost: with what a search does not read and its announcement says.
func again(found, d trigger.Delivery) trigger.Delivery {
	if found.ID == d.ID {
		found.Callback, found.Deadline, found.Priority = d.Callback, d.Deadline, d.Priority
	}
	return found
}

const findDelivery = `
SELECT ` + deliveryColumns + fromDeliveries + `
WHERE namespace = $1 AND source_kind = $2 AND source_name = $3 AND dedupe_key = $4`

// Find implements trigger.Store.
func (s *Store) Find(ctx context.Context, namespace string, src trigger.Source, key string) (trigger.Delivery, error) {
	return s.one(ctx, findDelivery, namespace, src.Kind, src.Name, key)
}

const deliveryByID = `
SELECT ` + deliveryColumns + fromDeliveries + `
WHERE namespace = $1 AND delivery_id = $2::text::uuid`

// Delivery implements trigger.Store.
func (s *Store) Delivery(ctx context.Context, namespace string, id trigger.DeliveryID) (trigger.Delivery, error) {
	return s.one(ctx, deliveryByID, namespace, string(id))
}

func (s *Store) one(ctx context.Context, query string, args ...any) (trigger.Delivery, error) {
	rows, err := s.pool.Query(ctx, query, args...)
	if err != nil {
		return trigger.Delivery{}, err
	}
	d, err := pgx.CollectExactlyOneRow(rows, scanDelivery)
	if errors.Is(err, pgx.ErrNoRows) {
		return trigger.Delivery{}, trigger.ErrNotFound
	}
	return d, err
}

const listHeld = `
SELECT namespace, source_name FROM trigger.deliveries WHERE held
UNION
SELECT namespace, source_name FROM trigger.signals WHERE held
ORDER BY namespace, source_name
LIMIT 1000`

// Held implements trigger.Store.
func (s *Store) Held(ctx context.Context) ([]trigger.HookName, error) {
	rows, err := s.pool.Query(ctx, listHeld)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[trigger.HookName])
}

// A signal's time to be taken begins anew.
const release = `
WITH signals AS (
	UPDATE trigger.signals
	SET held = false, expires_at = clock_timestamp() + (expires_at - received_at)
	WHERE held AND source_kind = 'webhook' AND namespace = $1 AND source_name = $2),
delivery AS (
	UPDATE trigger.deliveries
	SET held = false
	WHERE held AND source_kind = 'webhook' AND namespace = $1 AND source_name = $2
	RETURNING run_id)
UPDATE trigger.announcements a
SET next_announce_at = clock_timestamp()
FROM delivery d
WHERE a.run_id = d.run_id`

// Release implements trigger.Store.
func (s *Store) Release(ctx context.Context, h trigger.HookName) error {
	_, err := s.pool.Exec(ctx, release, h.Namespace, h.Name)
	return err
}

const reject = `
INSERT INTO trigger.rejected (namespace, source_kind, source_name, message_id, code, detail, data)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT DO NOTHING`

func rejectArgs(r trigger.Rejection) []any {
	return []any{r.Namespace, r.Source.Kind, r.Source.Name, r.MessageID, r.Code, r.Detail, r.Data}
}

// Reject implements trigger.Store.
func (s *Store) Reject(ctx context.Context, r trigger.Rejection) error {
	if _, err := s.pool.Exec(ctx, reject, rejectArgs(r)...); err != nil {
		return fmt.Errorf("keep rejected message: %w", err)
	}
	return nil
}
