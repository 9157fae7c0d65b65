package scriptmodel

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// streamWriter sends the events of one streamed answer and can be cut short.
type streamWriter struct {
	w     http.ResponseWriter
	left  int // events until the cut; negative for none
	wrote int
}

// errCut aborts the connection: net/http closes it without a final chunk.
var errCut = http.ErrAbortHandler

func (s *streamWriter) event(name string, data any) error {
	if s.left == 0 {
		return errCut
	}
	s.left--
	if _, err := fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", name, encode(data)); err != nil {
		return err
	}
	s.wrote++
	return http.NewResponseController(s.w).Flush()
}

type obj = map[string]any

// send streams b: text and input in pieces, as the provider does.
// Source: "Streaming messages" of the provider's reference.
func (s *streamWriter) send(b built) error {
	start := wireAnswer{ID: b.id, Type: "message", Role: "assistant", Model: b.model, Content: []json.RawMessage{}, Usage: b.usage}
	start.Usage.OutputTokens = 1
	if err := s.event("message_start", obj{"type": "message_start", "message": start}); err != nil {
		return err
	}
	if err := s.event("ping", obj{"type": "ping"}); err != nil {
		return err
	}
	for i, raw := range b.blocks {
		if err := s.block(i, raw, b.parts[i]); err != nil {
			return err
		}
	}
	err := s.event("message_delta", obj{
		"type":  "message_delta",
		"delta": obj{"stop_reason": b.stopReason, "stop_sequence": nil},
		"usage": b.usage,
	})
	if err != nil {
		return err
	}
	return s.event("message_stop", obj{"type": "message_stop"})
}

func (s *streamWriter) block(i int, raw json.RawMessage, p Part) error {
	var full Block
	if err := json.Unmarshal(raw, &full); err != nil {
		return err
	}
	var begin any
	var deltas []obj
	switch p.kind {
	case "thinking":
		begin = obj{"type": "thinking", "thinking": "", "signature": ""}
		for _, piece := range pieces(p.text) {
			deltas = append(deltas, obj{"type": "thinking_delta", "thinking": piece})
		}
		deltas = append(deltas, obj{"type": "signature_delta", "signature": full.Signature})
	case "tool_use":
		begin = obj{"type": "tool_use", "id": full.ID, "name": full.Name, "input": obj{}}
		for _, piece := range pieces(string(full.Input)) {
			deltas = append(deltas, obj{"type": "input_json_delta", "partial_json": piece})
		}
	default:
		begin = obj{"type": "text", "text": ""}
		for _, piece := range pieces(p.text) {
			deltas = append(deltas, obj{"type": "text_delta", "text": piece})
		}
	}
	if err := s.event("content_block_start", obj{"type": "content_block_start", "index": i, "content_block": begin}); err != nil {
		return err
	}
	for _, d := range deltas {
		if err := s.event("content_block_delta", obj{"type": "content_block_delta", "index": i, "delta": d}); err != nil {
			return err
		}
	}
	return s.event("content_block_stop", obj{"type": "content_block_stop", "index": i})
}

// pieces cuts s into parts of up to 40 characters, never inside one.
func pieces(s string) []string {
	var out []string
	runes := []rune(s)
	for len(runes) > 40 {
		out = append(out, string(runes[:40]))
		runes = runes[40:]
	}
	return append(out, string(runes))
}
