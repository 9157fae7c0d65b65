package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-run/holdfast/internal/catalog"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/approvals"
	"github.com/holdfast-run/holdfast/services/runner"
	"github.com/holdfast-run/holdfast/services/tools"
	"github.com/holdfast-run/holdfast/services/trigger"
)

// runDefinitions reads definitions for the runner, which wants to know whether
// trying again could help.
type runDefinitions struct{ catalog *catalog.Catalog }

var _ runner.Definitions = runDefinitions{}

// Agent implements runner.Definitions.
func (d runDefinitions) Agent(ctx context.Context, namespace string, digest events.Digest) (*spec.Agent, error) {
	return usable(d.catalog.Agent(ctx, namespace, digest))
}

// Flow implements runner.Definitions.
func (d runDefinitions) Flow(ctx context.Context, namespace string, digest events.Digest) (*spec.Flow, error) {
	return usable(d.catalog.Flow(ctx, namespace, digest))
}

// Tool implements runner.Definitions.
func (d runDefinitions) Tool(ctx context.Context, namespace string, digest events.Digest) (*spec.Tool, error) {
	return usable(d.catalog.Tool(ctx, namespace, digest))
}

// Model implements runner.Definitions.
func (d runDefinitions) Model(ctx context.Context, namespace string, digest events.Digest) (*spec.Model, error) {
	return usable(d.catalog.Model(ctx, namespace, digest))
}

// Budget implements runner.Definitions.
func (d runDefinitions) Budget(ctx context.Context, namespace string, digest events.Digest) (*spec.Budget, error) {
	return usable(d.catalog.Budget(ctx, namespace, digest))
}

// CurrentDigest implements runner.Definitions.
func (d runDefinitions) CurrentDigest(ctx context.Context, namespace, kind, name string) (events.Digest, error) {
	v, err := usable(d.catalog.Current(ctx, namespace, kind, name))
	return v.Digest, err
}

// CurrentDigests implements runner.Definitions.
func (d runDefinitions) CurrentDigests(ctx context.Context, namespace string, names []events.Ref) ([]events.Digest, error) {
	asked := make([]catalog.Name, 0, len(names))
	for _, n := range names {
		asked = append(asked, catalog.Name{Namespace: namespace, Kind: n.Kind, Name: n.Name})
	}
	return d.catalog.Digests(ctx, asked...)
}

// usable marks the errors that no repetition cures.
func usable[T any](v T, err error) (T, error) {
	if hopeless(err) {
		err = fmt.Errorf("%w: %w", runner.ErrDefinition, err)
	}
	return v, err
}

// toolDefinitions reads tools for the tools service.
type toolDefinitions struct{ catalog *catalog.Catalog }

var _ tools.Definitions = toolDefinitions{}

// Tool implements tools.Definitions.
func (d toolDefinitions) Tool(ctx context.Context, namespace string, digest events.Digest) (*spec.Tool, error) {
	t, err := d.catalog.Tool(ctx, namespace, digest)
	if hopeless(err) {
		err = fmt.Errorf("%w: %w", tools.ErrNoDefinition, err)
	}
	return t, err
}

// Asking implements tools.Definitions.
func (d toolDefinitions) Asking(ctx context.Context, namespace string, ref events.Ref) (out spec.Asking, err error) {
	if ref.Kind == events.KindFlow {
		var f *spec.Flow
		if f, err = d.catalog.Flow(ctx, namespace, ref.Digest); err == nil {
			return f.Asking(), nil
		}
	} else {
		var a *spec.Agent
		if a, err = d.catalog.Agent(ctx, namespace, ref.Digest); err == nil {
			return a.Asking(), nil
		}
	}
	if hopeless(err) {
		err = fmt.Errorf("%w: %w", tools.ErrNoDefinition, err)
	}
	return out, err
}

// callback is the callback section of a version of an agent or flow.
func (d toolDefinitions) callback(ctx context.Context, namespace, kind string, digest events.Digest) (*spec.Callback, error) {
	var section *spec.Callback
	var err error
	if kind == events.KindFlow {
		var f *spec.Flow
		if f, err = d.catalog.Flow(ctx, namespace, digest); err == nil {
			section = f.Callback
		}
	} else {
		var a *spec.Agent
		if a, err = d.catalog.Agent(ctx, namespace, digest); err == nil {
			section = a.Callback
		}
	}
	if hopeless(err) {
		err = fmt.Errorf("%w: %w", tools.ErrNoDefinition, err)
	}
	return section, err
}

// startDefinitions reads definitions for the trigger service.
type startDefinitions struct {
	catalog *catalog.Catalog
	aims    *trigger.Aims
}

var _ trigger.Definitions = startDefinitions{}

// Target implements trigger.Definitions.
func (d startDefinitions) Target(ctx context.Context, namespace, kind, name string) (trigger.Target, error) {
	v, err := d.catalog.Current(ctx, namespace, kind, name)
	if err != nil {
		return trigger.Target{}, notDefined(err)
	}
	return d.target(ctx, namespace, events.Ref{Kind: kind, Name: name, Digest: v.Digest})
}

// target is a version of an agent or flow.
func (d startDefinitions) target(ctx context.Context, namespace string, ref events.Ref) (trigger.Target, error) {
	var schema *spec.Schema
	var callback *spec.Callback
	switch ref.Kind {
	case events.KindAgent:
		a, err := d.catalog.Agent(ctx, namespace, ref.Digest)
		if err != nil {
			return trigger.Target{}, notDefined(err)
		}
		schema, callback = a.Input, a.Callback
	case events.KindFlow:
		f, err := d.catalog.Flow(ctx, namespace, ref.Digest)
		if err != nil {
			return trigger.Target{}, notDefined(err)
		}
		schema, callback = f.Input, f.Callback
	}
	return trigger.TargetOf(ref, schema, callback), nil
}

// Webhook implements trigger.Definitions. It asks at the same time for what the
// webhook most likely starts.
func (d startDefinitions) Webhook(ctx context.Context, namespace, name string) (trigger.Webhook, error) {
	names := []catalog.Name{{Namespace: namespace, Kind: spec.KindWebhook, Name: name}}
	kind, target, known := d.aims.Of(namespace, name)
	if known {
		names = append(names, catalog.Name{Namespace: namespace, Kind: kind, Name: target})
	}
	digests, err := d.catalog.Digests(ctx, names...)
	switch {
	case err != nil:
		return trigger.Webhook{}, err
	case digests[0] == "":
		return trigger.Webhook{}, fmt.Errorf("%w: webhook %q in namespace %s", trigger.ErrNotFound, name, namespace)
	}
	w, err := d.catalog.Webhook(ctx, namespace, digests[0])
	if err != nil {
		return trigger.Webhook{}, notDefined(err)
	}
	def := trigger.WebhookOf(namespace, name, digests[0], w)
	d.aims.Note(def)
	if known && def.Kind == kind && def.Target == target && digests[1] != "" {
		// An error comes again, and is told, when the start asks for it.
		if t, err := d.target(ctx, namespace, events.Ref{Kind: kind, Name: target, Digest: digests[1]}); err == nil {
			def.Aimed = &t
		}
	}
	return def, nil
}

// Schedule implements trigger.Definitions.
func (d startDefinitions) Schedule(ctx context.Context, namespace, name string) (trigger.Schedule, error) {
	v, err := d.catalog.Current(ctx, namespace, "schedule", name)
	if err != nil {
		return trigger.Schedule{}, notDefined(err)
	}
	return d.schedule(ctx, v)
}

// Schedules implements trigger.Definitions. One that this release cannot read
// is reported and fires nothing; the others fire.
func (d startDefinitions) Schedules(ctx context.Context, namespace string) ([]trigger.Schedule, error) {
	versions, err := d.catalog.List(ctx, namespace, "schedule")
	if err != nil {
		return nil, err
	}
	all := make([]trigger.Schedule, 0, len(versions))
	for _, v := range versions {
		s, err := d.schedule(ctx, v)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

func (d startDefinitions) schedule(ctx context.Context, v catalog.Version) (trigger.Schedule, error) {
	s, err := d.catalog.Schedule(ctx, v.Namespace, v.Digest)
	if err != nil && !hopeless(err) {
		return trigger.Schedule{}, err
	}
	return trigger.ScheduleOf(v.Namespace, v.Name, v.Digest, s, err), nil
}

// channelDefinitions reads channels, and versions of tools, for the approvals service.
type channelDefinitions struct{ catalog *catalog.Catalog }

// channel is what the name of a channel means now.
func (d channelDefinitions) channel(ctx context.Context, namespace, name string) (*spec.Channel, error) {
	v, err := d.catalog.Current(ctx, namespace, spec.KindChannel, name)
	var c *spec.Channel
	if err == nil {
		c, err = d.catalog.Channel(ctx, namespace, v.Digest)
	}
	if hopeless(err) {
		err = fmt.Errorf("%w: %w", approvals.ErrNoChannel, err)
	}
	return c, err
}

// digests lists the channels that are told once a day what waits. One that cannot be
// read is told nothing, and hides no other.
func (d channelDefinitions) digests(ctx context.Context) (out []approvals.DigestChannel, err error) {
	all, err := d.catalog.List(ctx, "", spec.KindChannel)
	if err != nil {
		return nil, err
	}
	for _, v := range all {
		if c, err := d.catalog.Channel(ctx, v.Namespace, v.Digest); err == nil && c.Digest != nil {
			out = append(out, approvals.DigestChannel{Namespace: v.Namespace, Name: v.Name, Digest: c.Digest})
		}
	}
	return out, nil
}

// tool is the version of a tool that a request is about.
func (d channelDefinitions) tool(ctx context.Context, namespace string, digest events.Digest) (*spec.Tool, error) {
	t, err := d.catalog.Tool(ctx, namespace, digest)
	if hopeless(err) {
		err = fmt.Errorf("%w: %w", approvals.ErrNoTool, err)
	}
	return t, err
}

// hopeless reports whether trying again to read a definition cannot help.
func hopeless(err error) bool {
	return errors.Is(err, catalog.ErrNotFound) || errors.Is(err, catalog.ErrCorrupt)
}

// notDefined says in the service's words what the catalog said.
func notDefined(err error) error {
	switch {
	case errors.Is(err, catalog.ErrNotFound):
		return fmt.Errorf("%w: %w", trigger.ErrNotFound, err)
	case errors.Is(err, catalog.ErrCorrupt):
		return fmt.Errorf("%w: %w", trigger.ErrMisconfigured, err)
	}
	return err
}
