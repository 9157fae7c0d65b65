package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// api is one person or program at the HTTP doors.
type api struct {
	base  string
	token string
	http  *http.Client
}

func newAPI(base, token string) *api {
	// Each post is a connection of its own, like two browsers.
	return &api{base: base, token: token, http: &http.Client{
		Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true},
	}}
}

// status is an answer that is not 2xx.
type status struct {
	Code int
	Body string
}

func (s *status) Error() string { return fmt.Sprintf("status %d: %.300s", s.Code, s.Body) }

// call sends one request and decodes a 2xx answer into out. Any other answer is
// a *status. header lists names and values.
func (a *api) call(ctx context.Context, method, path string, in, out any, header ...string) error {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, body)
	if err != nil {
		return err
	}
	if in != nil {
		req.Header.Set("content-type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("%s %s: %w", method, path, &status{Code: resp.StatusCode, Body: string(raw)})
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// document is one file of definitions.
type document struct {
	File string `json:"file"`
	Text string `json:"text"`
}

func (a *api) apply(ctx context.Context, docs []document) error {
	return a.call(ctx, http.MethodPost, "/v1/resources", map[string]any{"documents": docs}, nil)
}

// triggerSchedule starts a schedule's run now. The same key again is the same
// run.
func (a *api) triggerSchedule(ctx context.Context, name, key string) (runID string, err error) {
	var out struct {
		RunID string `json:"run_id"`
	}
	err = a.call(ctx, http.MethodPost, "/v1/schedules/"+name+"/trigger", nil, &out, "Idempotency-Key", key)
	if err == nil && out.RunID == "" {
		err = fmt.Errorf("trigger schedule %s: the answer names no run", name)
	}
	return out.RunID, err
}

// request is one question to a person.
type request struct {
	ApprovalID string          `json:"approval_id"`
	Kind       string          `json:"kind"`
	RunID      string          `json:"run_id"`
	Tool       string          `json:"tool"`
	Args       json.RawMessage `json:"args"`
	Digest     string          `json:"digest"`
	Key        string          `json:"key"`
}

func (r request) business() string {
	var args struct{ Night, Shop, Product string }
	if json.Unmarshal(r.Args, &args) != nil {
		return ""
	}
	return args.Night + "/" + args.Shop + "/" + args.Product
}

func (a *api) pendingApprovals(ctx context.Context) ([]request, error) {
	var page struct {
		Items []request `json:"items"`
	}
	err := a.call(ctx, http.MethodGet, "/v1/approvals?state=pending&limit=200", nil, &page)
	return page.Items, err
}

func (a *api) decide(ctx context.Context, r request, decision, comment string) error {
	return a.call(ctx, http.MethodPost, "/v1/approvals/"+r.ApprovalID+"/decide",
		map[string]any{"decision": decision, "comment": comment, "digest": r.Digest}, nil)
}

func (a *api) raise(ctx context.Context, runID, pool string, to int64) error {
	return a.call(ctx, http.MethodPost, "/v1/runs/"+runID+"/budget", map[string]any{"budget": "pool:" + pool, "to": to}, nil)
}

// run is the part of GET /v1/runs/{id} that is read here.
type run struct {
	RunID   string          `json:"run_id"`
	Status  string          `json:"status"`
	Waiting string          `json:"waiting"`
	Error   json.RawMessage `json:"error"`
}

func (a *api) run(ctx context.Context, id string) (run, error) {
	var r run
	err := a.call(ctx, http.MethodGet, "/v1/runs/"+id, nil, &r)
	return r, err
}

func (a *api) createToken(ctx context.Context, name, role string) (token string, err error) {
	var out struct {
		Token string `json:"token"`
	}
	err = a.call(ctx, http.MethodPost, "/v1/tokens", map[string]string{"name": name, "role": role}, &out)
	if err == nil && out.Token == "" {
		err = fmt.Errorf("create token %s: the answer has no token", name)
	}
	return out.Token, err
}
