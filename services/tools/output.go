package tools

import (
	"encoding/json"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// maxOutputComplaint bounds what is said about an answer of another shape.
const maxOutputComplaint = 2 << 10

// checkOutput holds what a call returned to the definition's output schema, or to
// the one that the other side declares. A read that breaks it is a failed call,
// because the answer is all that it is for. An act has happened: it stays what
// it is, and the model is told that the answer has another shape.
func checkOutput(schema *spec.Schema, class Class, out Outcome) Outcome {
	if schema == nil {
		schema = out.Declared
	}
	if schema == nil || out.Verdict != Happened {
		return out
	}
	value := out.Whole
	if value == nil {
		value = out.Result
	}
	bad := schema.Validate(value)
	if len(bad) == 0 {
		return out
	}
	places := make([]string, 0, len(bad))
	for _, v := range bad {
		places = append(places, v.String())
	}
	complaint := strings.Join(places, "; ")
	if len(complaint) > maxOutputComplaint {
		complaint = strings.ToValidUTF8(complaint[:maxOutputComplaint], "") + "…"
	}
	if class == ClassRead {
		return Outcome{Verdict: Refused, Receipt: out.Receipt, Error: problem(CodeOutputInvalid, "the answer breaks the tool's output schema: %s", complaint)}
	}
	noted, err := events.Marshal(struct {
		Note   string          `json:"note"`
		Answer json.RawMessage `json:"answer"`
	}{"it happened, but the answer has another shape than the tool's output schema: " + complaint, out.Result})
	if err == nil {
		out.Result = noted
	}
	return out
}
