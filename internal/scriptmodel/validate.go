package scriptmodel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
)

var (
	badInName = regexp.MustCompile(`[^a-zA-Z0-9_-]`)
	toolName  = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)
	callID    = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
)

// validate holds the rules that one request can break by itself. The error is
// the sentence of an invalid_request_error.
func validate(r Request) error {
	if err := validateTools(r.Tools); err != nil {
		return err
	}
	if r.System == "" && len(r.system) > 0 && !bytes.Equal(r.system, []byte("null")) {
		return errors.New("system: text content blocks must be non-empty")
	}
	var open map[string]bool // calls of the message before that wait for their result
	usesTools := false
	for i, m := range r.Messages {
		want := "user"
		if i > 0 && r.Messages[i-1].Role == "user" {
			want = "assistant"
		}
		// Whether an answer may follow an answer, or end the history, depends on why
		// it stopped; the conversation knows.
		if m.Role != want && !(m.Role == "assistant" && i > 0) {
			return fmt.Errorf("messages.%d: role is %q, but roles must alternate and begin with user", i, m.Role)
		}
		if len(m.Blocks) == 0 {
			return fmt.Errorf("messages.%d: content must be non-empty", i)
		}
		if err := validateBlocks(m, i); err != nil {
			return err
		}
		if err := matchResults(m, i, open); err != nil {
			return err
		}
		var err error
		if open, err = openCalls(m, i); err != nil {
			return err
		}
		usesTools = usesTools || len(open) > 0
	}
	if usesTools && len(r.Tools) == 0 {
		return errors.New("tools: requests with tool_use or tool_result blocks must define tools")
	}
	return nil
}

func validateTools(tools []Tool) error {
	seen := map[string]bool{}
	for i, t := range tools {
		switch {
		case !toolName.MatchString(t.Name):
			return fmt.Errorf("tools.%d.name: %q does not match %s", i, t.Name, toolName)
		case seen[t.Name]:
			return fmt.Errorf("tools: tool names must be unique, %q appears twice", t.Name)
		}
		seen[t.Name] = true
		if t.Type != "" && t.Type != "custom" {
			continue // a tool of the provider's own has no schema
		}
		var schema struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(t.InputSchema, &schema); err != nil || schema.Type != "object" {
			return fmt.Errorf("tools.%d.input_schema.type: must be \"object\"", i)
		}
	}
	return nil
}

// blockRoles says who may send a block of each type; what is absent is refused.
var blockRoles = map[string]string{
	"text": "both", "image": "user", "document": "user", "search_result": "user", "tool_result": "user",
	"tool_use": "assistant", "thinking": "assistant", "redacted_thinking": "assistant",
}

func validateBlocks(m Message, i int) error {
	afterText := false
	for j, b := range m.Blocks {
		at := fmt.Sprintf("messages.%d.content.%d", i, j)
		role, ok := blockRoles[b.Type]
		switch {
		case !ok:
			return fmt.Errorf("%s: block type %q is not known", at, b.Type)
		case role != "both" && role != m.Role:
			return fmt.Errorf("%s: %s blocks can only be in %s messages", at, b.Type, role)
		}
		switch b.Type {
		case "text":
			if strings.TrimSpace(b.Text) == "" {
				return fmt.Errorf("%s: text content blocks must contain non-whitespace text", at)
			}
			afterText = true
		case "tool_use":
			if err := validateCall(b); err != nil {
				return fmt.Errorf("%s: %w", at, err)
			}
		case "tool_result":
			if afterText {
				return fmt.Errorf("%s: tool_result blocks must come before text in a message", at)
			}
			if err := validateResult(b); err != nil {
				return fmt.Errorf("%s: %w", at, err)
			}
		case "thinking":
			if !sameJSON(thinkingBlock(b.Thinking), b.Raw) {
				return fmt.Errorf("%s: Invalid `signature` in `thinking` block: it must come back exactly as it was given", at)
			}
		}
	}
	return nil
}

// sameJSON compares meanings: every member, every character of a text, every
// digit of a number. How a character is escaped is not part of it.
func sameJSON(a, b json.RawMessage) bool {
	ca, errA := events.Canonical(a)
	cb, errB := events.Canonical(b)
	return errA == nil && errB == nil && bytes.Equal(ca, cb)
}

func validateCall(b Block) error {
	if !callID.MatchString(b.ID) {
		return fmt.Errorf("id: %q does not match %s", b.ID, callID)
	}
	if !toolName.MatchString(b.Name) {
		return fmt.Errorf("name: %q does not match %s", b.Name, toolName)
	}
	if in := bytes.TrimSpace(b.Input); len(in) == 0 || in[0] != '{' {
		return errors.New("input: must be an object")
	}
	return nil
}

func validateResult(b Block) error {
	if b.ToolUseID == "" {
		return errors.New("tool_use_id: Field required")
	}
	blocks, err := decodeContent(b.Content)
	if err != nil {
		return err
	}
	if content := bytes.TrimSpace(b.Content); len(content) > 0 && content[0] == '"' {
		return nil // a string may be empty: a tool may have nothing to say
	}
	for k, inner := range blocks {
		switch inner.Type {
		case "text":
			if strings.TrimSpace(inner.Text) == "" {
				return fmt.Errorf("content.%d: text content blocks must contain non-whitespace text", k)
			}
		case "image", "document", "search_result":
		default:
			return fmt.Errorf("content.%d: block type %q is not allowed in a tool_result", k, inner.Type)
		}
	}
	return nil
}

// matchResults checks that m answers exactly the calls of the message before.
func matchResults(m Message, i int, open map[string]bool) error {
	got := map[string]bool{}
	for j, b := range m.Blocks {
		if b.Type != "tool_result" {
			continue
		}
		switch {
		case !open[b.ToolUseID]:
			return fmt.Errorf("messages.%d.content.%d: unexpected tool_use_id %q: each tool_result must answer a tool_use of the message before", i, j, b.ToolUseID)
		case got[b.ToolUseID]:
			return fmt.Errorf("messages.%d.content.%d: each tool_use must have a single result, found two for %q", i, j, b.ToolUseID)
		}
		got[b.ToolUseID] = true
	}
	for id := range open {
		if !got[id] {
			return fmt.Errorf("messages.%d: tool_use ids were found without tool_result blocks immediately after: %s", i, id)
		}
	}
	return nil
}

func openCalls(m Message, i int) (map[string]bool, error) {
	open := map[string]bool{}
	for j, b := range m.Blocks {
		if b.Type != "tool_use" {
			continue
		}
		if open[b.ID] {
			return nil, fmt.Errorf("messages.%d.content.%d: tool_use ids must be unique, %q appears twice", i, j, b.ID)
		}
		open[b.ID] = true
	}
	return open, nil
}
