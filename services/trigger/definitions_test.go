package trigger_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/catalog"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/trigger"
)

// definitions reads the catalog as the service's role.
type definitions struct {
	catalog *catalog.Catalog
	aims    *trigger.Aims
}

func newDefinitions(pool *pgxpool.Pool) definitions {
	return definitions{catalog.New(pool), &trigger.Aims{}}
}

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
	return d.target(ctx, namespace, events.Ref{Kind: kind, Name: name, Digest: v.Digest})
}

func (d definitions) target(ctx context.Context, namespace string, ref events.Ref) (trigger.Target, error) {
	if ref.Kind == events.KindFlow {
		f, err := d.catalog.Flow(ctx, namespace, ref.Digest)
		if err != nil {
			return trigger.Target{}, err
		}
		return trigger.TargetOf(ref, f.Input, f.Callback), nil
	}
	a, err := d.catalog.Agent(ctx, namespace, ref.Digest)
	if err != nil {
		return trigger.Target{}, err
	}
	return trigger.TargetOf(ref, a.Input, a.Callback), nil
}

func (d definitions) Webhook(ctx context.Context, namespace, name string) (trigger.Webhook, error) {
	names := []catalog.Name{{Namespace: namespace, Kind: spec.KindWebhook, Name: name}}
	kind, target, known := d.aims.Of(namespace, name)
	if known {
		names = append(names, catalog.Name{Namespace: namespace, Kind: kind, Name: target})
	}
	digests, err := d.catalog.Digests(ctx, names...)
	if err != nil {
		return trigger.Webhook{}, err
	}
	if digests[0] == "" {
		return trigger.Webhook{}, trigger.ErrNotFound
	}
	w, err := d.catalog.Webhook(ctx, namespace, digests[0])
	if err != nil {
		return trigger.Webhook{}, err
	}
	def := trigger.WebhookOf(namespace, name, digests[0], w)
	d.aims.Note(def)
	if known && def.Kind == kind && def.Target == target && digests[1] != "" {
		if t, err := d.target(ctx, namespace, events.Ref{Kind: kind, Name: target, Digest: digests[1]}); err == nil {
			def.Aimed = &t
		}
	}
	return def, nil
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
