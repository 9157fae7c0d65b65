// Package model calls model providers, one file each, through their official
// SDKs with the SDKs' own retries off: a retry is a row in the journal.
package model

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
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

// anthropicURL is where Anthropic itself answers.
const anthropicURL = "https://api.anthropic.com"

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
	base, err := a.env.baseURL(r.Model, anthropicURL)
	if err != nil {
		return runner.Answer{}, err
	}
	client := anthropic.NewClient(a.options(r, base, config.Secret(key), hc)...)
	ctx, cancel := context.WithTimeout(ctx, r.Model.Timeout.Std())
	defer cancel()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	began := time.Now()
	var response *http.Response
	if err := client.Post(ctx, "v1/messages", params, &response, option.WithJSONSet("stream", true), option.WithResponseInto(&response)); err != nil {
		return runner.Answer{}, requestError(ctx, err, response)
	}
	var message assembly
	raw, streamed, err := a.env.read(ctx, giveUp, response, r.Show, &message)
	if err != nil {
		return runner.Answer{}, err
	}
	out, err := readMessage(r, raw, streamed && !message.counted)
	if err != nil {
		return runner.Answer{}, err
	}
	out.Duration, out.RequestID = time.Since(began), requestID(response.Header)
	return out, nil
}

func (a *Anthropic) options(r runner.Request, base string, key config.Secret, hc *http.Client) []option.RequestOption {
	return []option.RequestOption{
		option.WithoutEnvironmentDefaults(), option.WithHTTPClient(hc), option.WithAPIKey(key.Reveal()), option.WithMaxRetries(0), option.WithoutOpenTelemetry(),
		option.WithHeader("X-Client-Request-Id", fmt.Sprintf("%s/%d/%d", r.RunID, r.Seq, r.Epoch)),
		option.WithBaseURL(base),
	}
}

func messageParams(r runner.Request) (anthropic.MessageNewParams, error) {
	p := anthropic.MessageNewParams{Model: anthropic.Model(r.Model.Model), MaxTokens: r.MaxTokens}
	p.Metadata.UserID = anthropic.String(string(r.RunID)) // opaque: one conversation, one id
	for _, t := range r.Tools {
		tool := anthropic.ToolParam{Name: t.Name, Description: anthropic.String(t.Description)}
		tool.InputSchema = param.Override[anthropic.ToolInputSchemaParam](schemaOf(t.Tool))
		p.Tools = append(p.Tools, anthropic.ToolUnionParam{OfTool: &tool})
	}
	// What is frozen is kept in the provider's cache, and so is the history: the
	// next request begins with all of this one, and marks where it ended. The provider
	// looks back only some twenty blocks from a mark, and an answer with its results may
	// have more.
	var cached anthropic.CacheControlEphemeralParam // as it is, nothing is asked for
	if r.Model.PromptCache != spec.PromptCacheNone {
		cached = anthropic.NewCacheControlEphemeralParam()
	}
	switch {
	case r.System != "":
		p.System = []anthropic.TextBlockParam{{Text: r.System, CacheControl: cached}}
	case len(p.Tools) > 0:
		p.Tools[len(p.Tools)-1].OfTool.CacheControl = cached
	}
	marked := markedEntries(r)
	for i, e := range r.Entries {
		raw, err := entryJSON(e, slices.Contains(marked, i))
		if err != nil {
			return p, err
		}
		if raw != nil {
			p.Messages = append(p.Messages, param.Override[anthropic.MessageParam](raw))
		}
	}
	return p, nil
}

// markedEntries are those behind which the provider is asked to cache: the last
// message, and the one that was the last of the request before.
func markedEntries(r runner.Request) (marked []int) {
	if r.Model.PromptCache == spec.PromptCacheNone {
		return nil
	}
	for i, e := range slices.Backward(r.Entries) {
		if e.Assistant == "" {
			if marked = append(marked, i); len(marked) == 2 {
				break
			}
		}
	}
	return marked
}

func schemaOf(t *spec.Tool) json.RawMessage {
	if raw := t.AskedInput().JSON(); raw != nil {
		return raw
	}
	return json.RawMessage(`{"type":"object"}`)
}

type cacheControl struct {
	Type string `json:"type"`
}

type toolResult struct {
	Type         string        `json:"type"`
	ToolUseID    string        `json:"tool_use_id"`
	Content      string        `json:"content"`
	IsError      bool          `json:"is_error,omitempty"`
	CacheControl *cacheControl `json:"cache_control,omitempty"`
}

type userText struct {
	Type         string        `json:"type"`
	Text         string        `json:"text"`
	CacheControl *cacheControl `json:"cache_control,omitempty"`
}

// entryJSON is one message of the history as it is sent, nil for one without
// content. A marked one ends what the provider is to keep in its cache.
func entryJSON(e runner.Entry, marked bool) (json.RawMessage, error) {
	var cached *cacheControl
	if marked {
		cached = &cacheControl{Type: "ephemeral"}
	}
	switch {
	case e.Assistant != "":
		return replayed(e.Assistant)
	case len(e.Results) > 0:
		var blocks []any
		for _, r := range e.Results {
			blocks = append(blocks, &toolResult{Type: "tool_result", ToolUseID: r.ProviderID, Content: r.Text, IsError: r.Error})
		}
		if e.User != "" { // behind the results: the API wants them first
			blocks = append(blocks, userText{Type: "text", Text: e.User, CacheControl: cached})
		} else {
			blocks[len(blocks)-1].(*toolResult).CacheControl = cached
		}
		return events.Marshal(map[string]any{"role": "user", "content": blocks})
	}
	return events.Marshal(map[string]any{"role": "user", "content": []userText{{Type: "text", Text: e.User, CacheControl: cached}}})
}

// replayed is a stored answer as history, byte for byte but for what the API
// gives and does not take: empty text is left out, arguments that are no object are
// an empty one, and a name that no tool can have is one that it could. The call's result
// says what was wrong.
func replayed(stored string) (json.RawMessage, error) {
	var body struct {
		Content []json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal([]byte(stored), &body); err != nil {
		return nil, fmt.Errorf("stored answer: %w", err)
	}
	var kept [][]byte
	for _, raw := range body.Content {
		b, err := parseObject(raw)
		if err != nil {
			return nil, fmt.Errorf("stored answer: %w", err)
		}
		switch kind := b.text("type"); {
		case kind == "text" && strings.TrimSpace(b.text("text")) == "":
			continue
		case kind == "tool_use":
			changed := mendName(b)
			if !isObject(b.values["input"]) {
				b.set("input", json.RawMessage(`{}`))
				changed = true
			}
			if changed {
				if raw, err = b.json(); err != nil {
					return nil, err
				}
			}
		}
		kept = append(kept, raw)
	}
	if len(kept) == 0 {
		return nil, nil
	}
	return append(append([]byte(`{"role":"assistant","content":[`), bytes.Join(kept, []byte{','})...), `]}`...), nil
}

// readMessage reads what the loop needs; everything else stays in Raw. The
// output tokens are not whole when partial is set.
func readMessage(r runner.Request, raw string, partial bool) (runner.Answer, error) {
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
		Usage struct {
			Input      count `json:"input_tokens"`
			Output     count `json:"output_tokens"`
			CacheRead  count `json:"cache_read_input_tokens"`
			CacheWrite count `json:"cache_creation_input_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal([]byte(raw), &body); err != nil {
		return runner.Answer{}, unreadable(err)
	}
	out := runner.Answer{Model: body.Model, Raw: raw, StopReason: body.StopReason}
	var text strings.Builder
	for _, c := range body.Content {
		switch c.Type {
		case "text":
			text.WriteString(c.Text)
		case "tool_use":
			out.Calls = append(out.Calls, runner.ModelCall{ProviderID: c.ID, Tool: c.Name, Args: c.Input})
		case "thinking", "redacted_thinking":
			out.Bound = true
		}
	}
	out.Text = text.String()
	u := body.Usage
	out.Usage = reported{input: u.Input + u.CacheRead + u.CacheWrite, read: u.CacheRead, write: u.CacheWrite, output: u.Output, partial: partial}.usage(r, out)
	return out, nil
}
