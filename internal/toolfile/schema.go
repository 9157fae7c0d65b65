package toolfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// schemas turns schemas of a description into JSON Schema that stands alone.
// They are read from the description's own text, so numbers keep their digits.
type schemas struct {
	description *description
	old         bool // 3.0: nullable, exclusiveMinimum: true
	values      int  // converted for one operation
}

// maxSchemaValues is more than a Tool document takes.
const maxSchemaValues = 100_000

// maxSchemaDepth stops at what no person wrote.
const maxSchemaDepth = 100

// schema is a JSON Schema.
type schema struct{ raw json.RawMessage }

// isList reports whether it describes a list or an object.
func (s schema) isList() bool {
	var t struct{ Type any }
	_ = json.Unmarshal(s.raw, &t) // a boolean schema describes anything
	return t.Type == "array" || t.Type == "object"
}

// described adds a description to a schema that has none.
func (s schema) described(text string) json.RawMessage {
	pairs, isObject, err := members(s.raw)
	if text = strings.TrimSpace(text); text == "" || err != nil || !isObject || slices.ContainsFunc(pairs, func(f field) bool { return f.key == "description" }) {
		return s.raw
	}
	raw, err := events.Marshal(clip(text, 2000))
	if err != nil {
		return s.raw
	}
	return object(append(pairs, field{"description", raw}))
}

// of converts a part's schema. What stands beside a reference is left out.
func (s *schemas) of(n *yaml.Node, defs map[string]bool) (schema, error) {
	if ref := valueOf(n, "$ref"); ref != nil {
		key, err := s.refer(textOf(ref), defs)
		if err != nil {
			return schema{}, err
		}
		return schema{json.RawMessage(`{"$ref":` + quotedJSON("#/$defs/"+key) + `}`)}, nil
	}
	raw, err := s.convert(n, defs, true, 0)
	return schema{raw}, err
}

func (in *input) addBody(n *yaml.Node, description string) (string, error) {
	body := schema{json.RawMessage(`{}`)}
	if n != nil {
		var err error
		if body, err = in.schemas.of(n, in.defs); err != nil {
			return "", fmt.Errorf("body: %w", err)
		}
	}
	name := in.free("body", "request")
	in.properties = append(in.properties, field{name, body.described(description)})
	in.required = append(in.required, name)
	return name, nil
}

var unsafeInPointer = regexp.MustCompile(`[^A-Za-z0-9._-]`)

// refer notes a definition and returns its key below $defs.
func (s *schemas) refer(ref string, defs map[string]bool) (string, error) {
	pointer, err := pointerOf(ref)
	if err != nil {
		return "", err
	}
	defs[pointer] = true
	return key(pointer), nil
}

// key names a definition: the last part of #/components/schemas/Pet, else all of
// the pointer.
func key(pointer string) string {
	pointer = strings.TrimPrefix(pointer, "components/schemas/")
	return unsafeInPointer.ReplaceAllString(pointer, "_")
}

// definitions converts what defs name, and what that refers to in turn.
func (s *schemas) definitions(defs map[string]bool) ([]field, error) {
	var out []field
	done := map[string]string{}
	for {
		var next []string
		for pointer := range defs {
			if _, ok := done[pointer]; !ok {
				next = append(next, pointer)
			}
		}
		if len(next) == 0 {
			slices.SortFunc(out, func(a, b field) int { return strings.Compare(a.key, b.key) })
			return out, nil
		}
		slices.Sort(next)
		for _, pointer := range next {
			k := key(pointer)
			if slices.Contains(slices.Collect(maps.Values(done)), k) {
				return nil, fmt.Errorf("two definitions would be called %s", k)
			}
			done[pointer] = k
			node, err := s.description.find(pointer)
			if err != nil {
				return nil, err
			}
			raw, err := s.convert(node, defs, true, 0)
			if err != nil {
				return nil, err
			}
			out = append(out, field{k, raw})
		}
		if len(done) > 2000 {
			return nil, errors.New("it refers to more than 2000 definitions")
		}
	}
}

// notSchema are members of OpenAPI's schemas that JSON Schema does not have, or
// that are of no use to a model.
var notSchema = []string{"nullable", "discriminator", "xml", "externalDocs", "example"}

// convert writes a node as JSON. In a schema, OpenAPI's own members go and
// references are moved below $defs.
func (s *schemas) convert(n *yaml.Node, defs map[string]bool, inSchema bool, depth int) (json.RawMessage, error) {
	if n = deref(n); n == nil || depth > maxSchemaDepth {
		return nil, errors.New("its schema is nested too deep")
	}
	if s.values++; s.values > maxSchemaValues {
		return nil, fmt.Errorf("its schemas have more than %d values, aliases counted as often as they are used", maxSchemaValues)
	}
	switch n.Kind {
	case yaml.MappingNode:
		return s.convertMap(n, defs, inSchema, depth)
	case yaml.SequenceNode:
		var b bytes.Buffer
		b.WriteByte('[')
		for i, c := range n.Content {
			raw, err := s.convert(c, defs, inSchema, depth+1)
			if err != nil {
				return nil, err
			}
			if i > 0 {
				b.WriteByte(',')
			}
			b.Write(raw)
		}
		b.WriteByte(']')
		return b.Bytes(), nil
	}
	return scalar(n), nil
}

// data are members of a schema whose values are no schemas.
var data = map[string]bool{"enum": true, "const": true, "default": true, "examples": true, "required": true, "dependentRequired": true}

// named are members whose values map names of the author's to schemas.
var named = map[string]bool{"properties": true, "patternProperties": true, "$defs": true, "definitions": true, "dependentSchemas": true}

func (s *schemas) convertMap(n *yaml.Node, defs map[string]bool, inSchema bool, depth int) (json.RawMessage, error) {
	var out []field
	for _, p := range pairsOf(n) {
		k, v := p.key, p.value
		if !inSchema {
			raw, err := s.convert(v, defs, false, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, field{k, raw})
			continue
		}
		switch {
		case slices.Contains(notSchema, k) || strings.HasPrefix(k, "x-"):
			continue
		case k == "$ref":
			key, err := s.refer(textOf(v), defs)
			if err != nil {
				return nil, err
			}
			out = append(out, field{k, json.RawMessage(quotedJSON("#/$defs/" + key))})
			if s.old {
				return object(out[len(out)-1:]), nil // beside it, 3.0 ignores everything
			}
			continue
		case named[k] && v.Kind == yaml.MappingNode:
			var inner []field
			for _, p := range pairsOf(v) {
				raw, err := s.convert(p.value, defs, true, depth+1)
				if err != nil {
					return nil, err
				}
				inner = append(inner, field{p.key, raw})
			}
			out = append(out, field{k, object(inner)})
			continue
		}
		raw, err := s.convert(v, defs, !data[k], depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, field{k, raw})
	}
	if inSchema && s.old {
		out = modern(out, isTrue(valueOf(n, "nullable")))
	}
	return object(out), nil
}

// modern rewrites what 3.0 says in other words than JSON Schema.
func modern(fields []field, nullable bool) []field {
	at := func(key string) int { return slices.IndexFunc(fields, func(f field) bool { return f.key == key }) }
	for bound, exclusive := range map[string]string{"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"} {
		i := at(exclusive)
		if i < 0 {
			continue
		}
		switch v := string(fields[i].value); {
		case v == "true" && at(bound) >= 0:
			fields[i].value = fields[at(bound)].value
			fields = slices.Delete(fields, at(bound), at(bound)+1)
		case v == "true" || v == "false":
			fields = slices.Delete(fields, i, i+1)
		}
	}
	if !nullable {
		return fields
	}
	if i := at("type"); i >= 0 && len(fields[i].value) > 0 && fields[i].value[0] == '"' {
		fields[i].value = json.RawMessage("[" + string(fields[i].value) + `,"null"]`)
		if j := at("enum"); j >= 0 && !bytes.Contains(fields[j].value, []byte("null")) {
			fields[j].value = json.RawMessage(strings.TrimSuffix(string(fields[j].value), "]") + ",null]")
		}
		return fields
	}
	return []field{{"anyOf", json.RawMessage("[" + string(object(fields)) + `,{"type":"null"}]`)}}
}

// scalar writes a plain value; what JSON has no number for becomes text.
func scalar(n *yaml.Node) json.RawMessage {
	switch n.Tag {
	case "!!null":
		return json.RawMessage("null")
	case "!!bool":
		return json.RawMessage(strings.ToLower(n.Value))
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			return json.RawMessage(n.Value)
		}
	}
	return json.RawMessage(quotedJSON(n.Value))
}

func quotedJSON(s string) string {
	b, err := events.Marshal(strings.ToValidUTF8(s, "\ufffd"))
	if err != nil {
		return `""`
	}
	return string(b)
}

// object writes members in their order.
func object(fields []field) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range fields {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(quotedJSON(f.key) + ":")
		b.Write(f.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}
