package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/trigger"
)

// unannounced is what the relay owes, longest due first. An input that is too
// large for a message ($2) stays where it is.
const unannounced = `
SELECT delivery_id::text, namespace, source_kind, source_name, coalesce(dedupe_key, ''), run_id, ref_kind, ref_name, ref_digest,
	CASE WHEN octet_length(input::text) <= $2 THEN input::text END, labels, principal, traceparent, accepted_at, announce_count, callback, deadline, priority
FROM (
	SELECT run_id, next_announce_at, announce_count
	FROM trigger.announcements
	WHERE landed_at IS NULL AND next_announce_at <= clock_timestamp()
	ORDER BY next_announce_at
	LIMIT $1) owed
JOIN trigger.deliveries d USING (run_id)
ORDER BY next_announce_at, run_id`

// keepInput copies a delivery's input to where every service reads it, without
// moving it through this process, and returns the reference.
const keepInput = `
WITH large AS MATERIALIZED (
	SELECT 'delivery:' || delivery_id AS scope, convert_to(input::text, 'UTF8') AS data
	FROM trigger.deliveries WHERE namespace = $1 AND delivery_id = $2::text::uuid),
known AS MATERIALIZED (
	SELECT scope, 'sha256:' || encode(sha256(data), 'hex') AS digest, data FROM large),
kept AS (
	INSERT INTO blob.blobs (scope, digest, data) SELECT scope, digest, data FROM known ON CONFLICT DO NOTHING)
SELECT scope, digest, octet_length(data) FROM known`

// load returns the start messages that are due. What a message refers to is
// stored before it is returned.
func (s *Store) load(ctx context.Context, limit int) ([]events.Message, error) {
	rows, err := s.pool.Query(ctx, unannounced, limit, events.MaxInline)
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, scanUnannounced)
	if err != nil {
		return nil, err
	}
	messages := make([]events.Message, 0, len(list))
	for _, due := range list {
		if due.Input == nil {
			var ref events.BlobRef
			if err := s.pool.QueryRow(ctx, keepInput, due.Namespace, string(due.ID)).Scan(&ref.Scope, &ref.Digest, &ref.Bytes); err != nil {
				return nil, fmt.Errorf("keep input of run %s: %w", due.RunID, err)
			}
			due.InputRef = &ref
		}
		m, err := trigger.StartMessage(due.Delivery)
		if err != nil {
			return nil, err
		}
		m.MsgID = pg.AnnounceID(m.ID, due.count)
		messages = append(messages, m)
	}
	return messages, nil
}

// due is a delivery to announce, and how often that was done.
type due struct {
	trigger.Delivery
	count int
}

func scanUnannounced(row pgx.CollectableRow) (due, error) {
	var d due
	var input *string
	err := row.Scan(&d.ID, &d.Namespace, &d.Source.Kind, &d.Source.Name, &d.Key, &d.RunID, &d.Ref.Kind, &d.Ref.Name, &d.Ref.Digest,
		&input, &d.Labels, &d.Principal, &d.TraceParent, &d.AcceptedAt, &d.count, &d.Callback, &d.Deadline, &d.Priority)
	if input != nil {
		d.Input = json.RawMessage(*input)
	}
	return d, err
}
