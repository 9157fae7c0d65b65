package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// maxCalls bounds the calls of one answer.
const maxCalls = 1 << 10

// completion puts the chunks of a streamed completion together. It works on JSON
// text, as assembly does: strings are joined between their quotes.
// Source: "Chat Completions: streaming" of the provider's reference.
type completion struct {
	head   *object // of the first chunk
	usage  json.RawMessage
	finish json.RawMessage
	text   growing
	calls  []*growingCall
	over   bool // [DONE] came
	grew   bool // behind the usage
}

var _ stream = (*completion)(nil)

// growing is an object whose strings grow by deltas.
type growing struct {
	object
	parts map[string][]byte // as stringBody
}

// growingCall is a tool call while it grows.
type growingCall struct {
	growing
	function growing
	id       string
}

// extend takes one member of a delta: a string is appended to what is there,
// anything but null takes its place.
func (g *growing) extend(name string, v json.RawMessage) {
	if g.values == nil {
		g.object = object{values: map[string]json.RawMessage{}}
		g.parts = map[string][]byte{}
	}
	part, isText := stringBody(v)
	_, has := g.values[name]
	switch {
	case isText:
		g.parts[name] = append(g.parts[name], part...)
		g.set(name, nil) // its place
	case isNull(v) && has:
	default:
		delete(g.parts, name)
		g.set(name, v)
	}
}

// fix takes a member that is said once; repeats and empty ones say nothing.
func (g *growing) fix(name string, v json.RawMessage) {
	if part, ok := stringBody(v); !ok || len(part) == 0 || bytes.Equal(part, g.parts[name]) {
		return
	}
	if g.parts[name] != nil {
		delete(g.parts, name)
	}
	g.extend(name, v)
}

func (g *growing) json() (json.RawMessage, error) {
	for name, part := range g.parts {
		g.set(name, append(append([]byte{'"'}, part...), '"'))
	}
	return g.object.json()
}

// event implements stream.
func (c *completion) event(_ string, data []byte) (runner.Piece, error) {
	if bytes.Equal(bytes.TrimSpace(data), []byte("[DONE]")) {
		if isNull(c.finish) {
			return runner.Piece{}, errors.New("the end of a stream without a finish reason")
		}
		c.over = true
		return runner.Piece{}, nil
	}
	chunk, err := parseObject(data)
	if err != nil {
		return runner.Piece{}, fmt.Errorf("chunk: %w", err)
	}
	if !isNull(chunk.values["error"]) {
		return runner.Piece{}, eventError(data)
	}
	if c.head == nil {
		c.head = &object{values: map[string]json.RawMessage{}}
	}
	c.head.merge(chunk, "object", "choices", "usage")
	if !isNull(chunk.values["usage"]) {
		c.usage, c.grew = chunk.values["usage"], false // all of it so far, never one chunk's share
	}
	var choices []json.RawMessage
	if !isNull(chunk.values["choices"]) {
		if err := json.Unmarshal(chunk.values["choices"], &choices); err != nil {
			return runner.Piece{}, fmt.Errorf("choices: %w", err)
		}
	}
	var shown runner.Piece
	for _, raw := range choices {
		choice, err := parseObject(raw)
		if err != nil {
			return runner.Piece{}, fmt.Errorf("choice: %w", err)
		}
		if index := string(choice.values["index"]); index != "" && index != "0" {
			continue // one was asked for
		}
		if !isNull(choice.values["delta"]) {
			delta, err := choice.child("delta")
			if err != nil {
				return runner.Piece{}, err
			}
			if shown, err = c.grow(delta); err != nil {
				return runner.Piece{}, err
			}
			c.grew = c.grew || c.usage != nil && isNull(chunk.values["usage"]) && says(delta)
		}
		if !isNull(choice.values["finish_reason"]) {
			c.finish = choice.values["finish_reason"]
		}
	}
	return shown, nil
}

// says reports whether a delta has more in it than who speaks.
func says(delta *object) bool {
	for name, v := range delta.values {
		if name != "role" && !isNull(v) && string(v) != `""` {
			return true
		}
	}
	return false
}

func (c *completion) grow(delta *object) (shown runner.Piece, err error) {
	for _, name := range delta.names {
		v := delta.values[name]
		switch name {
		case "role":
			c.text.fix(name, v)
			continue
		case "tool_calls":
			var calls []json.RawMessage
			if !isNull(v) {
				if err := json.Unmarshal(v, &calls); err != nil {
					return shown, fmt.Errorf("tool_calls: %w", err)
				}
			}
			for _, raw := range calls {
				if shown, err = c.growCall(raw); err != nil {
					return shown, err
				}
			}
			continue
		}
		c.text.extend(name, v)
		switch text := delta.text(name); {
		case text == "":
		case name == "content":
			shown = runner.Piece{Index: 1, Kind: events.DeltaText, Text: text}
		case name == "reasoning_content" || name == "reasoning":
			shown = runner.Piece{Index: 0, Kind: events.DeltaThinking, Text: text}
		}
	}
	return shown, nil
}

func (c *completion) growCall(raw json.RawMessage) (runner.Piece, error) {
	delta, err := parseObject(raw)
	if err != nil {
		return runner.Piece{}, fmt.Errorf("tool call: %w", err)
	}
	index := len(c.calls) - 1
	given := json.Unmarshal(delta.values["index"], &index) == nil
	id := delta.text("id")
	// Some servers number no call, or give each the number 0: a new id begins one.
	if id != "" && (!given || index >= 0 && index < len(c.calls) && c.calls[index].id != "" && c.calls[index].id != id) {
		index = len(c.calls)
	}
	index = max(index, 0)
	if index > len(c.calls) || index >= maxCalls {
		return runner.Piece{}, fmt.Errorf("call %d begins where call %d is expected", index, len(c.calls))
	}
	if index == len(c.calls) {
		c.calls = append(c.calls, &growingCall{})
	}
	call := c.calls[index]
	for _, name := range delta.names {
		switch v := delta.values[name]; name {
		case "index":
		case "id", "type":
			call.fix(name, v)
		case "function":
			function, err := delta.child(name)
			if err != nil {
				return runner.Piece{}, err
			}
			call.extend(name, json.RawMessage(`{}`)) // its place
			for _, member := range function.names {
				if member == "name" {
					call.function.fix(member, function.values[member])
				} else {
					call.function.extend(member, function.values[member])
				}
			}
		default:
			call.extend(name, v)
		}
	}
	if id != "" {
		call.id = id
	}
	piece := runner.Piece{Index: 2 + index, Kind: events.DeltaToolCall, Tool: string(call.function.parts["name"])}
	if function, err := delta.child("function"); err == nil {
		piece.Text = function.text("arguments")
	}
	return piece, nil
}

// whole implements stream. Usage may follow the finish reason, and some servers
// end without [DONE].
func (c *completion) whole() (whole, last bool) { return !isNull(c.finish), c.over }

// raw implements stream.
func (c *completion) raw() (string, error) {
	if c.text.values["role"] == nil {
		c.text.fix("role", json.RawMessage(`"assistant"`))
	}
	if len(c.calls) > 0 {
		var calls []json.RawMessage
		for _, call := range c.calls {
			function, err := call.function.json()
			if err != nil {
				return "", err
			}
			call.extend("function", function)
			raw, err := call.json()
			if err != nil {
				return "", err
			}
			calls = append(calls, raw)
		}
		c.text.extend("tool_calls", list(calls))
	}
	message, err := c.text.json()
	if err != nil {
		return "", err
	}
	out := &object{values: map[string]json.RawMessage{}}
	out.merge(c.head)
	out.set("object", json.RawMessage(`"chat.completion"`))
	out.set("choices", json.RawMessage(`[{"index":0,"message":`+string(message)+`,"finish_reason":`+string(c.finish)+`}]`))
	if c.usage != nil {
		out.set("usage", c.usage)
	}
	raw, err := out.json()
	if err == nil && !json.Valid(raw) {
		err = errors.New("the chunks make no JSON")
	}
	return string(raw), err
}
