package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/trigger"
)

// aloneFrom is from what size a delivery is inserted by itself: it would keep the
// others of its batch waiting.
const aloneFrom = 256 << 10

// outcome is what became of one insert.
type outcome struct {
	stored   trigger.Delivery
	inserted bool
	err      error
}

// newGroup merges the inserts of concurrent starts. Repeating an insert is
// harmless, so a lost reply needs no other look: the conflict is the item's own
// row.
func newGroup(s *Store) *pg.Group[trigger.Delivery, outcome] {
	return &pg.Group[trigger.Delivery, outcome]{
		Name: "deliveries",
		Key: func(d trigger.Delivery) string {
			if d.Key == "" {
				return "\x00" + string(d.ID) // it meets no other
			}
			return strings.Join([]string{d.Namespace, d.Source.Kind, d.Source.Name, d.Key}, "\x00")
		},
		Repeats: true, // the later one of a statement meets the earlier one's row
		Bytes:   deliveryBytes,
		Check:   checkDelivery,
		Many: func(ctx context.Context, items []trigger.Delivery) ([]outcome, error) {
			begun := time.Now()
			outcomes, err := s.insertMany(ctx, items)
			if err == nil {
				s.metrics.Committed(ctx, len(items), time.Since(begun))
			}
			return outcomes, err
		},
		One: func(ctx context.Context, d trigger.Delivery) (outcome, error) {
			begun := time.Now()
			o, err := s.insertAlone(ctx, d)
			if err == nil {
				s.metrics.Committed(ctx, 1, time.Since(begun))
			}
			return o, err
		},
	}
}

func deliveryBytes(d trigger.Delivery) int {
	n := 512 + len(d.Input)
	if d.Attempt != nil {
		n += 512 + len(d.Attempt.Body)
	}
	return n
}

// checkDelivery keeps out what Postgres refuses, so that it spoils no batch. The
// service has refused it before, with the place named.
func checkDelivery(d trigger.Delivery) error {
	for _, text := range []string{d.Namespace, d.Source.Name, d.Key, d.Ref.Name, d.Principal, d.TraceParent, d.Callback, d.Deadline, d.Priority} {
		if err := pg.CleanText(text); err != nil {
			return err
		}
	}
	for k, v := range d.Labels {
		if err := errors.Join(pg.CleanText(k), pg.CleanText(v)); err != nil {
			return err
		}
	}
	return pg.CleanJSON(d.Input)
}

// insertBatch is insertLogged for many deliveries; those that have no entry in
// the log are not in the second list. What one assumes must be current as the
// statement sees it; else it is not stored, and comes back without a time.
const insertBatch = `
WITH superseded AS (
	SELECT i.delivery_id::uuid AS delivery_id
	FROM unnest($1::text[], $2::text[], $4::text[], $8::text[], $9::text[], $10::text[], $41::text[])
		AS i(delivery_id, namespace, webhook, ref_kind, ref_name, ref_digest, assumes)
	LEFT JOIN catalog.v_current w ON w.namespace = i.namespace AND w.kind = 'webhook' AND w.name = i.webhook
	LEFT JOIN catalog.v_current t ON t.namespace = i.namespace AND t.kind = i.ref_kind AND t.name = i.ref_name
	WHERE i.assumes <> '' AND (w.digest IS DISTINCT FROM i.assumes OR t.digest IS DISTINCT FROM i.ref_digest)
		-- It is there already when the reply to an earlier try was lost.
		AND NOT EXISTS (SELECT FROM trigger.deliveries d WHERE d.namespace = i.namespace AND d.delivery_id = i.delivery_id::uuid)),
delivery AS (
	INSERT INTO trigger.deliveries (delivery_id, namespace, source_kind, source_name, dedupe_key, request_digest, run_id,
		ref_kind, ref_name, ref_digest, input, labels, principal, traceparent, held, callback, deadline, priority)
	SELECT delivery_id::uuid, namespace, source_kind, source_name, nullif(dedupe_key, ''), request_digest, run_id,
		ref_kind, ref_name, ref_digest, input::json, labels::jsonb, principal, traceparent, held, callback, deadline, priority
	FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[],
		$11::text[], $12::text[], $13::text[], $14::text[], $15::boolean[], $40::text[], $42::text[], $43::text[])
		AS i(delivery_id, namespace, source_kind, source_name, dedupe_key, request_digest, run_id,
			ref_kind, ref_name, ref_digest, input, labels, principal, traceparent, held, callback, deadline, priority)
	WHERE delivery_id::uuid NOT IN (SELECT s.delivery_id FROM superseded s)
	ON CONFLICT DO NOTHING
	RETURNING delivery_id, run_id, held, accepted_at, octet_length(input::text) AS bytes),
announcement AS (` + announce + `),
attempt AS (` + attemptInto + `
	SELECT d.delivery_id, i.namespace, i.webhook, i.digest, i.outcome, i.reason, i.detail, i.count, i.status, i.received_at, i.took_us,
		i.remote, i.content_type, i.headers::jsonb, i.query::jsonb, i.body_bytes, i.body_digest, i.body, i.event_id, i.dedupe_key,
		nullif(i.run_id, ''), nullif(i.delivery_id, '')::uuid, nullif(i.replay_of, '')::uuid, i.principal
	FROM unnest($16::text[], $17::text[], $18::text[], $19::text[], $20::text[], $21::text[], $22::text[], $23::bigint[], $24::int[],
		$25::timestamptz[], $26::bigint[], $27::text[], $28::text[], $29::text[], $30::text[], $31::bigint[], $32::text[], $33::bytea[],
		$34::text[], $35::text[], $36::text[], $37::text[], $38::text[], $39::text[])
		AS i(attempt_id, namespace, webhook, digest, outcome, reason, detail, count, status, received_at, took_us,
			remote, content_type, headers, query, body_bytes, body_digest, body, event_id, dedupe_key, run_id, delivery_id, replay_of, principal)
	JOIN delivery d ON d.delivery_id = i.attempt_id::uuid
	ON CONFLICT (namespace, attempt_id) DO NOTHING)
SELECT delivery_id::text, accepted_at FROM delivery
UNION ALL
SELECT delivery_id::text, NULL FROM superseded`

// findConflicts is findConflict for many deliveries.
const findConflicts = `
SELECT i.n::int, found.*
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[]) WITH ORDINALITY AS i(id, ns, kind, name, key, n)
CROSS JOIN LATERAL (
	SELECT ` + deliveryColumns + fromDeliveries + `
	WHERE namespace = i.ns AND (delivery_id = i.id::uuid OR source_kind = i.kind AND source_name = i.name AND dedupe_key = nullif(i.key, ''))
	ORDER BY accepted_at
	LIMIT 1) AS found
ORDER BY i.n
LIMIT 1000`

// insertAlone commits one delivery by itself.
func (s *Store) insertAlone(ctx context.Context, d trigger.Delivery) (outcome, error) {
	if d.Assumes != "" { // the plain statement does not look whether it holds
		outcomes, err := s.insertMany(ctx, []trigger.Delivery{d})
		if err != nil {
			return outcome{}, err
		}
		return outcomes[0], nil
	}
	stored, inserted, err := s.insertOne(ctx, d)
	return outcome{stored: stored, inserted: inserted}, err
}

func (s *Store) insertMany(ctx context.Context, items []trigger.Delivery) ([]outcome, error) {
	rows, err := s.pool.Query(ctx, insertBatch, append([]any{s.often}, batchArgs(items)...)...)
	if err != nil {
		return nil, err
	}
	accepted := make(map[string]*time.Time, len(items))
	var id string
	var at *time.Time
	if _, err := pgx.ForEachRow(rows, []any{&id, &at}, func() error { accepted[id] = at; return nil }); err != nil {
		return nil, err
	}
	outcomes := make([]outcome, len(items))
	var missed []int
	for i, d := range items {
		switch at, ok := accepted[string(d.ID)]; {
		case ok && at == nil:
			outcomes[i] = outcome{err: trigger.ErrSuperseded}
			continue
		case ok:
			d.AcceptedAt = *at
			outcomes[i] = outcome{stored: d, inserted: true}
			continue
		}
		missed = append(missed, i)
	}
	if missed == nil {
		return outcomes, nil
	}
	return outcomes, findMany(ctx, s.pool, items, missed, outcomes)
}

// findMany fills in the outcomes of the items that met a row.
func findMany(ctx context.Context, pool *pgxpool.Pool, items []trigger.Delivery, missed []int, outcomes []outcome) error {
	var ids, namespaces, kinds, names, keys []string
	for _, i := range missed {
		d := items[i]
		ids, namespaces, kinds = append(ids, string(d.ID)), append(namespaces, d.Namespace), append(kinds, d.Source.Kind)
		names, keys = append(names, d.Source.Name), append(keys, d.Key)
		outcomes[i].err = errors.New("find the delivery that is there already: it is gone")
	}
	rows, err := pool.Query(ctx, findConflicts, ids, namespaces, kinds, names, keys)
	if err != nil {
		return err
	}
	type conflict struct {
		n int
		d trigger.Delivery
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (conflict, error) {
		var c conflict
		err := scanDeliveryAfter(row, &c.d, &c.n)
		return c, err
	})
	if err != nil {
		return fmt.Errorf("find the deliveries that are there already: %w", err)
	}
	for _, c := range found {
		i := missed[c.n-1]
		outcomes[i] = outcome{stored: again(c.d, items[i]), inserted: c.d.ID == items[i].ID}
	}
	return nil
}

// batchArgs turns rows into columns, in the order of the statement.
func batchArgs(items []trigger.Delivery) []any {
	deliveries := [14][]string{}
	held := make([]bool, 0, len(items))
	callbacks, assumes, deadlines, priorities := make([]string, 0, len(items)), make([]string, 0, len(items)), make([]string, 0, len(items)), make([]string, 0, len(items))
	attempts := attemptBatch{}
	for _, d := range items {
		labels := events.AppendObject(nil, d.Labels)
		for i, text := range [14]string{string(d.ID), d.Namespace, d.Source.Kind, d.Source.Name, d.Key, string(d.Digest), string(d.RunID),
			d.Ref.Kind, d.Ref.Name, string(d.Ref.Digest), string(d.Input), string(labels), d.Principal, d.TraceParent} {
			deliveries[i] = append(deliveries[i], text)
		}
		held, callbacks, assumes = append(held, d.Held), append(callbacks, d.Callback), append(assumes, string(d.Assumes))
		deadlines, priorities = append(deadlines, d.Deadline), append(priorities, d.Priority)
		if d.Attempt != nil {
			attempts.add(d.Attempt)
		}
	}
	args := make([]any, 0, 43)
	for _, column := range deliveries {
		args = append(args, column)
	}
	return append(append(append(args, held), attempts.args()...), callbacks, assumes, deadlines, priorities)
}

// attemptBatch is the entries of a batch, by column.
type attemptBatch struct {
	head     [7][]string
	counts   []int64
	statuses []int32
	received []time.Time
	took     []int64
	middle   [4][]string
	bytes    []int64
	digests  []string
	bodies   [][]byte
	tail     [6][]string
}

func (b *attemptBatch) add(a *trigger.Attempt) {
	header, query := events.AppendObject(nil, a.Header), events.AppendObject(nil, a.Query)
	for i, text := range [7]string{string(a.ID), a.Namespace, a.Webhook, string(a.Version), a.Outcome, a.Reason, a.Detail} {
		b.head[i] = append(b.head[i], text)
	}
	b.counts, b.statuses = append(b.counts, max(a.Count, 1)), append(b.statuses, int32(a.Status))
	b.received, b.took = append(b.received, a.ReceivedAt), append(b.took, a.Took.Microseconds())
	for i, text := range [4]string{a.Remote, a.ContentType, string(header), string(query)} {
		b.middle[i] = append(b.middle[i], text)
	}
	b.bytes, b.digests, b.bodies = append(b.bytes, a.BodyBytes), append(b.digests, string(a.BodyDigest)), append(b.bodies, a.Body)
	for i, text := range [6]string{a.EventID, a.Key, string(a.RunID), string(a.DeliveryID), string(a.ReplayOf), a.Principal} {
		b.tail[i] = append(b.tail[i], text)
	}
}

func (b *attemptBatch) args() []any {
	var args []any
	for _, column := range b.head {
		args = append(args, column)
	}
	args = append(args, b.counts, b.statuses, b.received, b.took)
	for _, column := range b.middle {
		args = append(args, column)
	}
	args = append(args, b.bytes, b.digests, b.bodies)
	for _, column := range b.tail {
		args = append(args, column)
	}
	return args
}
