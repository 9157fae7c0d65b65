package trigger_test

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/trigger"
)

// definitions reads the catalog's views, as the service's role.
type definitions struct{ pool *pgxpool.Pool }

var _ trigger.Definitions = definitions{}

const currentVersions = `
SELECT c.namespace, c.name, c.digest, v.body::text
FROM catalog.v_current c JOIN catalog.v_versions v USING (namespace, kind, name, digest)
WHERE c.kind = $1 AND ($2 = '' OR c.namespace = $2) AND ($3 = '' OR c.name = $3)
ORDER BY c.namespace, c.name`

type version struct{ Namespace, Name, Digest, Body string }

func (d definitions) versions(ctx context.Context, kind, namespace, name string) ([]version, error) {
	rows, err := d.pool.Query(ctx, currentVersions, kind, namespace, name)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[version])
}

func (d definitions) document(ctx context.Context, kind, namespace, name string) (version, *spec.Document, error) {
	if !spec.ValidName(name) || !spec.ValidName(namespace) {
		return version{}, nil, trigger.ErrNotFound
	}
	list, err := d.versions(ctx, kind, namespace, name)
	if err != nil {
		return version{}, nil, err
	}
	if len(list) == 0 {
		return version{}, nil, trigger.ErrNotFound
	}
	doc, err := spec.Decode(json.RawMessage(list[0].Body))
	return list[0], doc, err
}

func (d definitions) Target(ctx context.Context, namespace, kind, name string) (trigger.Target, error) {
	v, doc, err := d.document(ctx, kind, namespace, name)
	if err != nil {
		return trigger.Target{}, err
	}
	ref := events.Ref{Kind: kind, Name: name, Digest: events.Digest(v.Digest)}
	if doc.Flow != nil {
		return trigger.TargetOf(ref, doc.Flow.Input), nil
	}
	return trigger.TargetOf(ref, doc.Agent.Input), nil
}

func (d definitions) Webhook(ctx context.Context, namespace, name string) (trigger.Webhook, error) {
	v, doc, err := d.document(ctx, spec.KindWebhook, namespace, name)
	if err != nil {
		return trigger.Webhook{}, err
	}
	return trigger.WebhookOf(namespace, name, events.Digest(v.Digest), doc.Webhook), nil
}

func (d definitions) Schedule(ctx context.Context, namespace, name string) (trigger.Schedule, error) {
	v, doc, err := d.document(ctx, spec.KindSchedule, namespace, name)
	if errors.Is(err, trigger.ErrNotFound) || v.Name == "" && err != nil {
		return trigger.Schedule{}, err
	}
	if err != nil {
		return trigger.ScheduleOf(namespace, name, events.Digest(v.Digest), nil, err), nil
	}
	return trigger.ScheduleOf(namespace, name, events.Digest(v.Digest), doc.Schedule, nil), nil
}

func (d definitions) Schedules(ctx context.Context, namespace string) ([]trigger.Schedule, error) {
	list, err := d.versions(ctx, spec.KindSchedule, namespace, "")
	if err != nil {
		return nil, err
	}
	var schedules []trigger.Schedule
	for _, v := range list {
		x, err := spec.DecodeSchedule(json.RawMessage(v.Body))
		schedules = append(schedules, trigger.ScheduleOf(v.Namespace, v.Name, events.Digest(v.Digest), x, err))
	}
	return schedules, nil
}
