package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/trigger"
)

func (a *api) registerSignals(d *door.Door) {
	tags := []string{"signals"}
	door.Register(d, huma.Operation{
		OperationID: "send-signal", Method: http.MethodPost, Path: "/v1/signals/{name}",
		Summary: "Send a signal to the run that waits for its name and key",
		Description: "Exactly one run takes it: the one that has waited longest, or the next one that waits. 202 means that it is kept until then, " +
			"or until keep_for has passed. To hand data to a run by its id, whatever it waits for, see POST /v1/runs/{id}/signal.",
		DefaultStatus: http.StatusAccepted, MaxBodyBytes: 512 << 10, Tags: tags,
	}, authn.Operator, a.sendSignal)
	door.Register(d, huma.Operation{
		OperationID: "list-signals", Method: http.MethodGet, Path: "/v1/signals",
		Summary: "List signals and what became of them, newest first", Tags: tags,
	}, authn.Viewer, a.listSignals)
}

type sendSignalInput struct {
	Name string `path:"name" maxLength:"62"`
	Key  string `header:"Idempotency-Key" doc:"a repeat of the request is the same signal"`
	Body struct {
		Key     string          `json:"key" doc:"which run is meant: the key that its tool derives; at most 512 bytes"`
		Data    json.RawMessage `json:"data,omitempty" doc:"any JSON value of at most 256 KiB; the result that the model reads; null when absent"`
		KeepFor int64           `json:"keep_for_seconds,omitempty" minimum:"60" maximum:"7776000" doc:"how long it is kept while no run waits; 7 days when absent"`
	}
}

type sendSignalOutput struct {
	Replayed string `header:"Idempotency-Replayed"`
	Body     struct {
		ID string `json:"signal_id"`
	}
}

func (a *api) sendSignal(ctx context.Context, in *sendSignalInput) (*sendSignalOutput, error) {
	p, err := principal(ctx)
	if err != nil {
		return nil, err
	}
	dedupe, err := idempotencyKey(in.Key)
	if err != nil {
		return nil, problem(err)
	}
	keep := time.Duration(in.Body.KeepFor) * time.Second
	if keep == 0 {
		keep = spec.DefaultKeepFor
	}
	data := in.Body.Data
	if len(data) == 0 {
		data = json.RawMessage("null")
	}
	canonical, err := events.Canonical(data)
	if err != nil {
		return nil, problem(trigger.Refuse(trigger.CodeInvalidText, "data: %w", err))
	}
	accepted, err := a.svc.Signal(ctx, trigger.Signal{
		Namespace: p.Namespace, Name: in.Name, Key: in.Body.Key, Data: data, KeepFor: keep, Principal: p.Name,
		Source: trigger.Source{Kind: trigger.SourceAPI, Name: p.Name}, Dedupe: dedupe, Strict: true,
		Digest: events.DigestOf(fmt.Appendf(nil, "%s\n%q\n%s\n%s", in.Name, in.Body.Key, keep, canonical)),
	}, trigger.Limits{})
	if err != nil {
		return nil, problem(err)
	}
	out := &sendSignalOutput{}
	out.Body.ID = string(accepted.DeliveryID)
	if accepted.Repeat {
		out.Replayed = "true"
	}
	return out, nil
}

type listSignalsInput struct {
	door.PageInput
	State string `query:"state" enum:"kept,sent,taken,expired"`
	Name  string `query:"name" maxLength:"62"`
	Key   string `query:"key" maxLength:"512"`
}

type listSignalsOutput struct{ Body door.Page[signal] }

// signal is a signal and what became of it.
type signal struct {
	ID         string     `json:"signal_id" doc:"also of the delivery that made it, when it came to a webhook"`
	Namespace  string     `json:"namespace"`
	Name       string     `json:"name"`
	Key        string     `json:"key"`
	State      string     `json:"state" enum:"kept,sent,taken,expired" doc:"kept: no run waits for it yet; sent: on its way to a run that waits; taken: the result of that run's call"`
	Held       bool       `json:"held,omitempty" doc:"kept back while its webhook is paused"`
	Source     string     `json:"source" enum:"webhook,api"`
	SourceName string     `json:"source_name" doc:"of the webhook; of the principal for the API"`
	RunID      string     `json:"run_id,omitempty" doc:"the run that it was sent to"`
	CallID     string     `json:"call_id,omitempty" doc:"the call that waited"`
	Late       int        `json:"late,omitempty" doc:"how many waits had ended when it reached them"`
	ReceivedAt time.Time  `json:"received_at"`
	ExpiresAt  time.Time  `json:"expires_at" doc:"when it is given up if no run waits"`
	TakenAt    *time.Time `json:"taken_at,omitempty"`
}

func (a *api) listSignals(ctx context.Context, in *listSignalsInput) (*listSignalsOutput, error) {
	p, err := principal(ctx)
	if err != nil {
		return nil, err
	}
	for _, text := range []string{in.Name, in.Key} {
		if err := trigger.CheckText(text); err != nil {
			return nil, problem(trigger.Refuse(trigger.CodeInvalidText, "name, key: %w", err))
		}
	}
	var before idCursor
	if ok, err := door.DecodeCursor(in.Cursor, &before); err != nil {
		return nil, err
	} else if ok && !canonicalUUID(before.ID) {
		return nil, door.Error(http.StatusBadRequest, door.CodeInvalidCursor, "the cursor is not one of ours; begin without it")
	}
	list, err := a.svc.ListSignals(ctx, p.Namespace, trigger.SignalFilter{State: in.State, Name: in.Name, Key: in.Key}, trigger.DeliveryID(before.ID), in.Limit+1)
	if err != nil {
		return nil, problem(err)
	}
	items := make([]signal, 0, len(list))
	for _, x := range list {
		items = append(items, signal{
			ID: string(x.ID), Namespace: x.Namespace, Name: x.Name, Key: x.Key, State: x.State, Held: x.Held, Source: x.Source.Kind, SourceName: x.Source.Name,
			RunID: string(x.RunID), CallID: string(x.CallID), Late: x.Late, ReceivedAt: x.ReceivedAt.UTC(), ExpiresAt: x.ExpiresAt.UTC(), TakenAt: utc(x.TakenAt),
		})
	}
	return &listSignalsOutput{door.NewPage(items, in.Limit, func(x signal) any { return idCursor{x.ID} })}, nil
}
