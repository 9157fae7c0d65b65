package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
	"unicode/utf8"

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

type deliveriesInput struct {
	door.PageInput
	Webhook string    `query:"webhook" maxLength:"62" doc:"of this webhook only"`
	Outcome string    `query:"outcome" enum:"accepted,duplicate,filtered,held,rejected,signalled"`
	Since   time.Time `query:"since" doc:"received at or after this time"`
	Until   time.Time `query:"until" doc:"received before this time"`
}

type deliveriesOutput struct{ Body door.Page[delivery] }

// delivery is a request at a webhook, or a start that came another way.
type delivery struct {
	ID         string `json:"delivery_id"`
	Namespace  string `json:"namespace"`
	Source     string `json:"source" enum:"webhook,api,schedule,event"`
	SourceName string `json:"source_name" doc:"of the webhook, the schedule or the subject; of the principal for the API"`
	Outcome    string `json:"outcome" enum:"accepted,duplicate,filtered,held,rejected,signalled"`
	Reason     string `json:"reason,omitempty" doc:"why it was rejected or filtered: bad_signature, missing_signature, stale_timestamp, too_large, bad_body, schema, mapping, ..."`
	Detail     string `json:"detail,omitempty" doc:"the reason for people"`
	Key        string `json:"dedupe_key,omitempty"`
	RunID      string `json:"run_id,omitempty" doc:"the run that it started; of a duplicate, the run that the first one started"`
	StatusURL  string `json:"status_url,omitempty"`
	ReplayOf   string `json:"replay_of,omitempty" doc:"the delivery that this one replayed"`
	Principal  string `json:"principal,omitempty" doc:"who started it by the API, or replayed it"`

	Kind        string            `json:"kind,omitempty" enum:"agent,flow"`
	Name        string            `json:"name,omitempty"`
	Digest      string            `json:"digest,omitempty" doc:"of the version that the run uses"`
	Input       json.RawMessage   `json:"input,omitempty" doc:"absent in lists"`
	Labels      map[string]string `json:"labels,omitempty"`
	Held        bool              `json:"held,omitempty" doc:"kept back while its webhook is paused"`
	AcceptedAt  *time.Time        `json:"accepted_at,omitempty"`
	AnnouncedAt *time.Time        `json:"announced_at,omitempty" doc:"when it was noted that NATS has the start, up to a second later"`
	LandedAt    *time.Time        `json:"landed_at,omitempty" doc:"when the runner was seen to have the run"`

	ReceivedAt time.Time `json:"received_at"`
	Request    *request  `json:"request,omitempty" doc:"what came to the webhook; absent when it came another way, or is older than the log"`
}

// request is what the log has of one HTTP request.
type request struct {
	Webhook     string              `json:"webhook_digest,omitempty" doc:"of the webhook's version that took it"`
	Status      int                 `json:"status,omitempty" doc:"answered; absent for replays"`
	TookUs      int64               `json:"took_us" doc:"microseconds from its head to its outcome"`
	Remote      string              `json:"remote,omitempty" doc:"the peer's address"`
	ContentType string              `json:"content_type,omitempty"`
	EventID     string              `json:"event_id,omitempty" doc:"the provider's id"`
	Count       int64               `json:"count" doc:"how many requests the entry stands for; rejected ones that came too fast share one"`
	BodyBytes   int64               `json:"body_bytes"`
	BodyDigest  string              `json:"body_digest,omitempty"`
	Headers     map[string][]string `json:"headers,omitempty" doc:"secret ones are [redacted]; absent in lists"`
	Query       map[string][]string `json:"query,omitempty" doc:"absent in lists"`
	BodyKept    bool                `json:"body_kept,omitempty" doc:"it can be replayed; absent in lists"`
	Body        string              `json:"body,omitempty" doc:"when it is text; absent in lists"`
	BodyBase64  []byte              `json:"body_base64,omitempty" doc:"when it is not text; absent in lists"`
}

func (a *api) registerDeliveries(d *door.Door) {
	tags := []string{"deliveries"}
	door.Register(d, huma.Operation{
		OperationID: "list-deliveries", Method: http.MethodGet, Path: "/v1/deliveries",
		Summary: "List what came in, newest first: requests at webhooks, also rejected ones, and other starts", Tags: tags,
	}, authn.Viewer, a.listDeliveries)
	door.Register(d, huma.Operation{
		OperationID: "get-delivery", Method: http.MethodGet, Path: "/v1/deliveries/{id}",
		Summary: "Show one delivery", Tags: tags,
	}, authn.Viewer, a.getDelivery)
	a.registerReplays(d)
}

type idCursor struct {
	ID string `json:"i"`
}

func (a *api) listDeliveries(ctx context.Context, in *deliveriesInput) (*deliveriesOutput, error) {
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
	filter := trigger.EntryFilter{Webhook: in.Webhook, Outcome: in.Outcome, Since: in.Since, Until: in.Until}
	list, err := a.svc.Entries(ctx, p.Namespace, filter, trigger.DeliveryID(before.ID), in.Limit+1)
	if err != nil {
		return nil, problem(err)
	}
	items := make([]delivery, 0, len(list))
	for _, e := range list {
		body := deliveryBody(e)
		body.Input = nil
		if r := body.Request; r != nil {
			r.Headers, r.Query = nil, nil
		}
		items = append(items, body)
	}
	return &deliveriesOutput{door.NewPage(items, in.Limit, func(d delivery) any { return idCursor{d.ID} })}, nil
}

func (a *api) getDelivery(ctx context.Context, in *deliveryInput) (*deliveryOutput, error) {
	p, err := principal(ctx)
	if err != nil {
		return nil, err
	}
	if !canonicalUUID(in.ID) {
		return nil, noDelivery(in.ID, p)
	}
	e, err := a.svc.Entry(ctx, p.Namespace, trigger.DeliveryID(in.ID))
	if err != nil {
		return nil, problem(err)
	}
	return &deliveryOutput{deliveryBody(e)}, nil
}

func noDelivery(id string, p authn.Principal) error {
	return door.NotFound("there is no delivery %q in the namespace %s", id, p.Namespace)
}

func canonicalUUID(s string) bool {
	id, err := uuid.Parse(s)
	return err == nil && id.String() == s
}

func deliveryBody(e trigger.Entry) delivery {
	body := delivery{ID: string(e.ID), Outcome: trigger.OutcomeAccepted}
	if d := e.Delivery; d != nil {
		body.Namespace, body.Source, body.SourceName = d.Namespace, d.Source.Kind, d.Source.Name
		body.Key, body.RunID, body.Principal = d.Key, string(d.RunID), d.Principal
		body.Kind, body.Name, body.Digest = d.Ref.Kind, d.Ref.Name, string(d.Ref.Digest)
		body.Input, body.Labels, body.Held = d.Input, d.Labels, d.Held
		body.AcceptedAt, body.AnnouncedAt, body.LandedAt = utc(&d.AcceptedAt), utc(d.AnnouncedAt), utc(d.LandedAt)
		body.ReceivedAt = d.AcceptedAt.UTC()
	}
	if a := e.Attempt; a != nil {
		body.Namespace, body.Source, body.SourceName = a.Namespace, trigger.SourceWebhook, a.Webhook
		body.Outcome, body.Reason, body.Detail = a.Outcome, a.Reason, a.Detail
		body.Key, body.RunID, body.ReplayOf, body.Principal = a.Key, string(a.RunID), string(a.ReplayOf), a.Principal
		body.ReceivedAt = a.ReceivedAt.UTC()
		body.Request = requestBody(a)
	}
	if body.RunID != "" {
		body.StatusURL = "/v1/runs/" + body.RunID
	}
	return body
}

func requestBody(a *trigger.Attempt) *request {
	r := &request{
		Webhook: string(a.Version), Status: a.Status, TookUs: a.Took.Microseconds(), Remote: a.Remote, ContentType: a.ContentType,
		EventID: a.EventID, Count: max(a.Count, 1), BodyBytes: a.BodyBytes, BodyDigest: string(a.BodyDigest),
		Headers: a.Header, Query: a.Query, BodyKept: a.Body != nil,
	}
	if utf8.Valid(a.Body) {
		r.Body = string(a.Body)
	} else {
		r.BodyBase64 = a.Body
	}
	return r
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}
