package model

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// response follows the events of a streamed response. The last of them carries
// the whole response; the items that were done before it are kept for servers
// whose last event has none.
// Source: "Responses: streaming events" of the provider's reference.
type response struct {
	items []json.RawMessage
	tools map[int]string // names of calls, by place in the output
	final json.RawMessage
}

var _ stream = (*response)(nil)

// event implements stream.
func (s *response) event(kind string, data []byte) (runner.Piece, error) {
	if string(data) == "[DONE]" {
		return runner.Piece{}, nil
	}
	e, err := parseObject(data)
	if err != nil {
		return runner.Piece{}, fmt.Errorf("event: %w", err)
	}
	if named := e.text("type"); named != "" {
		kind = named
	}
	var index int
	_ = json.Unmarshal(e.values["output_index"], &index) // only shown
	switch kind {
	case "error":
		return runner.Piece{}, eventError(data)
	case "response.failed":
		return runner.Piece{}, eventError(e.values["response"])
	case "response.output_text.delta", "response.refusal.delta":
		return runner.Piece{Index: index, Kind: events.DeltaText, Text: e.text("delta")}, nil
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return runner.Piece{Index: index, Kind: events.DeltaThinking, Text: e.text("delta")}, nil
	case "response.function_call_arguments.delta":
		return runner.Piece{Index: index, Kind: events.DeltaToolCall, Tool: s.tools[index], Text: e.text("delta")}, nil
	case "response.output_item.added":
		item, err := e.child("item")
		if err != nil {
			return runner.Piece{}, err
		}
		if item.text("type") != "function_call" {
			return runner.Piece{}, nil
		}
		if s.tools == nil {
			s.tools = map[int]string{}
		}
		if len(s.tools) < maxCalls {
			s.tools[index] = item.text("name")
		}
		return runner.Piece{Index: index, Kind: events.DeltaToolCall, Tool: item.text("name")}, nil
	case "response.output_item.done":
		if _, err := e.child("item"); err != nil {
			return runner.Piece{}, err
		}
		s.items = append(s.items, e.values["item"])
	case "response.completed", "response.incomplete", "response.cancelled":
		if _, err := e.child("response"); err != nil {
			return runner.Piece{}, err
		}
		s.final = e.values["response"]
	}
	return runner.Piece{}, nil // the API may add kinds of events
}

// whole implements stream.
func (s *response) whole() (whole, last bool) { return s.final != nil, s.final != nil }

// raw implements stream.
func (s *response) raw() (string, error) {
	o, err := parseObject(s.final)
	if err != nil {
		return "", err
	}
	var output []json.RawMessage
	if !isNull(o.values["output"]) {
		if err := json.Unmarshal(o.values["output"], &output); err != nil {
			return "", fmt.Errorf("output: %w", err)
		}
	}
	switch {
	case len(output) == 0 && len(s.items) > 0:
		o.set("output", list(s.items))
		raw, err := o.json()
		return string(raw), err
	case len(output) < len(s.items):
		return "", errors.New("the response has fewer items than its stream")
	}
	return string(s.final), nil
}
