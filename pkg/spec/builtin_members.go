package spec

import (
	"encoding/json"
	"strings"
)

// members is what a schema says about an object's members, as far as its
// keywords name them outright.
type members struct {
	Properties map[string]member `json:"properties"`
	Required   []string          `json:"required"`
	Additional json.RawMessage   `json:"additionalProperties"`
}

// member is the schema of one member: an object, or true or false.
type member json.RawMessage

// UnmarshalJSON keeps the schema as it is.
func (m *member) UnmarshalJSON(raw []byte) error {
	*m = append((*m)[:0], raw...)
	return nil
}

// Type is the one type that the member may have; empty when the schema does not
// name exactly one.
func (m member) Type() string {
	var has struct {
		Type any `json:"type"`
	}
	if json.Unmarshal(m, &has) != nil {
		return ""
	}
	name, _ := has.Type.(string)
	return name
}

// Closed reports whether no other members are allowed.
func (m members) Closed() bool { return string(m.Additional) == "false" }

// schemaMembers reads a schema that was found valid.
func schemaMembers(x *Schema) members {
	var m members
	_ = json.Unmarshal(x.raw, &m) // keywords of other shapes do not compile
	return m
}

func joinNames[V any](m map[string]V) string { return strings.Join(names(m), ", ") }
