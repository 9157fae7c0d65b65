package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// maxAnswer bounds what is read of one answer.
const maxAnswer = 32 << 20

// assembly puts the events of a streamed message together to the message that
// the same request without a stream would have answered. It works on JSON text:
// strings are joined between their quotes and arguments as text, so digits, the
// order of members, escapes and whatever this release does not know are kept.
// Source: "Streaming messages" of the provider's reference.
type assembly struct {
	message *object
	usage   *object
	blocks  []*block
	ended   bool // message_delta has named the stop reason
	counted bool // and the output tokens; message_start only knows the first
	done    bool
}

var _ stream = (*assembly)(nil)

// event implements stream.
func (a *assembly) event(kind string, data []byte) (runner.Piece, error) {
	if kind == "error" {
		return runner.Piece{}, eventError(data)
	}
	return a.take(data)
}

// whole implements stream.
func (a *assembly) whole() (whole, last bool) { return a.done, a.done }

// block is one content block while it grows.
type block struct {
	members   *object
	strings   map[string][]byte // members that deltas append to, as stringBody
	input     []byte            // partial_json, as stringBody
	citations []json.RawMessage
	closed    bool
}

// take reads one event and returns what of it can be shown. The answer is
// whole when done is set.
func (a *assembly) take(data []byte) (runner.Piece, error) {
	e, err := parseObject(data)
	if err != nil {
		return runner.Piece{}, fmt.Errorf("event: %w", err)
	}
	kind := e.text("type")
	if kind == "ping" {
		return runner.Piece{}, nil
	}
	if kind == "message_start" {
		return runner.Piece{}, a.start(e)
	}
	if a.message == nil {
		return runner.Piece{}, fmt.Errorf("%.40q comes before message_start", kind)
	}
	switch kind {
	case "content_block_start":
		return a.open(e)
	case "content_block_delta", "content_block_stop":
		b, index, err := a.at(e)
		if err != nil {
			return runner.Piece{}, fmt.Errorf("%s: %w", kind, err)
		}
		if kind == "content_block_stop" {
			b.closed = true
			return runner.Piece{}, nil
		}
		delta, err := e.child("delta")
		if err != nil {
			return runner.Piece{}, err
		}
		return b.grow(index, delta)
	case "message_delta":
		return runner.Piece{}, a.change(e)
	case "message_stop":
		return runner.Piece{}, a.stop()
	}
	return runner.Piece{}, nil // the API may add kinds of events
}

func (a *assembly) start(e *object) (err error) {
	if a.message != nil {
		return errors.New("a second message_start")
	}
	if a.message, err = e.child("message"); err != nil {
		return err
	}
	if !isNull(a.message.values["usage"]) {
		a.usage, err = a.message.child("usage")
	}
	return err
}

func (a *assembly) open(e *object) (runner.Piece, error) {
	var index int
	if err := json.Unmarshal(e.values["index"], &index); err != nil || index != len(a.blocks) {
		return runner.Piece{}, fmt.Errorf("block %.20s begins where block %d is expected", e.values["index"], len(a.blocks))
	}
	members, err := e.child("content_block")
	if err != nil {
		return runner.Piece{}, err
	}
	a.blocks = append(a.blocks, &block{members: members, strings: map[string][]byte{}})
	switch members.text("type") {
	case "text":
		return runner.Piece{Index: index, Kind: events.DeltaText, Text: members.text("text")}, nil
	case "thinking":
		return runner.Piece{Index: index, Kind: events.DeltaThinking, Text: members.text("thinking")}, nil
	case "tool_use":
		return runner.Piece{Index: index, Kind: events.DeltaToolCall, Tool: members.text("name")}, nil
	}
	return runner.Piece{}, nil
}

// at is the open block that e speaks of.
func (a *assembly) at(e *object) (*block, int, error) {
	var index int
	if err := json.Unmarshal(e.values["index"], &index); err != nil || index < 0 || index >= len(a.blocks) || a.blocks[index].closed {
		return nil, 0, fmt.Errorf("block %.20s is not open", e.values["index"])
	}
	return a.blocks[index], index, nil
}

// grow takes one delta. A kind that this release does not know appends its
// strings to the members of the same name, as every known one does, and sets
// the others.
func (b *block) grow(index int, delta *object) (runner.Piece, error) {
	switch kind := delta.text("type"); kind {
	case "input_json_delta":
		part, ok := stringBody(delta.values["partial_json"])
		if !ok {
			return runner.Piece{}, errors.New("partial_json is no string")
		}
		b.input = append(b.input, part...)
		return runner.Piece{Index: index, Kind: events.DeltaToolCall, Tool: b.members.text("name"), Text: delta.text("partial_json")}, nil
	case "citations_delta":
		if isNull(delta.values["citation"]) {
			return runner.Piece{}, errors.New("a citation is missing")
		}
		b.citations = append(b.citations, delta.values["citation"])
		return runner.Piece{}, nil
	}
	for _, name := range delta.names {
		v := delta.values[name]
		part, isText := stringBody(v)
		switch {
		case name == "type" || isNull(v):
		case !isText:
			b.members.set(name, v)
		default:
			if err := b.extend(name, part); err != nil {
				return runner.Piece{}, err
			}
		}
	}
	switch delta.text("type") {
	case "text_delta":
		return runner.Piece{Index: index, Kind: events.DeltaText, Text: delta.text("text")}, nil
	case "thinking_delta":
		return runner.Piece{Index: index, Kind: events.DeltaThinking, Text: delta.text("thinking")}, nil
	}
	return runner.Piece{}, nil
}

func (b *block) extend(name string, part []byte) error {
	if _, begun := b.strings[name]; !begun {
		first, ok := stringBody(b.members.values[name])
		if !ok && !isNull(b.members.values[name]) {
			return fmt.Errorf("text for %.40q, which is no text", name)
		}
		b.strings[name] = bytes.Clone(first)
		b.members.set(name, nil) // its place
	}
	b.strings[name] = append(b.strings[name], part...)
	return nil
}

// change takes message_delta: the end of the message, and its whole cost so far.
func (a *assembly) change(e *object) error {
	delta, err := e.child("delta")
	if err != nil {
		return err
	}
	a.message.merge(delta)
	a.message.merge(e, "type", "delta", "usage")
	a.ended = a.ended || !isNull(delta.values["stop_reason"])
	if isNull(e.values["usage"]) {
		return nil
	}
	usage, err := e.child("usage")
	if err != nil {
		return err
	}
	a.counted = a.counted || !isNull(usage.values["output_tokens"])
	if a.usage == nil {
		a.usage = usage
		return nil
	}
	a.usage.merge(usage)
	return nil
}

func (a *assembly) stop() error {
	if !a.ended {
		return errors.New("message_stop without a stop reason before it")
	}
	for i, b := range a.blocks {
		if !b.closed {
			return fmt.Errorf("message_stop while block %d is open", i)
		}
	}
	a.done = true
	return nil
}

// raw is the whole message.
func (a *assembly) raw() (string, error) {
	content := []byte{'['}
	for i, b := range a.blocks {
		if i > 0 {
			content = append(content, ',')
		}
		raw, err := b.json(a.message.text("stop_reason"))
		if err != nil {
			return "", fmt.Errorf("block %d: %w", i, err)
		}
		content = append(content, raw...)
	}
	a.message.set("content", append(content, ']'))
	if a.usage != nil {
		usage, err := a.usage.json()
		if err != nil {
			return "", err
		}
		a.message.set("usage", usage)
	}
	raw, err := a.message.json()
	return string(raw), err
}

func (b *block) json(stopReason string) (json.RawMessage, error) {
	for name, body := range b.strings {
		b.members.set(name, append(append([]byte{'"'}, body...), '"'))
	}
	if len(b.citations) > 0 {
		var all []json.RawMessage
		if !isNull(b.members.values["citations"]) {
			if err := json.Unmarshal(b.members.values["citations"], &all); err != nil {
				return nil, fmt.Errorf("citations: %w", err)
			}
		}
		list := append([]byte{'['}, bytes.Join(toBytes(append(all, b.citations...)), []byte{','})...)
		b.members.set("citations", append(list, ']'))
	}
	if err := b.setInput(stopReason); err != nil {
		return nil, err
	}
	return b.members.json()
}

// setInput puts the arguments of a call in. An answer that was cut at its limit
// may have cut them: the call keeps what its start said, and is not made. Other
// arguments that are no JSON are kept as a JSON string of what the model wrote.
func (b *block) setInput(stopReason string) error {
	var text string
	if err := json.Unmarshal(append(append([]byte{'"'}, b.input...), '"'), &text); err != nil {
		return fmt.Errorf("partial_json: %w", err)
	}
	switch raw := bytes.TrimSpace([]byte(text)); {
	case len(raw) == 0:
	case json.Valid(raw):
		b.members.set("input", raw)
	case stopReason != "max_tokens":
		text, err := events.Marshal(text)
		if err != nil {
			return err
		}
		b.members.set("input", text)
	}
	return nil
}

func toBytes(in []json.RawMessage) [][]byte {
	out := make([][]byte, len(in))
	for i, r := range in {
		out[i] = r
	}
	return out
}
