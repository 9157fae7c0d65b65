package scriptmodel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// openAI is what OpenAI's two APIs have in common.
type openAI struct{}

func (openAI) admit(h http.Header) (int, string) {
	if !strings.HasPrefix(h.Get("Authorization"), "Bearer ") {
		return http.StatusUnauthorized, "You didn't provide an API key."
	}
	return 0, ""
}

func (openAI) refuse(w http.ResponseWriter, status int, message string) {
	if message == "" {
		message = http.StatusText(status)
	}
	w.Header().Set("content-type", "application/json")
	w.Header().Set("x-request-id", w.Header().Get("request-id"))
	w.WriteHeader(status)
	_, _ = w.Write(encode(obj{"error": openAIProblem(status, message)}))
}

// openAIProblem names a status as the provider does.
// Source: "Error codes" of the provider's reference.
func openAIProblem(status int, message string) obj {
	kind, code := "invalid_request_error", any(nil)
	switch {
	case strings.Contains(message, "maximum context length"):
		code = "context_length_exceeded"
	case status == http.StatusUnauthorized:
		code = "invalid_api_key"
	case status == http.StatusNotFound:
		code = "model_not_found"
	case status == http.StatusTooManyRequests:
		kind, code = "requests", "rate_limit_exceeded"
	case status >= 500:
		kind = "server_error"
	}
	return obj{"message": message, "type": kind, "param": nil, "code": code}
}

// members checks the names of a body's members against those that the API has.
func members(body []byte, known string) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(body, &all); err != nil {
		return fmt.Errorf("we could not parse the JSON body of your request: %w", err)
	}
	for name := range all {
		if !strings.Contains(" "+known+" ", " "+name+" ") {
			return fmt.Errorf("unknown parameter: '%s'", name)
		}
	}
	return nil
}

// writtenInput is a call's input from the JSON string that its arguments are.
// A history that holds what is no object is refused: many servers parse it.
func writtenInput(arguments string) (json.RawMessage, error) {
	in := bytes.TrimSpace([]byte(arguments))
	if len(in) == 0 || in[0] != '{' || !json.Valid(in) {
		return nil, fmt.Errorf("arguments: %.60q is not a JSON object", arguments)
	}
	return in, nil
}

func functionTool(name, description string, parameters json.RawMessage) Tool {
	return Tool{Name: name, Description: description, InputSchema: parameters}
}

// endsWithResult reports whether what a user says next stands in the same turn.
func endsWithResult(m Message) bool {
	return len(m.Blocks) > 0 && m.Blocks[len(m.Blocks)-1].Type == "tool_result"
}

// validateTurns holds what both APIs demand of a history of blocks: a user
// begins, each call has one result at once and in order, nothing is empty.
func validateTurns(r Request) error {
	if err := validateTools(r.Tools); err != nil {
		return err
	}
	if len(r.Messages) == 0 || r.Messages[0].Role != "user" {
		return errors.New("the conversation must begin with a user message")
	}
	var open []string
	for i, m := range r.Messages {
		var answered []string
		for _, b := range m.Blocks {
			switch b.Type {
			case "tool_result":
				if strings.TrimSpace(b.resultText()) == "" {
					return fmt.Errorf("message %d: the result of %s is empty", i, b.ToolUseID)
				}
				answered = append(answered, b.ToolUseID)
			case "text":
				if strings.TrimSpace(b.Text) == "" {
					return fmt.Errorf("message %d: a text must not be empty", i)
				}
			case "tool_use":
				if !toolName.MatchString(b.Name) {
					return fmt.Errorf("message %d: the name %q of a call does not match %s", i, b.Name, toolName)
				}
				if b.ID == "" {
					return fmt.Errorf("message %d: a call has no id", i)
				}
			}
		}
		if len(m.Blocks) == 0 {
			return fmt.Errorf("message %d is empty", i)
		}
		if strings.Join(answered, "\n") != strings.Join(open, "\n") {
			return fmt.Errorf("message %d answers the calls %v, but the answer before it made the calls %v, each of which wants one result at once and in order", i, answered, open)
		}
		open = nil
		seen := map[string]bool{}
		for _, b := range m.Blocks {
			if b.Type == "tool_use" {
				if seen[b.ID] {
					return fmt.Errorf("message %d: two calls have the id %s", i, b.ID)
				}
				seen[b.ID] = true
				open = append(open, b.ID)
			}
		}
		if i > 0 && m.Role == r.Messages[i-1].Role {
			return fmt.Errorf("message %d: two %s messages in a row", i, m.Role)
		}
	}
	if r.Messages[len(r.Messages)-1].Role != "user" {
		return errors.New("the conversation must end with a user message or the results of calls")
	}
	return nil
}

// split sorts the parts of an answer, with the ids of its calls.
func (b built) split() (text, thinking string, calls []Part, ids []string) {
	for _, p := range b.parts {
		switch p.kind {
		case "text":
			text += p.text
		case "thinking":
			thinking += p.text
		case "tool_use":
			ids = append(ids, callIDOf(b.key, b.turn, len(calls)))
			calls = append(calls, p)
		}
	}
	return text, thinking, calls, ids
}

// callBlock is a call as a history repeats it.
func callBlock(id string, p Part) Block {
	return Block{Type: "tool_use", ID: id, Name: p.name, Input: json.RawMessage(p.args())}
}
