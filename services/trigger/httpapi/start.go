package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/trigger"
)

// headerRun names the run in every answer to a start, streams included.
const headerRun = "Holdfast-Run-Id"

func (a *api) registerStarts(d *door.Door) {
	for _, kind := range []string{events.KindAgent, events.KindFlow} {
		d.RawOperation(huma.Operation{
			OperationID: "start-" + kind,
			Metadata:    door.Work(),
			Method:      http.MethodPost,
			Path:        "/v1/" + kind + "s/{name}/runs",
			Summary:     "Start a run of " + article[kind],
			Description: "Answered once the start is stored: it takes effect exactly once, whatever happens to the connection. " +
				"The same Idempotency-Key with the same request is answered with the same run and Idempotency-Replayed: true, with another request by 422. " +
				"Storing the key and the run is one step, so a repeat never meets a first request in progress (409): it waits for that step. " +
				"A key is kept as long as its delivery. The body may be sent with Content-Encoding: gzip.",
			Parameters: []*huma.Param{
				door.PathText("name", "of the "+kind),
				door.HeaderText("Idempotency-Key", fmt.Sprintf("names this request: a repeat starts nothing new. At most %d printable ASCII characters, quoted or bare", trigger.MaxKey)),
				door.HeaderText("Prefer", "wait=N: keep the answer back for up to N seconds, until the run has ended"),
				door.QueryNumber("wait", "as Prefer: wait=N"),
				door.HeaderText("Accept", "text/event-stream: answer with the run's events from the first one on"),
			},
			RequestBody: startRequest(),
			Responses: map[string]*huma.Response{
				"200": {
					Description: "The run ended while the answer waited for it; or its events, id = seq, as GET /v1/runs/{id}/events has them, pieces of answers included, with \"event: end\" last",
					Headers:     startHeaders(),
					Content: map[string]*huma.MediaType{
						"application/json":  {Schema: door.SchemaOf[finished](d)},
						"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}},
					},
				},
				"202": {
					Description: "The start is stored",
					Headers:     startHeaders(),
					Content:     map[string]*huma.MediaType{"application/json": {Schema: door.SchemaOf[started](d)}},
				},
			},
			MaxBodyBytes: door.OwnBody,
			Tags:         []string{"runs"},
		}, authn.Operator, a.start(kind))
	}
}

func startHeaders() map[string]*huma.Header {
	text := func(doc string) *huma.Header {
		return &huma.Header{Description: doc, Schema: &huma.Schema{Type: huma.TypeString}}
	}
	return map[string]*huma.Header{
		"Location":           text("/v1/runs/{id}"),
		headerRun:            text("id of the run"),
		headerReplayed:       text("true when the key had started this run before"),
		"Preference-Applied": text("wait=N when the answer was kept back"),
	}
}

// startRequest describes the body that start reads by itself, so that no number
// in the input passes through a float.
func startRequest() *huma.RequestBody {
	return &huma.RequestBody{
		Description: "The run's input, checked against the JSON Schema of the agent or flow, its labels, and where its end is posted to.",
		Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{
			Type: huma.TypeObject,
			Properties: map[string]*huma.Schema{
				"input": {Description: "any JSON value; {} when it is absent"},
				"callback": {
					Type: huma.TypeObject, Required: []string{"url"}, AdditionalProperties: false,
					Description: "where the run's end is posted to, signed; only for an agent or flow whose definition has a callback section",
					Properties:  map[string]*huma.Schema{"url": {Type: huma.TypeString, Format: "uri", MaxLength: new(spec.MaxCallbackURL)}},
				},
				"deadline": {
					Type: huma.TypeString, MaxLength: new(64),
					Description: "when the run ends at the latest, as expired: a time from the acceptance on like 90m or 2d, or a moment like 2026-12-01T08:00:00Z; an earlier one of the definition holds",
				},
				"priority": {
					Type: huma.TypeString, Enum: []any{events.PriorityInteractive, events.PriorityBatch},
					Description: "batch lets other runs come before it; it lowers what the definition says and never lifts it. interactive is for runs of definitions that say nothing",
				},
				"labels": {
					Type: huma.TypeObject, AdditionalProperties: &huma.Schema{Type: huma.TypeString},
					Description: fmt.Sprintf("at most %d, keys of 1 to %d bytes, values of at most %d", trigger.MaxLabels, trigger.MaxLabelKey, trigger.MaxLabelValue),
				},
			},
			AdditionalProperties: false,
		}}},
	}
}

// started is the answer to an accepted start.
type started struct {
	RunID     string `json:"run_id"`
	Status    string `json:"status" doc:"queued when the start was accepted; status_url has the present one"`
	StatusURL string `json:"status_url"`
}

// finished is the answer to a start whose run has ended.
type finished struct {
	RunID     string          `json:"run_id"`
	Status    string          `json:"status" enum:"completed,failed,cancelled,expired"`
	StatusURL string          `json:"status_url"`
	Output    json.RawMessage `json:"output,omitempty" doc:"of a run that completed"`
	Error     json.RawMessage `json:"error,omitempty" doc:"of one that did not: code and message"`
}

func startedBody(a trigger.Accepted) started {
	return started{RunID: string(a.RunID), Status: events.StatusQueued, StatusURL: "/v1/runs/" + string(a.RunID)}
}

// start takes the request, and then answers as it was asked to: at once, with
// the end of the run, or with its events. Nothing that happens to the answer
// changes the run.
func (a *api) start(kind string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := principal(r.Context())
		if err != nil {
			door.Fail(w, r, err)
			return
		}
		wait, err := waitOf(r, a.svc.Bounds().MaxWait)
		if err != nil {
			door.Fail(w, r, err)
			return
		}
		accepted, err := a.accept(r, p, kind)
		if err != nil {
			door.Fail(w, r, problem(err))
			return
		}
		body := startedBody(accepted)
		h := w.Header()
		h.Set("Location", body.StatusURL)
		h.Set(headerRun, body.RunID)
		if accepted.Repeat {
			h.Set(headerReplayed, "true")
		}
		switch {
		case door.Accepts(r, "text/event-stream"):
			a.stream(w, r, p.Namespace, accepted.RunID)
			return
		case wait > 0:
			h.Set("Preference-Applied", "wait="+strconv.Itoa(int(wait/time.Second)))
			if out, ended := a.await(w, r, p.Namespace, accepted.RunID, wait); ended {
				answerJSON(w, r, http.StatusOK, finished{
					RunID: body.RunID, Status: out.Status, StatusURL: body.StatusURL, Output: out.Output, Error: out.Error,
				})
				return
			}
		}
		answerJSON(w, r, http.StatusAccepted, body)
	})
}

// accept reads the request and commits the start. The body is let go of before
// the answer, which may take long.
func (a *api) accept(r *http.Request, p authn.Principal, kind string) (trigger.Accepted, error) {
	key, err := keyOf(r)
	if err != nil {
		return trigger.Accepted{}, err
	}
	body, done, err := door.ReadBody(r, a.svc.Bounds().MaxBody)
	defer done()
	if err != nil {
		return trigger.Accepted{}, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), door.DefaultTimeout)
	defer cancel()
	return a.svc.API(ctx, trigger.APIStart{
		Namespace: p.Namespace, Principal: p.Name, Kind: kind, Name: r.PathValue("name"), Key: key, Body: body,
	})
}

// await keeps the answer back. It reports false when the run has not ended in
// time, the process stops, or the state cannot be read: the start stands.
func (a *api) await(w http.ResponseWriter, r *http.Request, namespace string, run events.RunID, wait time.Duration) (trigger.Outcome, bool) {
	const toWrite = time.Minute
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(wait + toWrite))
	ctx, cancel := door.Lasting(r)
	defer cancel()
	ctx, end := context.WithTimeout(ctx, wait)
	defer end()
	out, err := a.svc.Await(ctx, namespace, run)
	return out, err == nil
}

// stream answers with the run's events.
func (a *api) stream(w http.ResponseWriter, r *http.Request, namespace string, run events.RunID) {
	ctx, cancel := door.Lasting(r)
	defer cancel()
	stream, err := door.NewStream(w)
	if err != nil {
		return // the client is gone; the run goes on
	}
	// Whatever ends the stream early, the client resumes at the run's own events.
	_ = a.svc.Stream(ctx, namespace, run, stream)
}

func answerJSON(w http.ResponseWriter, r *http.Request, status int, v any) {
	body, err := events.Marshal(v)
	if err != nil {
		door.Fail(w, r, err)
		return
	}
	writeJSON(w, status, body)
}
