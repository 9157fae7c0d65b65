package trigger_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-run/holdfast/internal/catalog"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/trigger"
)

// definitions reads the catalog as the service's role.
type definitions struct{ catalog *catalog.Catalog }

var _ trigger.Definitions = definitions{}

func (d definitions) current(ctx context.Context, namespace, kind, name string) (catalog.Version, error) {
	v, err := d.catalog.Current(ctx, namespace, kind, name)
	if errors.Is(err, catalog.ErrNotFound) {
		return v, fmt.Errorf("%w: %w", trigger.ErrNotFound, err)
	}
	return v, err
}

func (d definitions) Target(ctx context.Context, namespace, kind, name string) (trigger.Target, error) {
	v, err := d.current(ctx, namespace, kind, name)
	if err != nil {
		return trigger.Target{}, err
	}
	ref := events.Ref{Kind: kind, Name: name, Digest: v.Digest}
	if kind == events.KindFlow {
		f, err := d.catalog.Flow(ctx, namespace, v.Digest)
		if err != nil {
			return trigger.Target{}, err
		}
		return trigger.TargetOf(ref, f.Input, f.Callback), nil
	}
	a, err := d.catalog.Agent(ctx, namespace, v.Digest)
	if err != nil {
		return trigger.Target{}, err
	}
	return trigger.TargetOf(ref, a.Input, a.Callback), nil
}

func (d definitions) Webhook(ctx context.Context, namespace, name string) (trigger.Webhook, error) {
	v, err := d.current(ctx, namespace, spec.KindWebhook, name)
	if err != nil {
		return trigger.Webhook{}, err
	}
	w, err := d.catalog.Webhook(ctx, namespace, v.Digest)
	if err != nil {
		return trigger.Webhook{}, err
	}
	return trigger.WebhookOf(namespace, name, v.Digest, w), nil
}

func (d definitions) Schedule(ctx context.Context, namespace, name string) (trigger.Schedule, error) {
	v, err := d.current(ctx, namespace, spec.KindSchedule, name)
	if err != nil {
		return trigger.Schedule{}, err
	}
	return d.schedule(ctx, v)
}

func (d definitions) Schedules(ctx context.Context, namespace string) ([]trigger.Schedule, error) {
	versions, err := d.catalog.List(ctx, namespace, spec.KindSchedule)
	if err != nil {
		return nil, err
	}
	var all []trigger.Schedule
	for _, v := range versions {
		s, err := d.schedule(ctx, v)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

func (d definitions) schedule(ctx context.Context, v catalog.Version) (trigger.Schedule, error) {
	x, err := d.catalog.Schedule(ctx, v.Namespace, v.Digest)
	if pg.Transient(err) {
		return trigger.Schedule{}, err
	}
	return trigger.ScheduleOf(v.Namespace, v.Name, v.Digest, x, err), nil
}
