package approvals

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// unfit says why answer is none to q: not one of its choices, or not what its
// schema wants. It is empty when the answer fits.
func unfit(q *events.Question, answer json.RawMessage) string {
	if q == nil {
		return ""
	}
	if len(q.Choices) > 0 {
		var text string
		if json.Unmarshal(answer, &text) != nil || !slices.Contains(q.Choices, text) {
			return fmt.Sprintf("the answer is not one of the choices: %s", quoted(q.Choices))
		}
	}
	if len(q.Schema) == 0 {
		return ""
	}
	schema, err := spec.NewSchema(q.Schema)
	if err != nil {
		return fmt.Sprintf("the schema of the answer cannot be used: %v", err) // the ask was checked
	}
	bad := schema.Validate(answer)
	if len(bad) == 0 {
		return ""
	}
	var parts []string
	for _, v := range bad[:min(len(bad), 5)] {
		parts = append(parts, v.String())
	}
	return "the answer breaks its schema: " + strings.Join(parts, "; ")
}

func quoted(choices []string) string {
	var parts []string
	for _, c := range choices {
		parts = append(parts, fmt.Sprintf("%q", c))
	}
	return strings.Join(parts, ", ")
}

// checkQuestion finds what is wrong with a question as it is asked.
func checkQuestion(q *events.Question) error {
	raw, err := events.Marshal(q)
	switch {
	case err != nil:
		return err
	case len(raw) > events.QuestionBytes:
		return fmt.Errorf("question has %d bytes, at most %d are asked", len(raw), events.QuestionBytes)
	case strings.TrimSpace(q.Text) == "":
		return fmt.Errorf("question has no text")
	case utf8.RuneCountInString(q.Text) > events.QuestionChars:
		return fmt.Errorf("question has %d characters, at most %d are asked", utf8.RuneCountInString(q.Text), events.QuestionChars)
	case len(q.Choices) > events.MaxChoices:
		return fmt.Errorf("question has %d choices, at most %d are asked", len(q.Choices), events.MaxChoices)
	}
	if _, err := events.Canonical(raw); err != nil { // also NUL, in any of its texts
		return fmt.Errorf("question: %w", err)
	}
	if len(q.Schema) > 0 {
		if _, err := spec.NewSchema(q.Schema); err != nil {
			return fmt.Errorf("schema of the answer: %w", err)
		}
	}
	return nil
}
