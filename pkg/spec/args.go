package spec

import (
	"encoding/json"
	"slices"
	"strings"
)

// CheckArgs lists what makes canonical args none that a call of the tool may have:
// no object, or not what its schema, or that of its built-in, wants. A field that
// the schema does not know is refused where the schema says so, and, where it
// lists properties and says nothing about others, here: what a person writes by
// hand and the tool would overlook is a mistake.
func (t *Tool) CheckArgs(args json.RawMessage) []Violation {
	if !strings.HasPrefix(string(args), "{") {
		return []Violation{{Path: "$", Message: "must be a JSON object"}}
	}
	bad := t.Input.Validate(args)
	raw := t.Input.JSON()
	if own := t.AnsweredByRunner(); own != nil {
		bad = append(bad, own.Input().Validate(args)...)
		raw = own.Input().JSON()
	}
	if name := t.FormMissing(args); name != "" && len(bad) == 0 {
		bad = append(bad, Violation{Path: "$." + name, Message: "must be filled in by the person who approves the call"})
	}
	return append(bad, unknownFields(raw, args)...)
}

func unknownFields(schema, args json.RawMessage) (bad []Violation) {
	var known map[string]json.RawMessage
	var given, properties map[string]json.RawMessage
	if json.Unmarshal(schema, &known) != nil || json.Unmarshal(known["properties"], &properties) != nil || json.Unmarshal(args, &given) != nil {
		return nil // it names no fields
	}
	for _, says := range []string{"additionalProperties", "unevaluatedProperties", "patternProperties", "allOf", "anyOf", "oneOf", "if", "$ref", "$dynamicRef", "dependentSchemas"} {
		if _, ok := known[says]; ok {
			return nil // the schema says what else there may be
		}
	}
	for _, name := range sortedNames(given) {
		if _, ok := properties[name]; !ok {
			bad = append(bad, Violation{Path: "$." + name, Message: "is not a field of the tool"})
		}
	}
	return bad
}

func sortedNames(m map[string]json.RawMessage) []string {
	var names []string
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
