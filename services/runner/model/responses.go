package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/runner"
)

// Responses speaks OpenAI's Responses API without its memory: nothing is stored
// there, reasoning comes back encrypted and is replayed as it came. It is safe
// for concurrent use.
type Responses struct {
	openAI
	// plain are the models that refused to encrypt reasoning; they have none.
	plain sync.Map
}

var _ runner.Model = (*Responses)(nil)

// NewResponses returns an adapter.
func NewResponses(env Env) *Responses { return &Responses{openAI: openAI{env}} }

// Answer makes one request and reads the answer as it is written. The answer's
// Raw is the response as the stream's last event or the body gives it, without
// the instructions and tools that it repeats; histories are replayed from its
// output items.
func (a *Responses) Answer(ctx context.Context, r runner.Request) (runner.Answer, error) {
	who := a.baseURL(r) + " " + r.Model.Model
	_, plain := a.plain.Load(who)
	out, err := a.ask(ctx, r, !plain)
	if e, ok := errors.AsType[*runner.ModelError](err); ok && !plain && !e.Retry && strings.Contains(strings.ToLower(e.Error()), "encrypted content is not supported") {
		// Refused before anything was made of it: this model does not reason.
		a.plain.Store(who, true)
		return a.ask(ctx, r, false)
	}
	return out, err
}

func (a *Responses) ask(ctx context.Context, r runner.Request, encrypted bool) (runner.Answer, error) {
	request, err := a.request(r, encrypted)
	if err != nil {
		return runner.Answer{}, &runner.ModelError{Code: "transcript", Err: err}
	}
	raw, _, head, err := a.post(ctx, r, "responses", request, &response{})
	if err != nil {
		return runner.Answer{}, err
	}
	if raw, err = withoutEcho(raw); err != nil {
		return runner.Answer{}, unreadable(err)
	}
	out, err := readResponse(r, raw)
	if err != nil {
		return runner.Answer{}, err
	}
	out.Duration, out.RequestID = head.Duration, head.RequestID
	return out, nil
}

func (a *Responses) request(r runner.Request, encrypted bool) ([]byte, error) {
	var input []json.RawMessage
	say := func(v any) error {
		raw, err := events.Marshal(v)
		input = append(input, raw)
		return err
	}
	type text struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	type result struct {
		Type   string `json:"type"`
		CallID string `json:"call_id"`
		Output string `json:"output"`
	}
	for i, e := range r.Entries {
		var err error
		switch {
		case e.Assistant != "":
			var items []json.RawMessage
			items, err = replayedItems(e.Assistant, i)
			input = append(input, items...)
		case len(e.Results) > 0:
			names := resultNames(r.Entries, i)
			for k, res := range e.Results {
				err = errors.Join(err, say(result{"function_call_output", names[k], res.Text}))
			}
			if e.User != "" {
				err = errors.Join(err, say(text{"user", e.User}))
			}
		default:
			err = say(text{"user", e.User})
		}
		if err != nil {
			return nil, err
		}
	}
	var b body
	b.put("model", r.Model.Model)
	if r.System != "" {
		b.put("instructions", r.System)
	}
	b.put("input", list(input))
	if len(r.Tools) > 0 {
		var tools []any
		for _, t := range r.Tools {
			// Strict schemas know less than a tool's may say; the runner checks.
			tools = append(tools, map[string]any{"type": "function", "name": t.Name, "description": t.Description, "parameters": schemaOf(t.Tool), "strict": false})
		}
		b.put("tools", tools)
	}
	b.put("max_output_tokens", r.MaxTokens)
	b.put("store", false)
	if encrypted {
		b.put("include", []string{"reasoning.encrypted_content"})
	}
	if r.Model.PromptCache != spec.PromptCacheNone {
		b.put("prompt_cache_key", string(r.RunID)) // opaque: one conversation, one id
	}
	b.put("stream", true)
	return b.bytes()
}

// responseBody is what is read of a response.
type responseBody struct {
	Model      string            `json:"model"`
	Status     string            `json:"status"`
	Output     []json.RawMessage `json:"output"`
	Error      json.RawMessage   `json:"error"`
	Incomplete *struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Usage struct {
		Input   count `json:"input_tokens"`
		Output  count `json:"output_tokens"`
		Details *struct {
			Cached count `json:"cached_tokens"`
			Write  count `json:"cache_write_tokens"`
		} `json:"input_tokens_details"`
		OutputDetails *struct {
			Reasoning count `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
	} `json:"usage"`
}

// withoutEcho leaves out of a response what it repeats of the request and of
// every answer before it: a row grows with what is new.
func withoutEcho(raw string) (string, error) {
	o, err := parseObject([]byte(raw))
	if err != nil {
		return "", err
	}
	if len(o.values["instructions"]) == 0 && len(o.values["tools"]) == 0 {
		return raw, nil
	}
	o.drop("instructions")
	o.drop("tools")
	out, err := o.json()
	return string(out), err
}

// replayedItems are the output items of a stored response as history, byte for
// byte but for what the API gives and does not take: reasoning is only taken
// back encrypted and before what it led to, and no message is empty.
func replayedItems(stored string, entry int) ([]json.RawMessage, error) {
	var body responseBody
	if err := json.Unmarshal([]byte(stored), &body); err != nil {
		return nil, fmt.Errorf("stored answer: %w", err)
	}
	type item struct {
		*object
		kind string
		raw  json.RawMessage
	}
	var kept []item
	var ids []string
	for _, raw := range body.Output {
		o, err := parseObject(raw)
		if err != nil {
			return nil, fmt.Errorf("stored answer: %w", err)
		}
		it := item{o, o.text("type"), raw}
		switch it.kind {
		case "reasoning":
			if o.text("encrypted_content") == "" {
				continue
			}
		case "message":
			if text, refusal := itemText(o.values["content"]); strings.TrimSpace(text+refusal) == "" {
				continue
			}
		case "function_call":
			ids = append(ids, o.text("call_id"))
			if renamed := mendName(o); mendArgs(o) || renamed {
				if it.raw, err = o.json(); err != nil {
					return nil, err
				}
			}
		}
		kept = append(kept, it)
	}
	names, own := callNames(entry, ids)
	var out []json.RawMessage
	call := 0
	for i, it := range kept {
		switch it.kind {
		case "reasoning":
			led := false // to anything
			for _, later := range kept[i+1:] {
				led = led || later.kind != "reasoning"
			}
			if !led {
				continue
			}
		case "function_call":
			if !own {
				name, err := events.Marshal(names[call])
				if err != nil {
					return nil, err
				}
				it.set("call_id", name)
				if it.raw, err = it.json(); err != nil {
					return nil, err
				}
			}
			call++
		}
		out = append(out, it.raw)
	}
	return out, nil
}

// itemText reads the parts of a message.
func itemText(raw json.RawMessage) (text, refusal string) {
	var parts []struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		_ = json.Unmarshal(raw, &text) // a string
		return text, ""
	}
	for _, p := range parts {
		text += p.Text
		refusal += p.Refusal
	}
	return text, refusal
}

// readResponse reads what the loop needs; everything else stays in Raw.
func readResponse(r runner.Request, raw string) (runner.Answer, error) {
	var body responseBody
	if err := json.Unmarshal([]byte(raw), &body); err != nil {
		return runner.Answer{}, unreadable(err)
	}
	if body.Status == "failed" {
		return runner.Answer{}, eventError([]byte(raw))
	}
	out := runner.Answer{Model: body.Model, Raw: raw}
	refused := false
	for _, item := range body.Output {
		var it struct {
			Type      string          `json:"type"`
			Content   json.RawMessage `json:"content"`
			CallID    string          `json:"call_id"`
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		}
		if err := json.Unmarshal(item, &it); err != nil {
			return runner.Answer{}, unreadable(fmt.Errorf("output: %w", err))
		}
		switch it.Type {
		case "message":
			text, refusal := itemText(it.Content)
			out.Text += text
			if refusal != "" {
				refused = true
				out.Text += refusal
			}
		case "function_call":
			out.Calls = append(out.Calls, runner.ModelCall{ProviderID: it.CallID, Tool: it.Name, Args: writtenArgs(it.Arguments)})
		case "reasoning":
			out.Bound = true
		}
	}
	out.StopReason = responseStop(body, len(out.Calls))
	if refused {
		out.StopReason = runner.StopRefusal
	}
	u := reported{input: body.Usage.Input, output: body.Usage.Output}
	if d := body.Usage.Details; d != nil {
		u.read, u.write = d.Cached, d.Write
	}
	if d := body.Usage.OutputDetails; d != nil {
		u.reasoning = d.Reasoning
	}
	out.Usage = u.usage(r, out)
	return out, nil
}

// responseStop says in the words of the runner why a response ended; a reason
// that nobody knows stays as it is.
func responseStop(body responseBody, calls int) string {
	switch body.Status {
	case "completed":
		if calls > 0 {
			return runner.StopTools
		}
		return runner.StopEnd
	case "incomplete":
		if body.Incomplete == nil {
			return "incomplete"
		}
		switch body.Incomplete.Reason {
		case "max_output_tokens", "max_tokens":
			return runner.StopLength
		case "content_filter":
			return runner.StopRefusal
		}
		return "incomplete: " + body.Incomplete.Reason
	}
	return body.Status
}
