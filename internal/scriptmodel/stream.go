package scriptmodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// streamWriter sends the events of one streamed answer and can be cut short.
type streamWriter struct {
	w     http.ResponseWriter
	left  int // events until the fault; negative for none
	chunk int // bytes of one write; zero means an event
}

var (
	// errCut aborts the connection: net/http closes it without a final chunk.
	errCut = http.ErrAbortHandler
	// errFault says that the events before the fault are written.
	errFault = errors.New("fault")
)

func (s *streamWriter) event(name string, data any) error {
	if s.left == 0 {
		return errFault
	}
	s.left--
	var text []byte
	if name != "" {
		text = fmt.Appendf(nil, "event: %s\n", name)
	}
	if done, ok := data.(string); ok {
		text = fmt.Appendf(text, "data: %s\n\n", done)
	} else {
		text = fmt.Appendf(text, "data: %s\n\n", encode(data))
	}
	size := len(text)
	if s.chunk > 0 {
		size = s.chunk
	}
	for part := range slices.Chunk(text, size) {
		if _, err := s.w.Write(part); err != nil {
			return err
		}
		if err := http.NewResponseController(s.w).Flush(); err != nil {
			return err
		}
	}
	return nil
}

type obj = map[string]any

// The members of the events are in the order in which the provider sends them.
type (
	startEvent struct {
		Type    string     `json:"type"`
		Message wireAnswer `json:"message"`
	}
	blockEvent struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
		Block any    `json:"content_block,omitempty"`
		Delta any    `json:"delta,omitempty"`
	}
	endEvent struct {
		Type  string `json:"type"`
		Delta struct {
			StopReason   string  `json:"stop_reason"`
			StopSequence *string `json:"stop_sequence"`
		} `json:"delta"`
		Usage *Usage `json:"usage"`
	}
	textBlock struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	thinkingStart struct {
		Type      string `json:"type"`
		Thinking  string `json:"thinking"`
		Signature string `json:"signature"`
	}
	callStart struct {
		Type  string   `json:"type"`
		ID    string   `json:"id"`
		Name  string   `json:"name"`
		Input struct{} `json:"input"`
	}
)

// send streams b: text and input in pieces, as the provider does.
// Source: "Streaming messages" of the provider's reference.
func (s *streamWriter) send(b built) error {
	start := wireAnswer{ID: b.id, Type: "message", Role: "assistant", Model: b.model, Content: []json.RawMessage{}}
	if !b.noUsage {
		first := b.usage
		first.OutputTokens = 1
		start.Usage = &first
	}
	if err := s.event("message_start", startEvent{"message_start", start}); err != nil {
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
	end := endEvent{Type: "message_delta", Usage: b.said()}
	end.Delta.StopReason = b.stopReason
	if err := s.event("message_delta", end); err != nil {
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
		begin = thinkingStart{Type: "thinking"}
		for _, piece := range pieces(p.text) {
			deltas = append(deltas, obj{"type": "thinking_delta", "thinking": piece})
		}
		deltas = append(deltas, obj{"type": "signature_delta", "signature": full.Signature})
	case "tool_use":
		begin = callStart{Type: "tool_use", ID: full.ID, Name: full.Name}
		for _, piece := range pieces(p.args()) {
			deltas = append(deltas, obj{"type": "input_json_delta", "partial_json": piece})
		}
	default:
		begin = textBlock{Type: "text"}
		for _, piece := range pieces(p.text) {
			deltas = append(deltas, obj{"type": "text_delta", "text": piece})
		}
	}
	if err := s.event("content_block_start", blockEvent{Type: "content_block_start", Index: i, Block: begin}); err != nil {
		return err
	}
	for _, d := range deltas {
		if err := s.event("content_block_delta", blockEvent{Type: "content_block_delta", Index: i, Delta: d}); err != nil {
			return err
		}
	}
	return s.event("content_block_stop", blockEvent{Type: "content_block_stop", Index: i})
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
