// Package model calls model providers, one file each, through their official
// SDKs with the SDKs' own retries off: a retry is a row in the journal.
package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/param"

	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/runner"
)

// Env is where adapters find what a Model document refers to.
type Env struct {
	LookupEnv func(string) (string, bool)
	ReadFile  func(string) ([]byte, error)
	Egress    *egress.Client // sends the requests to providers
	// Stall is how long a stream may send nothing, not even a ping; zero means a
	// minute.
	Stall time.Duration
}

// Anthropic speaks the Messages API. It is safe for concurrent use and keeps
// no state between calls.
type Anthropic struct{ env Env }

var _ runner.Model = (*Anthropic)(nil)

// NewAnthropic returns an adapter.
func NewAnthropic(env Env) *Anthropic { return &Anthropic{env: env} }

// Answer makes one request and reads the answer as it is written. The answer's
// Raw is the provider's message, put together from the stream's own JSON text,
// or the response body byte for byte from a server that answers without a
// stream; histories are replayed from it and never through typed values, which
// drop fields they do not know.
func (a *Anthropic) Answer(ctx context.Context, r runner.Request) (runner.Answer, error) {
	key, err := r.Model.APIKey.Resolve(a.env.LookupEnv, a.env.ReadFile)
	if err != nil {
		return runner.Answer{}, &runner.ModelError{Code: "auth", Err: err}
	}
	params, err := messageParams(r)
	if err != nil {
		return runner.Answer{}, &runner.ModelError{Code: "transcript", Err: err}
	}
	hc, err := a.env.client(r.Model)
	if err != nil {
		return runner.Answer{}, &runner.ModelError{Code: "tls", Err: err}
	}
	client := anthropic.NewClient(a.options(r, config.Secret(key), hc)...)
	ctx, cancel := context.WithTimeout(ctx, r.Model.Timeout.Std())
	defer cancel()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	began := time.Now()
	var response *http.Response
	if err := client.Post(ctx, "v1/messages", params, &response, option.WithJSONSet("stream", true)); err != nil {
		return runner.Answer{}, modelError(err)
	}
	out, err := a.read(ctx, giveUp, response, r.Show)
	if err != nil {
		return runner.Answer{}, err
	}
	out.Duration, out.RequestID = time.Since(began), response.Header.Get("request-id")
	return out, nil
}

func (a *Anthropic) options(r runner.Request, key config.Secret, hc *http.Client) []option.RequestOption {
	opts := []option.RequestOption{
		option.WithoutEnvironmentDefaults(), option.WithHTTPClient(hc), option.WithAPIKey(key.Reveal()), option.WithMaxRetries(0), option.WithoutOpenTelemetry(),
		option.WithHeader("X-Client-Request-Id", fmt.Sprintf("%s/%d/%d", r.RunID, r.Seq, r.Epoch)),
	}
	if base := r.Model.BaseURL.Resolve(a.env.LookupEnv); base != "" {
		opts = append(opts, option.WithBaseURL(base))
	}
	return opts
}

func messageParams(r runner.Request) (anthropic.MessageNewParams, error) {
	p := anthropic.MessageNewParams{Model: anthropic.Model(r.Model.Model), MaxTokens: r.MaxTokens}
	p.Metadata.UserID = anthropic.String(string(r.RunID)) // opaque: one conversation, one id
	if r.System != "" {
		p.System = []anthropic.TextBlockParam{{Text: r.System}}
	}
	for _, t := range r.Tools {
		tool := anthropic.ToolParam{Name: t.Name, Description: anthropic.String(t.Description)}
		tool.InputSchema = param.Override[anthropic.ToolInputSchemaParam](schemaOf(t.Tool))
		p.Tools = append(p.Tools, anthropic.ToolUnionParam{OfTool: &tool})
	}
	for _, e := range r.Entries {
		raw, err := entryJSON(e)
		if err != nil {
			return p, err
		}
		p.Messages = append(p.Messages, param.Override[anthropic.MessageParam](raw))
	}
	return p, nil
}

func schemaOf(t *spec.Tool) json.RawMessage {
	if raw := t.Input.JSON(); raw != nil {
		return raw
	}
	return json.RawMessage(`{"type":"object"}`)
}

type toolResult struct {
	Type      string `json:"type"`
	ToolUseID string `json:"tool_use_id"`
	Content   string `json:"content"`
	IsError   bool   `json:"is_error,omitempty"`
}

// entryJSON is one message of the history as it is sent.
func entryJSON(e runner.Entry) (json.RawMessage, error) {
	switch {
	case e.Assistant != "":
		var body struct {
			Content json.RawMessage `json:"content"`
		}
		if err := json.Unmarshal([]byte(e.Assistant), &body); err != nil {
			return nil, fmt.Errorf("stored answer: %w", err)
		}
		return json.RawMessage(`{"role":"assistant","content":` + string(body.Content) + `}`), nil
	case len(e.Results) > 0:
		var blocks []toolResult
		for _, r := range e.Results {
			blocks = append(blocks, toolResult{Type: "tool_result", ToolUseID: r.ProviderID, Content: r.Text, IsError: r.Error})
		}
		return events.Marshal(map[string]any{"role": "user", "content": blocks})
	}
	return events.Marshal(map[string]any{"role": "user", "content": e.User})
}

// readMessage reads what the loop needs; everything else stays in Raw. The
// output tokens are whole when counted is set.
func readMessage(raw string, counted bool) (runner.Answer, error) {
	var body struct {
		Model      string `json:"model"`
		StopReason string `json:"stop_reason"`
		Content    []struct {
			Type  string          `json:"type"`
			Text  string          `json:"text"`
			ID    string          `json:"id"`
			Name  string          `json:"name"`
			Input json.RawMessage `json:"input"`
		} `json:"content"`
		Usage *struct {
			Input      int64 `json:"input_tokens"`
			Output     int64 `json:"output_tokens"`
			CacheRead  int64 `json:"cache_read_input_tokens"`
			CacheWrite int64 `json:"cache_creation_input_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal([]byte(raw), &body); err != nil {
		return runner.Answer{}, &runner.ModelError{Code: "unreadable_answer", Retry: true, Err: err}
	}
	out := runner.Answer{Model: body.Model, Raw: raw, StopReason: body.StopReason}
	var text strings.Builder
	for _, c := range body.Content {
		switch c.Type {
		case "text":
			text.WriteString(c.Text)
		case "tool_use":
			out.Calls = append(out.Calls, runner.ModelCall{ProviderID: c.ID, Tool: c.Name, Args: c.Input})
		}
	}
	out.Text = text.String()
	if body.Usage == nil || body.Usage.Input+body.Usage.CacheRead+body.Usage.CacheWrite == 0 {
		// A provider that does not say what it cost: count bytes, conservatively.
		out.Usage = events.Usage{InputTokens: 1, OutputTokens: int64(len(raw)/3 + 1), Estimated: true}
		return out, nil
	}
	u := body.Usage
	out.Usage = events.Usage{InputTokens: u.Input + u.CacheRead + u.CacheWrite, CacheReadTokens: u.CacheRead, CacheWriteTokens: u.CacheWrite, OutputTokens: u.Output}
	if !counted {
		out.Usage.OutputTokens, out.Usage.Estimated = max(u.Output, int64(len(raw)/3+1)), true
	}
	return out, nil
}

// modelError sorts a failed request. 408, 409, 429, 5xx and a broken
// connection may succeed later; anything else the provider refused for good.
func modelError(err error) *runner.ModelError {
	apiErr, ok := errors.AsType[*anthropic.Error](err)
	if !ok {
		if open, ok := errors.AsType[*egress.OpenError](err); ok {
			return &runner.ModelError{Code: "circuit_open", Retry: true, RetryAfter: open.Wait, Err: open}
		}
		code := "connection"
		if errors.Is(err, context.DeadlineExceeded) {
			code = "timeout"
		}
		return &runner.ModelError{Code: code, Retry: true, Err: err}
	}
	e := &runner.ModelError{Code: string(apiErr.Type()), Err: fmt.Errorf("status %d, request %s: %s", apiErr.StatusCode, apiErr.RequestID, apiErr.Type())}
	if e.Code == "" {
		e.Code = "status_" + strconv.Itoa(apiErr.StatusCode)
	}
	switch apiErr.StatusCode {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		e.Retry = true
	default:
		e.Retry = apiErr.StatusCode >= 500
	}
	if e.Retry && apiErr.Response != nil {
		e.RetryAfter = retryAfter(apiErr.Response.Header.Get("retry-after"), time.Now())
	}
	if apiErr.StatusCode == http.StatusBadRequest {
		e.Err = fmt.Errorf("%w: %.300s", e.Err, apiErr.RawJSON())
	}
	return e
}

// retryAfter reads the header in either form of RFC 9110, section 10.2.3; a
// date is rounded up, never down. Zero when absent or not understood.
func retryAfter(v string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(strings.TrimSpace(v)); err == nil && n > 0 {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil && at.After(now) {
		return at.Sub(now).Truncate(time.Second) + time.Second
	}
	return 0
}
