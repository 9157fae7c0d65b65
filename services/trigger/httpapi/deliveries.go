package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/services/trigger"
)

type deliveryInput struct {
	ID string `path:"id" maxLength:"36"`
}

type deliveryOutput struct{ Body delivery }

type deliveriesOutput struct{ Body door.Page[delivery] }

type delivery struct {
	ID          string            `json:"delivery_id"`
	Namespace   string            `json:"namespace"`
	Source      string            `json:"source" enum:"webhook,api,schedule,event"`
	SourceName  string            `json:"source_name" doc:"of the webhook, the schedule or the subject; of the principal for the API"`
	Key         string            `json:"dedupe_key,omitempty"`
	RunID       string            `json:"run_id"`
	Kind        string            `json:"kind" enum:"agent,flow"`
	Name        string            `json:"name"`
	Digest      string            `json:"digest" doc:"of the version that the run uses"`
	Input       json.RawMessage   `json:"input,omitempty" doc:"absent in lists"`
	Labels      map[string]string `json:"labels"`
	Principal   string            `json:"principal,omitempty"`
	Held        bool              `json:"held,omitempty" doc:"kept back while its webhook is paused"`
	AcceptedAt  time.Time         `json:"accepted_at"`
	AnnouncedAt *time.Time        `json:"announced_at,omitempty" doc:"when NATS stored the start"`
	LandedAt    *time.Time        `json:"landed_at,omitempty" doc:"when the runner was seen to have the run"`
	StatusURL   string            `json:"status_url"`
}

func (a *api) registerDeliveries(d *door.Door) {
	tags := []string{"deliveries"}
	door.Register(d, huma.Operation{
		OperationID: "list-deliveries", Method: http.MethodGet, Path: "/v1/deliveries",
		Summary: "List accepted starts, newest first", Tags: tags,
	}, authn.Viewer, a.listDeliveries)
	door.Register(d, huma.Operation{
		OperationID: "get-delivery", Method: http.MethodGet, Path: "/v1/deliveries/{id}",
		Summary: "Show an accepted start", Tags: tags,
	}, authn.Viewer, a.getDelivery)
}

type idCursor struct {
	ID string `json:"i"`
}

func (a *api) listDeliveries(ctx context.Context, in *door.PageInput) (*deliveriesOutput, error) {
	p, err := principal(ctx)
	if err != nil {
		return nil, err
	}
	var before idCursor
	if ok, err := door.DecodeCursor(in.Cursor, &before); err != nil {
		return nil, err
	} else if ok && !canonicalUUID(before.ID) {
		return nil, door.Error(http.StatusBadRequest, door.CodeInvalidCursor, "the cursor is not one of ours; begin without it")
	}
	list, err := a.svc.Deliveries(ctx, p.Namespace, trigger.DeliveryID(before.ID), in.Limit+1)
	if err != nil {
		return nil, problem(err)
	}
	items := make([]delivery, 0, len(list))
	for _, d := range list {
		body := deliveryBody(d)
		body.Input = nil
		items = append(items, body)
	}
	return &deliveriesOutput{door.NewPage(items, in.Limit, func(d delivery) any { return idCursor{d.ID} })}, nil
}

func (a *api) getDelivery(ctx context.Context, in *deliveryInput) (*deliveryOutput, error) {
	p, err := principal(ctx)
	if err != nil {
		return nil, err
	}
	notFound := door.NotFound("there is no delivery %q in the namespace %s", in.ID, p.Namespace)
	if !canonicalUUID(in.ID) {
		return nil, notFound
	}
	d, err := a.svc.Delivery(ctx, p.Namespace, trigger.DeliveryID(in.ID))
	if errors.Is(err, trigger.ErrNotFound) {
		return nil, notFound
	}
	if err != nil {
		return nil, problem(err)
	}
	return &deliveryOutput{deliveryBody(d)}, nil
}

func canonicalUUID(s string) bool {
	id, err := uuid.Parse(s)
	return err == nil && id.String() == s
}

func deliveryBody(d trigger.Delivery) delivery {
	return delivery{
		ID: string(d.ID), Namespace: d.Namespace, Source: d.Source.Kind, SourceName: d.Source.Name, Key: d.Key,
		RunID: string(d.RunID), Kind: d.Ref.Kind, Name: d.Ref.Name, Digest: string(d.Ref.Digest), Input: d.Input,
		Labels: d.Labels, Principal: d.Principal, Held: d.Held, AcceptedAt: d.AcceptedAt.UTC(),
		AnnouncedAt: utc(d.AnnouncedAt), LandedAt: utc(d.LandedAt), StatusURL: "/v1/runs/" + string(d.RunID),
	}
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}
