package trigger

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Definitions reads what operators defined. Every method asks anew: a start
// uses the version that is current when it is accepted. Absent names are
// ErrNotFound. TargetOf, WebhookOf and ScheduleOf make what it returns.
type Definitions interface {
	// Target is the agent or flow (events.KindAgent, events.KindFlow) of a name.
	Target(ctx context.Context, namespace, kind, name string) (Target, error)
	Webhook(ctx context.Context, namespace, name string) (Webhook, error)
	Schedule(ctx context.Context, namespace, name string) (Schedule, error)
	// Schedules lists the current ones, of every namespace when it is empty. One
	// that cannot be read is in the list, broken, and keeps no other from firing.
	Schedules(ctx context.Context, namespace string) ([]Schedule, error)
}

// defined asks for a definition by a name that somebody sent. What cannot be a
// name is not found, and never reaches a query.
func defined[T any](namespace, name string, ask func() (T, error)) (T, error) {
	if !spec.ValidName(namespace) || !spec.ValidName(name) {
		var none T
		return none, ErrNotFound
	}
	return ask()
}

// Target is one version of an agent or flow.
type Target struct {
	Ref events.Ref
	// Validate lists what is wrong with an input by the target's JSON Schema.
	Validate func(json.RawMessage) []Place
	// Callback is nil when the target takes no callbacks.
	Callback *spec.Callback
	// Input is the JSON Schema that Validate asks; nil takes everything.
	Input json.RawMessage
}

// TargetOf is a version of an agent or flow whose input must fit a schema; nil
// takes everything. callback is its callback section, nil without one.
func TargetOf(ref events.Ref, input *spec.Schema, callback *spec.Callback) Target {
	return Target{Ref: ref, Callback: callback, Input: input.JSON(), Validate: func(value json.RawMessage) []Place {
		var places []Place
		for _, v := range input.Validate(value) {
			places = append(places, Place{Path: "input" + strings.TrimPrefix(v.Path, "$"), Message: v.Message})
		}
		return places
	}}
}

// Webhook is one version of a webhook.
type Webhook struct {
	Namespace, Name string
	Digest          events.Digest
	Provider        string
	Secrets         []spec.SecretRef
	Check           Check // without the secrets themselves
	Kind, Target    string
	// Aimed is what Target meant when the webhook was read, if that was read with it.
	Aimed *Target
	// Assumed says that it was not read for the request that it judges.
	Assumed   bool
	Signal    *spec.SignalSend // instead of a target
	Input     *spec.Template
	Labels    map[string]*spec.Template
	Dedupe    *spec.Template // nil: the provider's id
	Paused    bool
	Filter    *spec.Condition // nil: everything passes
	Batch     string          // what becomes of a list: spec.BatchItem or BatchWhole
	EmptyBody string
	Limits    Limits
	MaxBody   int64 // bytes; 0: the door's limit
	Deadline  spec.Duration
	Priority  string
}

// WebhookOf is a stored version of a webhook.
func WebhookOf(namespace, name string, digest events.Digest, w *spec.Webhook) Webhook {
	kind, target := agentOrFlow(w.Agent, w.Flow)
	def := Webhook{
		Namespace: namespace, Name: name, Digest: digest, Provider: w.Provider, Secrets: w.Secrets,
		Check: Check{Tolerance: w.Tolerance.Std(), PublicURL: w.PublicURL},
		Kind:  kind, Target: target, Signal: w.Signal, Input: w.Input, Labels: w.Labels, Dedupe: w.Dedupe, Paused: w.Paused,
		Filter: w.Filter, Batch: w.Batch, EmptyBody: w.EmptyBody, MaxBody: int64(w.MaxBody), Limits: Limits{InFlight: w.MaxInFlight}, Deadline: w.Deadline, Priority: w.Priority,
	}
	if w.Signature != nil {
		def.Check.HMAC = *w.Signature
	}
	if r := w.RateLimit; r != nil {
		def.Limits.PerMinute, def.Limits.Burst = r.PerMinute, r.Burst
	}
	return def
}

// Schedule is one version of a schedule.
type Schedule struct {
	Namespace, Name string
	Digest          events.Digest
	Cron            string        // exactly one of Cron
	Every, Offset   time.Duration // and Every
	TimeZone        string
	StartAt, EndAt  time.Time // zero: no bound
	Exclude         []spec.Days
	MaxFires        int64 // 0: no bound
	Jitter          time.Duration
	Overlap         spec.Overlap
	CatchUp         spec.CatchUp
	Kind, Target    string
	Input           *spec.Template
	Paused          bool
	Deadline        spec.Duration
	Priority        string
	// Broken, when set, is why this version cannot be read; it never fires.
	Broken error
}

// ScheduleOf is a stored version of a schedule; err, when set, is why its body
// could not be decoded.
func ScheduleOf(namespace, name string, digest events.Digest, x *spec.Schedule, err error) Schedule {
	s := Schedule{Namespace: namespace, Name: name, Digest: digest, Broken: err}
	if err != nil {
		return s
	}
	s.Cron, s.Every, s.Offset, s.TimeZone = x.Cron, x.Every.Std(), x.Offset.Std(), x.TimeZone
	s.StartAt, s.EndAt, s.Exclude, s.MaxFires = x.StartAt.Time, x.EndAt.Time, x.Exclude, x.MaxFires
	s.Jitter, s.Overlap = x.Jitter.Std(), x.Overlap
	if x.CatchUp != nil {
		s.CatchUp = *x.CatchUp
	}
	s.Input, s.Paused, s.Deadline, s.Priority = x.Input, x.Paused, x.Deadline, x.Priority
	s.Kind, s.Target = agentOrFlow(x.Agent, x.Flow)
	return s
}

func agentOrFlow(agent, flow string) (kind, name string) {
	if flow != "" {
		return events.KindFlow, flow
	}
	return events.KindAgent, agent
}
