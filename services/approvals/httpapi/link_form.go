package httpapi

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/approvals"
)

// fieldPrefix stands before the names of what a form of the page fills in.
const fieldPrefix = "field."

// formInput is one input of the page.
type formInput struct {
	Name, Title, Hint string
	Options           []string // of which one is chosen; empty: it is typed
	Long, Number      bool
	Required          bool
	Value             string // as it was sent before
}

// inputsOf are the inputs of a request's form, with what was typed before.
func inputsOf(q approvals.Request, typed func(string) string) []formInput {
	var out []formInput
	for _, f := range q.Form() {
		var s struct {
			Type        json.RawMessage
			Enum        []json.RawMessage
			Description string
			MaxLength   int
		}
		_ = json.Unmarshal(f.Schema, &s) // true and false want nothing
		in := formInput{
			Name: fieldPrefix + f.Name, Title: approvals.Visible(cmp.Or(f.Title, f.Name), 200), Hint: approvals.Visible(s.Description, 500),
			Required: f.Required, Value: typed(fieldPrefix + f.Name),
		}
		switch string(s.Type) {
		case `"boolean"`:
			in.Options = []string{"true", "false"}
		case `"number"`, `"integer"`:
			in.Number = true
		case `"string"`:
			in.Long = s.MaxLength > 200
		default:
			in.Long = true
		}
		if len(s.Enum) > 0 && len(s.Enum) <= 100 {
			in.Options = nil
			for _, e := range s.Enum {
				var text string
				if json.Unmarshal(e, &text) != nil {
					text = string(e)
				}
				in.Options = append(in.Options, approvals.Visible(text, 200))
			}
		}
		out = append(out, in)
	}
	return out
}

// fieldsOf is what was typed into the inputs of a request's form; nil for nothing. What
// was left empty was not filled in.
func fieldsOf(q approvals.Request, typed func(string) string) json.RawMessage {
	given := map[string]json.RawMessage{}
	for _, f := range q.Form() {
		if text := strings.ReplaceAll(typed(fieldPrefix+f.Name), "\r\n", "\n"); text != "" {
			given[f.Name] = spec.FieldValue(f, text)
		}
	}
	if len(given) == 0 {
		return nil
	}
	raw, err := events.Marshal(given)
	if err != nil {
		return nil // each was made by a writer of JSON
	}
	return raw
}
