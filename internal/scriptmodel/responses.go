package scriptmodel

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// responsesAPI is OpenAI's Responses, for callers that keep the history
// themselves: it stores nothing and takes no id of an earlier response.
// Source: the provider's public API reference for POST /v1/responses.
type responsesAPI struct{ openAI }

const responsesMembers = "model input instructions tools tool_choice max_output_tokens store include stream user prompt_cache_key safety_identifier " +
	"temperature top_p reasoning parallel_tool_calls text metadata truncation service_tier"

func (responsesAPI) decode(body []byte) (Request, error) {
	if err := members(body, responsesMembers); err != nil {
		return Request{}, err
	}
	var w struct {
		Model        string            `json:"model"`
		Input        []json.RawMessage `json:"input"`
		Instructions string            `json:"instructions"`
		Tools        json.RawMessage   `json:"tools"`
		Max          int64             `json:"max_output_tokens"`
		Store        *bool             `json:"store"`
		Include      []string          `json:"include"`
		Key          string            `json:"prompt_cache_key"`
		Stream       bool              `json:"stream"`
	}
	if err := json.Unmarshal(body, &w); err != nil {
		return Request{}, fmt.Errorf("request body: %w", err)
	}
	r := Request{Model: w.Model, MaxTokens: w.Max, UserID: w.Key, System: w.Instructions, Stream: w.Stream, Raw: body, tools: w.Tools, system: encode(w.Instructions)}
	switch {
	case w.Model == "":
		return r, errors.New("missing required parameter: 'model'")
	case w.Max < 16:
		return r, fmt.Errorf("max_output_tokens: %d is less than 16", w.Max)
	case w.Store == nil || *w.Store:
		return r, errors.New("store: must be false, this server keeps nothing")
	}
	var tools []struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      *bool           `json:"strict"`
	}
	if len(w.Tools) > 0 {
		if err := json.Unmarshal(w.Tools, &tools); err != nil {
			return r, fmt.Errorf("tools: %w", err)
		}
	}
	for i, t := range tools {
		if t.Type != "function" || t.Strict == nil || *t.Strict {
			return r, fmt.Errorf("tools[%d]: must be a function whose schema is not strict", i)
		}
		r.Tools = append(r.Tools, functionTool(t.Name, t.Description, t.Parameters))
	}
	for i, raw := range w.Input {
		if err := responsesItem(&r, raw); err != nil {
			return r, fmt.Errorf("input[%d]: %w", i, err)
		}
	}
	for _, m := range r.Messages {
		if err := reasoningLeads(m); err != nil {
			return r, err
		}
	}
	return r, nil
}

type responsesInput struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Role      string          `json:"role"`
	Status    string          `json:"status"`
	Content   json.RawMessage `json:"content"`
	Encrypted string          `json:"encrypted_content"`
	Summary   json.RawMessage `json:"summary"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Output    json.RawMessage `json:"output"`
}

// responsesItem adds an item to the history. Items of one answer make one
// message of blocks, and so do the results of its calls with what a user says
// behind them.
func responsesItem(r *Request, raw json.RawMessage) error {
	var it responsesInput
	if err := json.Unmarshal(raw, &it); err != nil {
		return err
	}
	add := func(role string, b Block) {
		last := len(r.Messages) - 1
		if last >= 0 && r.Messages[last].Role == role && (role == "assistant" || endsWithResult(r.Messages[last])) {
			r.Messages[last].Blocks = append(r.Messages[last].Blocks, b)
			return
		}
		r.Messages = append(r.Messages, Message{Role: role, Blocks: []Block{b}, Raw: raw})
	}
	switch {
	case it.Role == "user":
		blocks, err := decodeContent(it.Content)
		if err != nil {
			return err
		}
		add("user", Block{Type: "text", Text: Message{Blocks: blocks}.text()})
	case it.Type == "message" && it.Role == "assistant":
		var parts []struct {
			Type    string `json:"type"`
			Text    string `json:"text"`
			Refusal string `json:"refusal"`
		}
		if err := json.Unmarshal(it.Content, &parts); err != nil || len(parts) == 0 {
			return errors.New("content: an assistant's message needs parts")
		}
		text := ""
		for _, p := range parts {
			if p.Type != "output_text" && p.Type != "refusal" {
				return fmt.Errorf("content: part type %q is not the assistant's", p.Type)
			}
			text += p.Text + p.Refusal
		}
		add("assistant", Block{Type: "text", Text: text})
	case it.Type == "reasoning":
		if it.Encrypted == "" {
			return fmt.Errorf("item with id '%s' not found: items are not persisted when store is set to false", it.ID)
		}
		var summary []struct {
			Text string `json:"text"`
		}
		if err := json.Unmarshal(it.Summary, &summary); err != nil || len(summary) != 1 || it.Encrypted != encrypted(summary[0].Text) {
			return errors.New("the encrypted content could not be verified: it must come back exactly as it was given")
		}
		add("assistant", Block{Type: "reasoning", Raw: raw})
	case it.Type == "function_call":
		input, err := writtenInput(it.Arguments)
		if err != nil {
			return err
		}
		add("assistant", Block{Type: "tool_use", ID: it.CallID, Name: it.Name, Input: input})
	case it.Type == "function_call_output":
		add("user", Block{Type: "tool_result", ToolUseID: it.CallID, Content: it.Output})
	default:
		return fmt.Errorf("item type %q is not known", it.Type)
	}
	return nil
}

// reasoningLeads checks that reasoning comes with what it led to.
func reasoningLeads(m Message) error {
	if n := len(m.Blocks); n > 0 && m.Blocks[n-1].Type == "reasoning" {
		return errors.New("item of type 'reasoning' was provided without its required following item")
	}
	return nil
}

func (responsesAPI) validate(r Request) error { return validateTurns(r) }

func encrypted(text string) string {
	mac := hmac.New(sha256.New, []byte("scriptmodel reasoning"))
	mac.Write([]byte(text))
	return "enc:" + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

type (
	reasoningItem struct {
		ID        string `json:"id"`
		Type      string `json:"type"`
		Summary   []obj  `json:"summary"`
		Encrypted string `json:"encrypted_content"`
	}
	messageItem struct {
		ID      string `json:"id"`
		Type    string `json:"type"`
		Status  string `json:"status"`
		Role    string `json:"role"`
		Content []any  `json:"content"`
	}
	callItem struct {
		ID        string `json:"id"`
		Type      string `json:"type"`
		Status    string `json:"status"`
		CallID    string `json:"call_id"`
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	textPart struct {
		Type        string `json:"type"`
		Text        string `json:"text"`
		Annotations []any  `json:"annotations"`
	}
	refusalPart struct {
		Type    string `json:"type"`
		Refusal string `json:"refusal"`
	}
)

// items are the output of an answer.
func (b built) items() []any {
	var out []any
	_, _, _, ids := b.split()
	calls := 0
	for i, p := range b.parts {
		id := derive(b.key, b.turn, fmt.Sprintf("item %d", i))
		switch p.kind {
		case "thinking":
			out = append(out, reasoningItem{"rs_" + id, "reasoning", []obj{{"type": "summary_text", "text": p.text}}, encrypted(p.text)})
		case "tool_use":
			out = append(out, callItem{"fc_" + id, "function_call", "completed", ids[calls], p.name, p.args()})
			calls++
		default:
			var part any = textPart{"output_text", p.text, []any{}}
			if b.stopReason == "refusal" {
				part = refusalPart{"refusal", p.text}
			}
			out = append(out, messageItem{"msg_" + id, "message", "completed", "assistant", []any{part}})
		}
	}
	return out
}

func (responsesAPI) given(b built) []Block {
	var out []Block
	_, _, _, ids := b.split()
	calls, items := 0, b.items()
	for i, p := range b.parts {
		switch p.kind {
		case "thinking":
			out = append(out, Block{Type: "reasoning", Raw: encode(items[i])})
		case "tool_use":
			out = append(out, callBlock(ids[calls], p))
			calls++
		default:
			out = append(out, Block{Type: "text", Text: p.text})
		}
	}
	for len(out) > 0 && out[len(out)-1].Type == "reasoning" {
		out = out[:len(out)-1] // given, and not to be sent back alone
	}
	return out
}

func (b built) response(whole bool) obj {
	status, incomplete := "completed", any(nil)
	switch b.stopReason {
	case "end_turn", "tool_use":
	case "max_tokens":
		status, incomplete = "incomplete", obj{"reason": "max_output_tokens"}
	case "refusal":
		if text, _, _, _ := b.split(); text == "" {
			status, incomplete = "incomplete", obj{"reason": "content_filter"}
		}
	default:
		status, incomplete = "incomplete", obj{"reason": b.stopReason}
	}
	out := obj{"id": "resp_" + b.id, "object": "response", "created_at": 1, "model": b.model, "error": nil, "instructions": b.request.System,
		"status": "in_progress", "incomplete_details": nil, "output": []any{}, "tools": b.request.tools, "usage": nil}
	if len(b.request.tools) == 0 {
		out["tools"] = []any{}
	}
	if !whole {
		return out
	}
	out["status"], out["incomplete_details"] = status, incomplete
	if items := b.items(); items != nil {
		out["output"] = items
	}
	if !b.noUsage {
		u := b.usage
		input := u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens
		out["usage"] = obj{"input_tokens": input, "input_tokens_details": obj{"cached_tokens": u.CacheReadInputTokens, "cache_write_tokens": u.CacheCreationInputTokens},
			"output_tokens": u.OutputTokens, "output_tokens_details": obj{"reasoning_tokens": u.ReasoningTokens}, "total_tokens": input + u.OutputTokens}
	}
	return out
}

func (responsesAPI) body(b built) []byte { return encode(b.response(true)) }

// send streams b as the provider does.
// Source: "Streaming events" of the provider's reference.
func (responsesAPI) send(s *streamWriter, b built) error {
	n := 0
	say := func(kind string, data obj) error {
		data["type"], data["sequence_number"] = kind, n
		n++
		return s.event(kind, data)
	}
	if err := say("response.created", obj{"response": b.response(false)}); err != nil {
		return err
	}
	for i, item := range b.items() {
		begun, kind, text := item, "response.output_text.delta", b.parts[i].text
		switch it := item.(type) {
		case callItem:
			it.Arguments, it.Status = "", "in_progress"
			begun, kind, text = it, "response.function_call_arguments.delta", b.parts[i].args()
		case reasoningItem:
			it.Summary, it.Encrypted = []obj{}, ""
			begun, kind = it, "response.reasoning_summary_text.delta"
		case messageItem:
			it.Content, it.Status = []any{}, "in_progress"
			begun = it
			if b.stopReason == "refusal" {
				kind = "response.refusal.delta"
			}
		}
		if err := say("response.output_item.added", obj{"output_index": i, "item": begun}); err != nil {
			return err
		}
		for _, piece := range pieces(text) {
			if err := say(kind, obj{"output_index": i, "delta": piece}); err != nil {
				return err
			}
		}
		if err := say("response.output_item.done", obj{"output_index": i, "item": item}); err != nil {
			return err
		}
	}
	whole := b.response(true)
	return say("response."+strings.Replace(whole["status"].(string), "in_progress", "incomplete", 1), obj{"response": whole})
}

func (responsesAPI) overloaded(s *streamWriter) error {
	return s.event("error", obj{"type": "error", "code": "server_is_overloaded", "message": "overloaded", "param": nil})
}
