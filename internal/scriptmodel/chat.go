package scriptmodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// chatAPI is OpenAI's Chat Completions.
// Source: the provider's public API reference for POST /v1/chat/completions.
type chatAPI struct{ openAI }

const chatMembers = "model messages tools tool_choice max_tokens max_completion_tokens stream stream_options user temperature top_p stop n " +
	"prompt_cache_key safety_identifier reasoning_effort parallel_tool_calls response_format store metadata seed service_tier"

type chatMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	Refusal    string          `json:"refusal"`
	Reasoning  string          `json:"reasoning_content"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  *[]struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

func (chatAPI) decode(body []byte) (Request, error) {
	if err := members(body, chatMembers); err != nil {
		return Request{}, err
	}
	var w struct {
		Model     string            `json:"model"`
		Messages  []json.RawMessage `json:"messages"`
		Tools     json.RawMessage   `json:"tools"`
		Max       *int64            `json:"max_tokens"`
		MaxNew    *int64            `json:"max_completion_tokens"`
		User      string            `json:"user"`
		Stream    bool              `json:"stream"`
		StreamOpt json.RawMessage   `json:"stream_options"`
	}
	if err := json.Unmarshal(body, &w); err != nil {
		return Request{}, fmt.Errorf("request body: %w", err)
	}
	r := Request{Model: w.Model, UserID: w.User, Stream: w.Stream, Raw: body, tools: w.Tools}
	switch {
	case w.Model == "":
		return r, errors.New("you must provide a model parameter")
	case w.Max != nil && w.MaxNew != nil:
		return r, errors.New("max_tokens and max_completion_tokens cannot both be set")
	case len(w.StreamOpt) > 0 && !w.Stream:
		return r, errors.New("stream_options is only allowed with stream")
	}
	for _, n := range []*int64{w.Max, w.MaxNew} {
		if n != nil {
			r.MaxTokens = *n
		}
	}
	if r.MaxTokens < 1 {
		return r, errors.New("max_tokens must be at least 1")
	}
	var tools []struct {
		Type     string `json:"type"`
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	}
	if len(w.Tools) > 0 {
		if err := json.Unmarshal(w.Tools, &tools); err != nil {
			return r, fmt.Errorf("tools: %w", err)
		}
		if len(tools) == 0 {
			return r, errors.New("tools: [] is too short")
		}
	}
	for i, t := range tools {
		if t.Type != "function" {
			return r, fmt.Errorf("tools[%d].type: %q is not function", i, t.Type)
		}
		r.Tools = append(r.Tools, functionTool(t.Function.Name, t.Function.Description, t.Function.Parameters))
	}
	for i, raw := range w.Messages {
		if err := chatTurn(&r, i, raw); err != nil {
			return r, fmt.Errorf("messages[%d]: %w", i, err)
		}
	}
	return r, nil
}

// chatTurn adds a message to the history. The results of one answer's calls make
// one message of blocks.
func chatTurn(r *Request, i int, raw json.RawMessage) error {
	if err := members(raw, "role content name refusal tool_calls tool_call_id annotations audio function_call reasoning_content reasoning"); err != nil {
		return err
	}
	var m chatMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return err
	}
	text := Message{}
	var err error
	if text.Blocks, err = decodeContent(m.Content); err != nil {
		return err
	}
	content := text.text()
	switch m.Role {
	case "system", "developer":
		if i != 0 {
			return errors.New("a system message must come first")
		}
		if strings.TrimSpace(content) == "" {
			return errors.New("a system message must not be empty")
		}
		r.System, r.system = content, m.Content
	case "user":
		b := Block{Type: "text", Text: content}
		if last := len(r.Messages) - 1; last >= 0 && endsWithResult(r.Messages[last]) {
			r.Messages[last].Blocks = append(r.Messages[last].Blocks, b)
			return nil
		}
		r.Messages = append(r.Messages, Message{Role: "user", Blocks: []Block{b}, Raw: raw})
	case "tool":
		if m.ToolCallID == "" {
			return errors.New("tool_call_id is required")
		}
		b := Block{Type: "tool_result", ToolUseID: m.ToolCallID, Content: m.Content}
		if last := len(r.Messages) - 1; last >= 0 && endsWithResult(r.Messages[last]) {
			r.Messages[last].Blocks = append(r.Messages[last].Blocks, b)
			return nil
		}
		r.Messages = append(r.Messages, Message{Role: "user", Blocks: []Block{b}, Raw: raw})
	case "assistant":
		answer := Message{Role: "assistant", Raw: raw}
		if m.Reasoning != "" {
			answer.Blocks = append(answer.Blocks, Block{Type: "thinking", Thinking: m.Reasoning})
		}
		if m.ToolCalls != nil && len(*m.ToolCalls) == 0 {
			return errors.New("tool_calls: [] is too short")
		}
		if m.ToolCalls == nil && strings.TrimSpace(content+m.Refusal) == "" {
			return errors.New("an assistant message needs content or tool_calls")
		}
		if content != "" {
			answer.Blocks = append(answer.Blocks, Block{Type: "text", Text: content})
		}
		if m.Refusal != "" {
			answer.Blocks = append(answer.Blocks, Block{Type: "text", Text: m.Refusal})
		}
		if m.ToolCalls != nil {
			for k, c := range *m.ToolCalls {
				if c.Type != "function" {
					return fmt.Errorf("tool_calls[%d].type: %q is not function", k, c.Type)
				}
				input, err := writtenInput(c.Function.Arguments)
				if err != nil {
					return fmt.Errorf("tool_calls[%d].%w", k, err)
				}
				answer.Blocks = append(answer.Blocks, Block{Type: "tool_use", ID: c.ID, Name: c.Function.Name, Input: input})
			}
		}
		r.Messages = append(r.Messages, answer)
	default:
		return fmt.Errorf("role %q is not known", m.Role)
	}
	return nil
}

func (chatAPI) validate(r Request) error { return validateTurns(r) }

func (chatAPI) given(b built) []Block {
	text, thinking, calls, ids := b.split()
	var out []Block
	if thinking != "" {
		out = append(out, Block{Type: "thinking", Thinking: thinking})
	}
	out = append(out, Block{Type: "text", Text: text})
	for i, p := range calls {
		out = append(out, callBlock(ids[i], p))
	}
	return out
}

func chatFinish(stop string) string {
	switch stop {
	case "end_turn":
		return "stop"
	case "tool_use":
		return "tool_calls"
	case "max_tokens":
		return "length"
	case "refusal":
		return "content_filter"
	}
	return stop
}

func (b built) chatUsage() any {
	if b.noUsage {
		return nil
	}
	u := b.usage
	input := u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens
	return obj{"prompt_tokens": input, "completion_tokens": u.OutputTokens, "total_tokens": input + u.OutputTokens,
		"prompt_tokens_details":     obj{"cached_tokens": u.CacheReadInputTokens, "cache_write_tokens": u.CacheCreationInputTokens},
		"completion_tokens_details": obj{"reasoning_tokens": u.ReasoningTokens}}
}

type (
	chatCall struct {
		Index    *int         `json:"index,omitempty"`
		ID       string       `json:"id,omitempty"`
		Type     string       `json:"type,omitempty"`
		Function chatFunction `json:"function"`
	}
	chatFunction struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	}
	chatAnswer struct {
		Role      string     `json:"role"`
		Content   *string    `json:"content"`
		Refusal   *string    `json:"refusal"`
		Reasoning string     `json:"reasoning_content,omitempty"`
		ToolCalls []chatCall `json:"tool_calls,omitempty"`
	}
)

func (chatAPI) body(b built) []byte {
	text, thinking, calls, ids := b.split()
	m := chatAnswer{Role: "assistant", Reasoning: thinking}
	switch {
	case text == "":
	case b.stopReason == "refusal":
		m.Refusal = &text
	default:
		m.Content = &text
	}
	for i, p := range calls {
		m.ToolCalls = append(m.ToolCalls, chatCall{ID: ids[i], Type: "function", Function: chatFunction{p.name, p.args()}})
	}
	return encode(obj{"id": "chatcmpl-" + b.id, "object": "chat.completion", "created": 1, "model": b.model, "usage": b.chatUsage(),
		"choices": []obj{{"index": 0, "message": m, "logprobs": nil, "finish_reason": chatFinish(b.stopReason)}}})
}

// send streams b as the provider does: deltas, a finish reason, the usage and
// then the end.
// Source: "Streaming" of the provider's reference.
func (chatAPI) send(s *streamWriter, b built) error {
	var chunks []any
	chunk := func(choices []obj, usage any) {
		chunks = append(chunks, obj{"id": "chatcmpl-" + b.id, "object": "chat.completion.chunk", "created": 1, "model": b.model, "choices": choices, "usage": usage})
	}
	delta := func(d any) { chunk([]obj{{"index": 0, "delta": d, "finish_reason": nil}}, nil) }
	delta(obj{"role": "assistant", "content": "", "refusal": nil})
	text, thinking, calls, ids := b.split()
	each := func(member, text string) {
		if text != "" {
			for _, p := range pieces(text) {
				delta(obj{member: p})
			}
		}
	}
	each("reasoning_content", thinking)
	if b.stopReason == "refusal" {
		each("refusal", text)
	} else {
		each("content", text)
	}
	for i, p := range calls {
		delta(obj{"tool_calls": []chatCall{{Index: &i, ID: ids[i], Type: "function", Function: chatFunction{Name: p.name}}}})
		for _, piece := range pieces(p.args()) {
			delta(obj{"tool_calls": []chatCall{{Index: &i, Function: chatFunction{Arguments: piece}}}})
		}
	}
	chunk([]obj{{"index": 0, "delta": obj{}, "finish_reason": chatFinish(b.stopReason)}}, nil)
	if !b.noUsage {
		chunk([]obj{}, b.chatUsage())
	}
	chunks = append(chunks, "[DONE]")
	for _, c := range chunks {
		if err := s.event("", c); err != nil {
			return err
		}
	}
	return nil
}

func (chatAPI) overloaded(s *streamWriter) error {
	return s.event("", obj{"error": openAIProblem(503, "The server is overloaded")})
}
