package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/holdfast-run/holdfast/pkg/events"
)

const (
	maxSchemaBytes   = 64 << 10
	maxViolations    = 20
	schemaURL        = "schema:///"
	maxViolationText = 200
)

// Schema is a JSON Schema, draft 2020-12 unless $schema says otherwise. Formats
// are checked. References outside the schema are refused when it is read.
// A nil Schema accepts every value. It is safe for concurrent use.
type Schema struct {
	raw      json.RawMessage // canonical
	compiled *jsonschema.Schema
}

// Violation is one place of a value that breaks a schema.
type Violation struct {
	Path    string `json:"path"` // "$.competitors[3].url"
	Message string `json:"message"`
}

func (v Violation) String() string { return v.Path + ": " + v.Message }

// NewSchema compiles a JSON Schema.
func NewSchema(raw json.RawMessage) (*Schema, error) {
	n, err := jsonNode(raw)
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	d := newDecoder("")
	x := &Schema{}
	x.readNode(d, spot{n: n})
	if err := join(d.problems); err != nil {
		return nil, err
	}
	return x, nil
}

// MarshalJSON writes the schema in canonical form.
func (x *Schema) MarshalJSON() ([]byte, error) {
	if x == nil {
		return []byte("true"), nil
	}
	return x.raw, nil
}

// JSON is the schema in canonical form; nil for a nil Schema.
func (x *Schema) JSON() json.RawMessage {
	if x == nil {
		return nil
	}
	return x.raw
}

type refuseLoader struct{}

func (refuseLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is outside this schema; only references inside it are followed", shorten(url))
}

func (x *Schema) readNode(d *decoder, s spot) {
	if !d.want(s, mapNode) {
		return
	}
	raw, err := events.Canonical(s.n.json())
	if err != nil {
		d.fail(s, "%s", err)
		return
	}
	if len(raw) > maxSchemaBytes {
		d.fail(s, "the schema has %d bytes; at most %d are allowed", len(raw), maxSchemaBytes)
		return
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		d.fail(s, "%s", err)
		return
	}
	compiled, err := compileSchema(doc)
	if err != nil {
		d.schemaProblem(s, err)
		return
	}
	x.raw, x.compiled = raw, compiled
}

func compileSchema(doc any) (compiled *jsonschema.Schema, err error) {
	defer func() {
		if r := recover(); r != nil {
			compiled, err = nil, errors.New("the schema cannot be compiled")
		}
	}()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(refuseLoader{})
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, err
	}
	return c.Compile(schemaURL)
}

// schemaProblem reports why a schema does not compile, at the keyword.
func (d *decoder) schemaProblem(s spot, err error) {
	var invalid *jsonschema.SchemaValidationError
	var ve *jsonschema.ValidationError
	if errors.As(err, &invalid) && errors.As(invalid.Err, &ve) {
		for i, leaf := range leaves(ve) {
			if i == 3 {
				break
			}
			at := s
			for _, token := range leaf.InstanceLocation {
				if n, err := strconv.Atoi(token); err == nil && at.n.kind == listNode {
					at = at.at(n)
				} else {
					at = at.at(token)
				}
			}
			d.fail(at, "not a valid JSON Schema: %s", violationText(leaf))
		}
		return
	}
	var load *jsonschema.LoadURLError
	if errors.As(err, &load) {
		d.fail(s, "not a valid JSON Schema: %s", load.Err)
		return
	}
	d.fail(s, "not a valid JSON Schema: %s", clip(err.Error()))
}

// Validate returns where value breaks the schema, at most 20 places; none when
// it is valid. A value that is not canonicalizable JSON is one violation.
func (x *Schema) Validate(value json.RawMessage) []Violation {
	if x == nil || x.compiled == nil {
		if err := events.Check(value); err != nil {
			return []Violation{{Path: "$", Message: clip(err.Error())}}
		}
		return nil
	}
	instance, err := events.Value(value)
	if err != nil {
		return []Violation{{Path: "$", Message: clip(err.Error())}}
	}
	err = x.compiled.Validate(instance)
	if err == nil {
		return nil
	}
	var ve *jsonschema.ValidationError
	if !errors.As(err, &ve) {
		return []Violation{{Path: "$", Message: clip(err.Error())}}
	}
	all := leaves(ve)
	out := make([]Violation, 0, min(len(all), maxViolations))
	for i, leaf := range all {
		if i == maxViolations-1 && len(all) > maxViolations {
			out = append(out, Violation{Path: "$", Message: fmt.Sprintf("and %d more", len(all)-i)})
			break
		}
		out = append(out, Violation{Path: instancePath(instance, leaf.InstanceLocation), Message: violationText(leaf)})
	}
	return out
}

// leaves lists the errors that have no cause of their own.
func leaves(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(e.Causes) == 0 {
		return []*jsonschema.ValidationError{e}
	}
	var out []*jsonschema.ValidationError
	for _, c := range e.Causes {
		out = append(out, leaves(c)...)
	}
	return out
}

var english = message.NewPrinter(language.English)

// violationText never repeats the value: it may be long or private.
func violationText(e *jsonschema.ValidationError) string {
	switch k := e.ErrorKind.(type) {
	case *kind.Pattern:
		return clip(fmt.Sprintf("does not match pattern %q", k.Want))
	case *kind.Maximum:
		return "must be at most " + exact(k.Want)
	case *kind.Minimum:
		return "must be at least " + exact(k.Want)
	case *kind.ExclusiveMaximum:
		return "must be below " + exact(k.Want)
	case *kind.ExclusiveMinimum:
		return "must be above " + exact(k.Want)
	case *kind.MultipleOf:
		return "must be a multiple of " + exact(k.Want)
	case *kind.Format:
		return clip(fmt.Sprintf("is not a valid %s", k.Want))
	}
	return clip(e.ErrorKind.LocalizedString(english))
}

// exact writes every digit of a decimal.
func exact(r *big.Rat) string {
	digits, _ := r.FloatPrec()
	return clip(r.FloatString(digits))
}

func clip(s string) string {
	if r := []rune(s); len(r) > maxViolationText {
		return string(r[:maxViolationText]) + "…"
	}
	return s
}

func instancePath(instance any, tokens []string) string {
	path := "$"
	for _, token := range tokens {
		if list, ok := instance.([]any); ok {
			if i, err := strconv.Atoi(token); err == nil && i < len(list) {
				path += "[" + token + "]"
				instance = list[i]
				continue
			}
		}
		path = joinPath(path, token)
		if m, ok := instance.(map[string]any); ok {
			instance = m[token]
		}
	}
	return path
}
