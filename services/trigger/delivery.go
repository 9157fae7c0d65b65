package trigger

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Kinds of source.
const (
	SourceWebhook  = "webhook"
	SourceAPI      = "api"
	SourceSchedule = "schedule"
	SourceEvent    = "event"
)

// DefaultNamespace is where what names no namespace lives.
const DefaultNamespace = "default"

// source is the ce-source of what this service publishes.
const source = "/services/trigger"

// DeliveryID names one accepted start: a UUIDv7.
type DeliveryID string

// Source says where a start came from.
type Source struct {
	Kind string
	// Name of the webhook, the schedule or the hf.in subject; of the principal
	// for the API, so that one principal's keys are not another's.
	Name string
}

// Start is a verified and mapped request for a run.
type Start struct {
	Namespace string
	Source    Source
	// Key makes a repeat a repeat; empty when the sender gave nothing, then every
	// request is its own.
	Key string
	// Digest is of the request as it was sent. With Strict, the same key with
	// another digest is refused; without, it is a repeat all the same.
	Digest events.Digest
	Strict bool
	// Kind and Name of the agent or flow.
	Kind, Name string
	// Aimed, when set, is what the name means now: it was read for this start.
	Aimed *Target
	// Assumed says that Aimed and the webhook were not: what is stored says so.
	Assumed   bool
	Input     json.RawMessage
	Labels    map[string]string
	Principal string
	// Callback is where the run's end is posted to; empty for nowhere.
	Callback string
	// Deadline of the run, see events.ParseDeadline; empty for none.
	Deadline string
	// Priority that is asked for, see events.StartRun; empty for none.
	Priority string
	// Held keeps the start back until its webhook is no longer paused.
	Held bool
	// Limits of its webhook, which may not let it in.
	Limits Limits
	// Attempt, when set, is the request behind it. It is logged with the delivery.
	Attempt *Attempt
}

// Delivery is one accepted start.
type Delivery struct {
	ID          DeliveryID
	Namespace   string
	Source      Source
	Key         string
	Digest      events.Digest
	RunID       events.RunID
	Ref         events.Ref
	Input       json.RawMessage
	InputRef    *events.BlobRef // instead of a large Input, on its way to the runner
	Labels      map[string]string
	Principal   string
	TraceParent string
	Callback    string
	Deadline    string
	Priority    string
	Held        bool
	Attempt     *Attempt // only on its way into the store
	// Assumes, on its way into the store, is the version of its webhook that must be
	// current for it to be stored, as must be that of Ref. Empty: both were read for it.
	Assumes    events.Digest
	AcceptedAt time.Time // by the database's clock

	AnnouncedAt *time.Time // NATS has stored the start
	LandedAt    *time.Time // the runner has committed it
}

// Accepted is the answer to a start.
type Accepted struct {
	RunID      events.RunID
	DeliveryID DeliveryID
	Repeat     bool // the start was accepted before
}

// newDelivery mints the ids of a start. The row's unique key decides whether
// they are ever used.
func newDelivery(st Start, ref events.Ref, traceParent string) (Delivery, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Delivery{}, fmt.Errorf("mint delivery id: %w", err)
	}
	d := Delivery{
		ID:          DeliveryID(id.String()),
		Namespace:   st.Namespace,
		Source:      st.Source,
		Key:         st.Key,
		Digest:      st.Digest,
		RunID:       events.NewRunID(),
		Ref:         ref,
		Input:       st.Input,
		Labels:      st.Labels,
		Principal:   st.Principal,
		TraceParent: traceParent,
		Callback:    st.Callback,
		Deadline:    st.Deadline,
		Priority:    st.Priority,
		Held:        st.Held,
	}
	if a := st.Attempt; a != nil && a.Outcome == "" {
		d.ID = a.ID // a request that makes several deliveries has the first one's
		d.Attempt = a.accepted(d)
		if st.Assumed {
			d.Assumes = a.Version
		}
	}
	return d, nil
}

// StartCause is the logical id of the start of a run.
func StartCause(run events.RunID) string { return "start:" + string(run) }

// StartMessage is what the relay announces for a delivery. It is a pure function
// of the row.
func StartMessage(d Delivery) (events.Message, error) {
	trigger := events.Trigger{Kind: d.Source.Kind, Name: d.Source.Name, ID: d.Key}
	if d.Source.Kind == SourceAPI {
		trigger.Name = "" // it is the principal's name, which has its own field
	}
	if trigger.ID == "" {
		trigger.ID = string(d.ID)
	}
	data, err := events.Marshal(events.StartRun{
		RunID:      d.RunID,
		Namespace:  d.Namespace,
		Ref:        d.Ref,
		Input:      d.Input,
		InputRef:   d.InputRef,
		Labels:     d.Labels,
		Trigger:    trigger,
		Principal:  d.Principal,
		Callback:   d.callback(),
		Deadline:   d.Deadline,
		Priority:   d.Priority,
		AcceptedAt: d.AcceptedAt.UTC(),
	})
	if err != nil {
		return events.Message{}, fmt.Errorf("encode start of run %s: %w", d.RunID, err)
	}
	return events.Message{
		Subject:     events.RunSubject(d.RunID, events.RunStart),
		ID:          StartCause(d.RunID),
		Source:      source,
		Type:        events.TypeStartRun,
		About:       string(d.RunID),
		Time:        d.AcceptedAt.UTC(),
		Namespace:   d.Namespace,
		TraceParent: d.TraceParent,
		Data:        data,
	}, nil
}
