package trigger

import (
	"context"
	"encoding/json"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Definitions reads what operators defined. Every method asks anew: a start
// uses the version that is current when it is accepted. Absent names are
// ErrNotFound.
type Definitions interface {
	// Target is the agent or flow (events.KindAgent, events.KindFlow) of a name.
	Target(ctx context.Context, namespace, kind, name string) (Target, error)
	Webhook(ctx context.Context, namespace, name string) (Webhook, error)
	Schedule(ctx context.Context, namespace, name string) (Schedule, error)
	// Schedules lists the current ones, of every namespace when it is empty, by
	// namespace and name.
	Schedules(ctx context.Context, namespace string) ([]Schedule, error)
}

// Target is one version of an agent or flow.
type Target struct {
	Ref events.Ref
	// Validate lists what is wrong with an input by the target's JSON Schema.
	Validate func(json.RawMessage) []Place
}

// Webhook is one version of a webhook.
type Webhook struct {
	Namespace, Name string
	Digest          events.Digest
	Provider        string
	Secrets         []spec.SecretRef
	Check           Check // without the secrets themselves
	Kind, Target    string
	Input           *spec.Template
	Labels          map[string]*spec.Template
	Dedupe          *spec.Template // nil: the provider's id
	Paused          bool
}

// Schedule is one version of a schedule.
type Schedule struct {
	Namespace, Name string
	Digest          events.Digest
	Cron, TimeZone  string
	Kind, Target    string
	Input           *spec.Template
	Paused          bool
	// Broken, when set, is why this version cannot be read; it never fires.
	Broken error
}
