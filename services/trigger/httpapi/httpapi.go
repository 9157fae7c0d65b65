package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/trigger"
)

const (
	headerReplayed = "Idempotency-Replayed"
	headerDelivery = "Holdfast-Delivery" // id of a request's entry in the delivery log
)

type api struct {
	svc  *trigger.Service
	door *door.Door
	now  clock
}

// Register hangs the service's routes into d.
func Register(d *door.Door, svc *trigger.Service) { register(d, svc, time.Now) }

func register(d *door.Door, svc *trigger.Service, now clock) {
	a := &api{svc: svc, door: d, now: now}
	d.Raw("POST /hooks/{name}", door.Public, http.HandlerFunc(a.hook))
	d.Raw("POST /hooks/{namespace}/{name}", door.Public, http.HandlerFunc(a.hook))
	for _, kind := range []string{events.KindAgent, events.KindFlow} {
		body := startRequest()
		door.Register(d, huma.Operation{
			OperationID:      "start-" + kind,
			Method:           http.MethodPost,
			Path:             "/v1/" + kind + "s/{name}/runs",
			Summary:          "Start a run of " + article[kind],
			Description:      "Answered once the start is stored: it takes effect exactly once. The same Idempotency-Key is answered with the same run.",
			DefaultStatus:    http.StatusAccepted,
			MaxBodyBytes:     trigger.MaxBody,
			RequestBody:      body,
			SkipValidateBody: true, // the service reads the bytes, and names what is wrong
			Tags:             []string{"runs"},
		}, authn.Operator, a.start(kind))
		// Reading raw bytes made huma describe them so, and demand some.
		body.Required = false
		delete(body.Content, "application/octet-stream")
	}
	a.registerSchedules(d)
	a.registerDeliveries(d)
	a.registerTests(d)
}

var article = map[string]string{events.KindAgent: "an agent", events.KindFlow: "a flow"}

// startRequest describes the body that start reads by itself, so that no number
// in the input passes through a float.
func startRequest() *huma.RequestBody {
	return &huma.RequestBody{
		Description: "The run's input, checked against the JSON Schema of the agent or flow, and its labels.",
		Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{
			Type: huma.TypeObject,
			Properties: map[string]*huma.Schema{
				"input": {Description: "any JSON value; {} when it is absent"},
				"labels": {
					Type: huma.TypeObject, AdditionalProperties: &huma.Schema{Type: huma.TypeString},
					Description: fmt.Sprintf("at most %d, keys of 1 to %d bytes, values of at most %d", trigger.MaxLabels, trigger.MaxLabelKey, trigger.MaxLabelValue),
				},
			},
			AdditionalProperties: false,
		}}},
	}
}

type startInput struct {
	Name    string `path:"name" maxLength:"62"`
	Key     string `header:"Idempotency-Key" doc:"names this request: a repeat starts nothing new"`
	RawBody []byte
}

type startOutput struct {
	Location string `header:"Location"`
	Replayed string `header:"Idempotency-Replayed"`
	Body     started
}

// started is the answer to an accepted start.
type started struct {
	RunID     string `json:"run_id"`
	Status    string `json:"status" doc:"queued when the start was accepted; status_url has the present one"`
	StatusURL string `json:"status_url"`
}

func startedBody(a trigger.Accepted) started {
	return started{RunID: string(a.RunID), Status: events.StatusQueued, StatusURL: "/v1/runs/" + string(a.RunID)}
}

func startAnswer(a trigger.Accepted) *startOutput {
	out := &startOutput{Body: startedBody(a)}
	out.Location = out.Body.StatusURL
	if a.Repeat {
		out.Replayed = "true"
	}
	return out
}

func (a *api) start(kind string) func(context.Context, *startInput) (*startOutput, error) {
	return func(ctx context.Context, in *startInput) (*startOutput, error) {
		p, err := principal(ctx)
		if err != nil {
			return nil, err
		}
		key, err := idempotencyKey(in.Key)
		if err != nil {
			return nil, problem(err)
		}
		accepted, err := a.svc.API(ctx, trigger.APIStart{
			Namespace: p.Namespace, Principal: p.Name, Kind: kind, Name: in.Name, Key: key, Body: in.RawBody,
		})
		if err != nil {
			return nil, problem(err)
		}
		return startAnswer(accepted), nil
	}
}

func principal(ctx context.Context) (authn.Principal, error) {
	p, ok := authn.FromContext(ctx)
	if !ok {
		return authn.Principal{}, fmt.Errorf("request without a principal behind a door that needs one")
	}
	return p, nil
}
