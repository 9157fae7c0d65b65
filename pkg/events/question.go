package events

import "encoding/json"

// Question is what a person is asked for an answer.
type Question struct {
	Text    string   `json:"text"`
	Choices []string `json:"choices,omitempty"` // the answer is one of them
	To      string   `json:"to,omitempty"`      // who is asked, in words
	// Schema is a JSON Schema that the answer must fit.
	Schema json.RawMessage `json:"schema,omitempty"`
}

// Bounds of a question, at every place that takes one.
const (
	QuestionChars = 4000
	QuestionBytes = 160 << 10 // the whole of it, as JSON
	ChoiceChars   = 200
	MaxChoices    = 50
)
