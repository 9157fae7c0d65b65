package scriptmodel

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Script answers a request. It must be a pure function of it. An error is
// answered as an api_error (500) and kept as a Violation: a script that does
// not know what to say means that the conversation went where it never should.
type Script func(Request) (Answer, error)

// Answer is what a script says.
type Answer struct {
	Parts []Part
	// StopReason is filled in when it is empty: "tool_use" when a part is a
	// call, else "end_turn".
	StopReason string
	// Usage is filled in when it is zero, from the number of bytes.
	Usage Usage
	// NoUsage leaves all counts out of the answer, as some servers do.
	NoUsage bool
}

// Usage counts tokens as the provider reports them.
type Usage struct {
	InputTokens              int64 `json:"input_tokens"`
	CacheCreationInputTokens int64 `json:"cache_creation_input_tokens"`
	CacheReadInputTokens     int64 `json:"cache_read_input_tokens"`
	OutputTokens             int64 `json:"output_tokens"`
	ReasoningTokens          int64 `json:"-"` // of the output; not every provider says
}

// Part is one block of an answer, made by Text, Thinking or Call.
type Part struct {
	kind  string
	text  string
	name  string
	input json.RawMessage
	bad   bool
}

// Text is something the model says.
func Text(s string) Part { return Part{kind: "text", text: s} }

// Thinking is a signed thinking block; it must come back unchanged.
func Thinking(s string) Part { return Part{kind: "thinking", text: s} }

// Call asks for a tool. Input is encoded as JSON; a json.RawMessage is sent as
// it is. It panics when input has no JSON form.
func Call(tool string, input any) Part {
	raw, ok := input.(json.RawMessage)
	if !ok {
		raw = encode(input)
	}
	return Part{kind: "tool_use", name: tool, input: raw}
}

// BadCall asks for a tool with arguments that are no JSON object, as a model may
// write them.
func BadCall(tool, args string) Part {
	return Part{kind: "tool_use", name: tool, text: args, bad: true}
}

// args is the text of a call's arguments.
func (p Part) args() string {
	if p.bad {
		return p.text
	}
	return string(p.input)
}

// built is an answer in the form it has on the wire.
type built struct {
	id         string
	model      string
	blocks     []json.RawMessage
	parts      []Part
	stopReason string
	usage      Usage
	noUsage    bool
	key        string
	turn       int
	request    Request
}

// build renders a for the given conversation and turn. Ids are derived, so the
// same answer to the same request has the same bytes.
func build(a Answer, r Request, key string) built {
	b := built{
		id: "msg_" + derive(key, r.place(), "message"), model: r.Model, parts: a.Parts,
		stopReason: a.StopReason, usage: a.Usage, noUsage: a.NoUsage, key: key, turn: r.place(), request: r,
	}
	calls := 0
	for _, p := range a.Parts {
		switch p.kind {
		case "thinking":
			b.blocks = append(b.blocks, thinkingBlock(p.text))
		case "tool_use":
			input := p.input
			if p.bad {
				input = encode(p.text)
			}
			b.blocks = append(b.blocks, encode(struct {
				Type  string          `json:"type"`
				ID    string          `json:"id"`
				Name  string          `json:"name"`
				Input json.RawMessage `json:"input"`
			}{"tool_use", callIDOf(key, r.place(), calls), p.name, input}))
			calls++
		default:
			b.blocks = append(b.blocks, encode(struct {
				Type string `json:"type"`
				Text string `json:"text"`
			}{"text", p.text}))
		}
	}
	if b.stopReason == "" {
		b.stopReason = "end_turn"
		if calls > 0 {
			b.stopReason = "tool_use"
		}
	}
	if b.usage == (Usage{}) {
		b.usage.InputTokens = int64(len(r.Raw)/4 + 1)
		for _, block := range b.blocks {
			b.usage.OutputTokens += int64(len(block)/4 + 1)
		}
	}
	return b
}

func callIDOf(key string, turn, index int) string {
	return "toolu_" + derive(key, turn, fmt.Sprintf("call %d", index))
}

func derive(key string, turn int, what string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%d\n%s", key, turn, what))
	return hex.EncodeToString(sum[:12])
}

// thinkingBlock is the only spelling of a thinking block that the server gives
// and takes back. The key of the signature is no secret: it finds changes, not
// forgers.
func thinkingBlock(text string) json.RawMessage {
	mac := hmac.New(sha256.New, []byte("scriptmodel thinking"))
	mac.Write([]byte(text))
	return encode(struct {
		Type      string `json:"type"`
		Thinking  string `json:"thinking"`
		Signature string `json:"signature"`
	}{"thinking", text, base64.StdEncoding.EncodeToString(mac.Sum(nil))})
}

type wireAnswer struct {
	ID           string            `json:"id"`
	Type         string            `json:"type"`
	Role         string            `json:"role"`
	Model        string            `json:"model"`
	Content      []json.RawMessage `json:"content"`
	StopReason   *string           `json:"stop_reason"`
	StopSequence *string           `json:"stop_sequence"`
	Usage        *Usage            `json:"usage"`
}

// said is what the answer says it cost.
func (b built) said() *Usage {
	if b.noUsage {
		return nil
	}
	return &b.usage
}

func (b built) body() []byte {
	content := b.blocks
	if content == nil {
		content = []json.RawMessage{}
	}
	return encode(wireAnswer{
		ID: b.id, Type: "message", Role: "assistant", Model: b.model, Content: content,
		StopReason: &b.stopReason, Usage: b.said(),
	})
}

// encode is json.Marshal without escaping of <, > and &, as providers send.
func encode(v any) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("scriptmodel: encode: %v", err))
	}
	return bytes.TrimRight(buf.Bytes(), "\n")
}
