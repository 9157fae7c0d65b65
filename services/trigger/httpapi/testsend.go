package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/services/trigger"
)

func (a *api) registerTests(d *door.Door) {
	door.Register(d, huma.Operation{
		OperationID: "test-webhook", Method: http.MethodPost, Path: "/v1/webhooks/{name}/test",
		Summary: "Send a webhook a request that is signed as its sender signs",
		Description: "With the webhook's first secret, through the same door: what is accepted starts a run, and everything is in the log. " +
			"The answer is what the sender would have seen.",
		MaxBodyBytes: 512 << 10,
		Tags:         []string{"deliveries"},
	}, authn.Operator, a.test)
}

type testInput struct {
	Name string `path:"name" maxLength:"62"`
	Body struct {
		Body        string            `json:"body" doc:"the request's body as it is to be sent"`
		ContentType string            `json:"content_type,omitempty" maxLength:"200" doc:"application/json when absent"`
		Headers     map[string]string `json:"headers,omitempty" doc:"to add: X-GitHub-Event and the like"`
		Query       map[string]string `json:"query,omitempty"`
	}
}

type testOutput struct{ Body tested }

// tested is the answer that the sender would have seen.
type tested struct {
	Status     int               `json:"status"`
	Headers    map[string]string `json:"headers"`
	Body       string            `json:"body"`
	RunID      string            `json:"run_id,omitempty"`
	DeliveryID string            `json:"delivery_id,omitempty" doc:"its entry in the log"`
}

func (a *api) test(ctx context.Context, in *testInput) (*testOutput, error) {
	p, err := principal(ctx)
	if err != nil {
		return nil, err
	}
	header, query := http.Header{}, url.Values{}
	for name, value := range in.Body.Headers {
		header.Set(name, value)
	}
	for name, value := range in.Body.Query {
		query.Set(name, value)
	}
	header.Set("User-Agent", "holdfast-webhooks-test")
	header.Set("Content-Type", "application/json")
	if t := in.Body.ContentType; t != "" {
		header.Set("Content-Type", t)
	}
	signed, err := a.svc.TestRequest(ctx, p.Namespace, in.Name, trigger.Request{
		Method: http.MethodPost, Header: header, Query: query, RawQuery: query.Encode(), Body: []byte(in.Body.Body), At: a.now(),
	})
	if err != nil {
		return nil, problem(err)
	}
	target := url.URL{Path: "/hooks/" + p.Namespace + "/" + in.Name, RawQuery: signed.RawQuery}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), bytes.NewReader(signed.Body))
	if err != nil {
		return nil, err
	}
	r.Header, r.RequestURI, r.RemoteAddr = signed.Header, target.RequestURI(), "test-send"
	var w answer
	a.door.Handler().ServeHTTP(&w, r)
	out := tested{Status: w.status, Headers: map[string]string{}, Body: w.body.String(), DeliveryID: w.Header().Get(headerDelivery)}
	for _, name := range []string{"Content-Type", "Location", "Retry-After", headerReplayed, headerDelivery} {
		if v := w.Header().Get(name); v != "" {
			out.Headers[name] = v
		}
	}
	var body started
	if json.Unmarshal(w.body.Bytes(), &body) == nil {
		out.RunID = body.RunID
	}
	return &testOutput{out}, nil
}

// answer collects what a handler answers.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header {
	if a.header == nil {
		a.header = http.Header{}
	}
	return a.header
}

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}
