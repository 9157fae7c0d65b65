package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/runner"
)

// Chat speaks OpenAI's Chat Completions API, and that of servers that are
// compatible with it. It is safe for concurrent use and keeps no state between
// calls.
type Chat struct{ openAI }

var _ runner.Model = (*Chat)(nil)

// NewChat returns an adapter.
func NewChat(env Env) *Chat { return &Chat{openAI{env}} }

// Answer makes one request and reads the answer as it is written. The answer's
// Raw is the completion, put together from the stream's own JSON text, or the
// response body byte for byte; histories are replayed from its message.
func (c *Chat) Answer(ctx context.Context, r runner.Request) (runner.Answer, error) {
	request, err := c.request(r)
	if err != nil {
		return runner.Answer{}, &runner.ModelError{Code: "transcript", Err: err}
	}
	var message completion
	raw, _, head, err := c.post(ctx, r, "chat/completions", request, &message)
	if err != nil {
		return runner.Answer{}, err
	}
	out, err := readCompletion(r, raw, message.grew)
	if err != nil {
		return runner.Answer{}, err
	}
	out.Duration, out.RequestID = head.Duration, head.RequestID
	return out, nil
}

func (c *Chat) request(r runner.Request) ([]byte, error) {
	var messages []json.RawMessage
	say := func(v any) error {
		raw, err := events.Marshal(v)
		messages = append(messages, raw)
		return err
	}
	type text struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	type result struct {
		Role    string `json:"role"`
		ID      string `json:"tool_call_id"`
		Content string `json:"content"`
	}
	if r.System != "" {
		if err := say(text{"system", r.System}); err != nil {
			return nil, err
		}
	}
	for i, e := range r.Entries {
		var err error
		switch {
		case e.Assistant != "":
			var raw json.RawMessage
			if raw, err = replayedChat(e.Assistant, i); raw != nil {
				messages = append(messages, raw)
			}
		case len(e.Results) > 0:
			names := resultNames(r.Entries, i)
			for k, res := range e.Results {
				err = errors.Join(err, say(result{"tool", names[k], res.Text}))
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
	b.put("messages", list(messages))
	if len(r.Tools) > 0 {
		b.put("tools", chatTools(r.Tools))
	}
	// OpenAI takes only the newer name, most other servers know the older one.
	if c.official(r) {
		b.put("max_completion_tokens", r.MaxTokens)
		if r.Model.PromptCache != spec.PromptCacheNone {
			b.put("prompt_cache_key", string(r.RunID))
		}
	} else {
		b.put("max_tokens", r.MaxTokens)
	}
	b.put("user", string(r.RunID)) // opaque: one conversation, one id
	b.put("stream", true)
	b.put("stream_options", map[string]bool{"include_usage": true})
	return b.bytes()
}

func chatTools(tools []runner.NamedTool) []any {
	var out []any
	for _, t := range tools {
		out = append(out, map[string]any{"type": "function", "function": map[string]any{"name": t.Name, "description": t.Description, "parameters": schemaOf(t.Tool)}})
	}
	return out
}

// completionBody is what is read of a completion.
type completionBody struct {
	Model   string `json:"model"`
	Choices []struct {
		FinishReason string          `json:"finish_reason"`
		Message      json.RawMessage `json:"message"`
	} `json:"choices"`
	Usage struct {
		Input   count `json:"prompt_tokens"`
		Output  count `json:"completion_tokens"`
		Details *struct {
			Cached count `json:"cached_tokens"`
			Write  count `json:"cache_write_tokens"`
		} `json:"prompt_tokens_details"`
		OutputDetails *struct {
			Reasoning count `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	} `json:"usage"`
}

// replayedChat is the message of a stored completion as history, byte for byte
// but for what servers give and do not take; nil for one that says nothing.
func replayedChat(stored string, entry int) (json.RawMessage, error) {
	var body completionBody
	if err := json.Unmarshal([]byte(stored), &body); err != nil {
		return nil, fmt.Errorf("stored answer: %w", err)
	}
	if len(body.Choices) == 0 {
		return nil, errors.New("stored answer: it has no choice")
	}
	raw := body.Choices[0].Message
	m, err := parseObject(raw)
	if err != nil {
		return nil, fmt.Errorf("stored answer: %w", err)
	}
	var calls []json.RawMessage
	if !isNull(m.values["tool_calls"]) {
		if err := json.Unmarshal(m.values["tool_calls"], &calls); err != nil {
			return nil, fmt.Errorf("stored answer: tool_calls: %w", err)
		}
	}
	if len(calls) == 0 {
		if strings.TrimSpace(m.text("content")) == "" && strings.TrimSpace(m.text("refusal")) == "" {
			return nil, nil
		}
		if _, has := m.values["tool_calls"]; !has {
			return raw, nil
		}
		m.drop("tool_calls") // an empty list is refused
		return m.json()
	}
	var ids []string
	all := make([]*object, len(calls))
	changed := false
	for i, call := range calls {
		if all[i], err = parseObject(call); err != nil {
			return nil, fmt.Errorf("stored answer: tool_calls: %w", err)
		}
		ids = append(ids, all[i].text("id"))
		function, err := all[i].child("function")
		if err != nil {
			return nil, fmt.Errorf("stored answer: tool_calls: %w", err)
		}
		if renamed := mendName(function); mendArgs(function) || renamed {
			mended, err := function.json()
			if err != nil {
				return nil, err
			}
			all[i].set("function", mended)
			changed = true
		}
	}
	if text := m.text("content"); text != "" && strings.TrimSpace(text) == "" {
		m.set("content", json.RawMessage("null"))
		changed = true
	}
	names, own := callNames(entry, ids)
	if own && !changed {
		return raw, nil
	}
	for i, call := range all {
		name, err := events.Marshal(names[i])
		if err != nil {
			return nil, err
		}
		call.set("id", name)
		if calls[i], err = call.json(); err != nil {
			return nil, err
		}
	}
	m.set("tool_calls", list(calls))
	return m.json()
}

// readCompletion reads what the loop needs; everything else stays in Raw. The output
// tokens are not whole when partial is set.
func readCompletion(r runner.Request, raw string, partial bool) (runner.Answer, error) {
	var body completionBody
	if err := json.Unmarshal([]byte(raw), &body); err != nil {
		return runner.Answer{}, unreadable(err)
	}
	if len(body.Choices) == 0 {
		return runner.Answer{}, unreadable(errors.New("the completion has no choice"))
	}
	choice := body.Choices[0]
	var message struct {
		Content   json.RawMessage `json:"content"`
		Refusal   string          `json:"refusal"`
		ToolCalls []struct {
			ID       string `json:"id"`
			Function struct {
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	}
	if err := json.Unmarshal(choice.Message, &message); err != nil {
		return runner.Answer{}, unreadable(fmt.Errorf("message: %w", err))
	}
	out := runner.Answer{Model: body.Model, Raw: raw, Text: contentText(message.Content)}
	for _, call := range message.ToolCalls {
		out.Calls = append(out.Calls, runner.ModelCall{ProviderID: call.ID, Tool: call.Function.Name, Args: writtenArgs(call.Function.Arguments)})
	}
	out.StopReason = chatStop(choice.FinishReason, len(out.Calls))
	if strings.TrimSpace(message.Refusal) != "" {
		out.StopReason = runner.StopRefusal
		if out.Text == "" {
			out.Text = message.Refusal
		}
	}
	u := reported{input: body.Usage.Input, output: body.Usage.Output, partial: partial}
	if d := body.Usage.Details; d != nil {
		u.read, u.write = d.Cached, d.Write
	}
	if d := body.Usage.OutputDetails; d != nil {
		u.reasoning = d.Reasoning
	}
	out.Usage = u.usage(r, out)
	return out, nil
}

// contentText reads a string, or the text of a list of parts.
func contentText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return ""
	}
	var all strings.Builder
	for _, p := range parts {
		all.WriteString(p.Text)
	}
	return all.String()
}

// chatStop says a finish reason in the words of the runner. Servers finish with
// "stop" after calls too; a reason that nobody knows stays as it is.
func chatStop(reason string, calls int) string {
	switch reason {
	case "stop", "tool_calls", "function_call":
		if calls > 0 {
			return runner.StopTools
		}
		return runner.StopEnd
	case "length":
		return runner.StopLength
	case "content_filter":
		return runner.StopRefusal
	}
	return reason
}
