package scriptmodel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Request is one decoded call of POST /v1/messages.
type Request struct {
	Model     string
	System    string // text of the system prompt, its blocks joined by a blank line
	Messages  []Message
	Tools     []Tool
	MaxTokens int64
	UserID    string // metadata.user_id
	Stream    bool
	Raw       []byte // the body as it arrived

	system json.RawMessage // as it arrived
	tools  json.RawMessage
	base   int  // answers of the conversation before those of the messages
	aside  bool // it asks for a summary
}

// Message is one turn. A plain string as content is one text block.
type Message struct {
	Role   string
	Blocks []Block
	Raw    json.RawMessage
}

// Block is one content block. Which fields are set depends on Type.
type Block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`        // text
	ID        string          `json:"id"`          // tool_use
	Name      string          `json:"name"`        // tool_use
	Input     json.RawMessage `json:"input"`       // tool_use
	ToolUseID string          `json:"tool_use_id"` // tool_result
	IsError   bool            `json:"is_error"`    // tool_result
	Thinking  string          `json:"thinking"`    // thinking
	Signature string          `json:"signature"`   // thinking
	Content   json.RawMessage `json:"content"`     // tool_result: a string or blocks
	Raw       json.RawMessage `json:"-"`
}

// Tool is one tool that the caller offers.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Type        string          `json:"type"` // empty or "custom" for a client tool
	InputSchema json.RawMessage `json:"input_schema"`
}

// Result is one tool result of the conversation, beside the call it answers.
type Result struct {
	Tool    string
	Input   json.RawMessage
	Text    string // text of the result's content
	IsError bool
}

// FirstText is the text of the first message.
func (r Request) FirstText() string {
	if len(r.Messages) == 0 {
		return ""
	}
	return r.Messages[0].text()
}

// Turn counts the answers that the conversation already holds: 0 on the first
// request.
func (r Request) Turn() int {
	n := 0
	for _, m := range r.Messages {
		if m.Role == "assistant" {
			n++
		}
	}
	return n
}

// LastText is the text of the last message, without results of tools.
func (r Request) LastText() string {
	if len(r.Messages) == 0 {
		return ""
	}
	return r.Messages[len(r.Messages)-1].text()
}

// place counts the answers of the whole conversation that came before.
func (r Request) place() int { return r.base + r.Turn() }

// Results lists every tool result so far, in the order of their messages.
func (r Request) Results() []Result {
	calls := map[string]Block{}
	var out []Result
	for _, m := range r.Messages {
		for _, b := range m.Blocks {
			switch b.Type {
			case "tool_use":
				calls[b.ID] = b
			case "tool_result":
				call := calls[b.ToolUseID]
				out = append(out, Result{Tool: call.Name, Input: call.Input, Text: b.resultText(), IsError: b.IsError})
			}
		}
	}
	return out
}

func (m Message) text() string {
	var parts []string
	for _, b := range m.Blocks {
		if b.Type == "text" {
			parts = append(parts, b.Text)
		}
	}
	return strings.Join(parts, "\n")
}

func (b Block) resultText() string {
	blocks, err := decodeContent(b.Content)
	if err != nil {
		return string(b.Content)
	}
	return Message{Blocks: blocks}.text()
}

// known are the top-level members that the API takes; it refuses any other.
var known = map[string]bool{
	"model": true, "messages": true, "max_tokens": true, "system": true, "tools": true, "tool_choice": true,
	"metadata": true, "stream": true, "stop_sequences": true, "temperature": true, "top_p": true, "top_k": true,
	"thinking": true, "service_tier": true, "container": true, "cache_control": true, "output_config": true,
	"inference_geo": true,
}

type wireRequest struct {
	Model     string            `json:"model"`
	Messages  []json.RawMessage `json:"messages"`
	System    json.RawMessage   `json:"system"`
	Tools     json.RawMessage   `json:"tools"`
	MaxTokens *int64            `json:"max_tokens"`
	Metadata  struct {
		UserID string `json:"user_id"`
	} `json:"metadata"`
	Stream bool `json:"stream"`
}

// decode reads a body. An error is a sentence for an invalid_request_error.
func decode(body []byte) (Request, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return Request{}, fmt.Errorf("the request body is not a JSON object: %w", err)
	}
	for name := range members {
		if !known[name] {
			return Request{}, fmt.Errorf("%s: Extra inputs are not permitted", name)
		}
	}
	var w wireRequest
	if err := json.Unmarshal(body, &w); err != nil {
		return Request{}, fmt.Errorf("request body: %w", err)
	}
	switch {
	case w.Model == "":
		return Request{}, errors.New("model: Field required")
	case w.MaxTokens == nil:
		return Request{}, errors.New("max_tokens: Field required")
	case *w.MaxTokens < 1:
		return Request{}, errors.New("max_tokens: must be greater than or equal to 1")
	case len(w.Messages) == 0:
		return Request{}, errors.New("messages: at least one message is required")
	}
	r := Request{
		Model: w.Model, MaxTokens: *w.MaxTokens, UserID: w.Metadata.UserID, Stream: w.Stream,
		Raw: body, system: w.System, tools: w.Tools,
	}
	if len(w.System) > 0 {
		blocks, err := decodeContent(w.System)
		if err != nil {
			return Request{}, fmt.Errorf("system: %w", err)
		}
		for _, b := range blocks {
			if b.Type != "text" {
				return Request{}, fmt.Errorf("system: block type %q is not allowed, only text", b.Type)
			}
		}
		r.System = Message{Blocks: blocks}.text()
	}
	if len(w.Tools) > 0 {
		if err := json.Unmarshal(w.Tools, &r.Tools); err != nil {
			return Request{}, fmt.Errorf("tools: %w", err)
		}
	}
	for i, raw := range w.Messages {
		m, err := decodeMessage(raw)
		if err != nil {
			return Request{}, fmt.Errorf("messages.%d: %w", i, err)
		}
		r.Messages = append(r.Messages, m)
	}
	return r, nil
}

func decodeMessage(raw json.RawMessage) (Message, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return Message{}, err
	}
	for name := range members {
		if name != "role" && name != "content" {
			return Message{}, fmt.Errorf("%s: Extra inputs are not permitted", name)
		}
	}
	m := Message{Raw: raw}
	if err := json.Unmarshal(members["role"], &m.Role); err != nil {
		return Message{}, errors.New("role: Field required")
	}
	if len(members["content"]) == 0 {
		return Message{}, errors.New("content: Field required")
	}
	var err error
	m.Blocks, err = decodeContent(members["content"])
	return m, err
}

// decodeContent reads a string or a list of blocks; nothing is no block.
func decodeContent(raw json.RawMessage) ([]Block, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return nil, nil
	}
	if raw[0] == '"' {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, err
		}
		return []Block{{Type: "text", Text: s, Raw: raw}}, nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, errors.New("content: must be a string or a list of blocks")
	}
	blocks := make([]Block, len(list))
	for i, b := range list {
		if err := json.Unmarshal(b, &blocks[i]); err != nil {
			return nil, fmt.Errorf("content.%d: %w", i, err)
		}
		blocks[i].Raw = b
	}
	return blocks, nil
}
