package trigger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Kinds of an InputField: how a person gives its value.
const (
	FieldText    = "text"
	FieldNumber  = "number"
	FieldInteger = "integer"
	FieldChoice  = "choice" // one of Options
	FieldList    = "list"   // one item a line
	FieldObject  = "object" // its Fields
	FieldJSON    = "json"   // whatever a form cannot ask for in another way
)

const (
	maxFormFields = 60 // of a whole form
	maxFormDepth  = 4
)

// InputField is one member of an input as a form asks a person for it.
type InputField struct {
	Path     string // as a Place names it: "input.shop.url"
	Key      string // name of the member; empty for the input itself
	Title    string
	Hint     string
	Kind     string
	Item     string       // kind of a list's items
	Options  []string     // JSON texts of what can be chosen, of a choice or of a list's items
	Fields   []InputField // of an object
	Required bool
	Null     bool   // nothing typed may stand for null
	Long     bool   // a text of many lines
	Default  string // as it would be typed
	Example  string
}

// InputForm makes a form of an input's JSON Schema; no schema takes any JSON. It is
// pure. What a person gives is checked by the schema, not by the form: a rule that the
// form does not know is still kept.
func InputForm(schema json.RawMessage) InputField {
	b := &formMaker{root: schema}
	return b.field("input", "", schema, 0)
}

// AsJSON is the form of which one field takes all of the input.
func (f InputField) AsJSON() InputField {
	return InputField{Path: f.Path, Title: f.Title, Hint: f.Hint, Kind: FieldJSON, Required: true, Default: "{}"}
}

type formMaker struct {
	root   json.RawMessage
	fields int
}

// formSchema is what a form reads of a schema.
type formSchema struct {
	Ref         string            `json:"$ref"`
	Type        json.RawMessage   `json:"type"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Enum        []json.RawMessage `json:"enum"`
	Const       json.RawMessage   `json:"const"`
	Default     json.RawMessage   `json:"default"`
	Examples    []json.RawMessage `json:"examples"`
	MaxLength   json.Number       `json:"maxLength"`
	Format      string            `json:"format"`

	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
	Items      json.RawMessage            `json:"items"`

	AllOf             json.RawMessage `json:"allOf"`
	AnyOf             json.RawMessage `json:"anyOf"`
	OneOf             json.RawMessage `json:"oneOf"`
	DynamicRef        json.RawMessage `json:"$dynamicRef"`
	PrefixItems       json.RawMessage `json:"prefixItems"`
	PatternProperties json.RawMessage `json:"patternProperties"`
}

// branches reports whether the schema says by other schemas what its members are.
func (s formSchema) branches() bool {
	return s.AllOf != nil || s.AnyOf != nil || s.OneOf != nil || s.DynamicRef != nil || s.PrefixItems != nil || s.PatternProperties != nil || s.Ref != ""
}

// types are the types that the schema names, and whether null is among them.
func (s formSchema) types() (list []string, null bool) {
	var one string
	if json.Unmarshal(s.Type, &one) == nil {
		return []string{one}, false
	}
	_ = json.Unmarshal(s.Type, &list) // none
	n := len(list)
	list = slices.DeleteFunc(list, func(t string) bool { return t == "null" })
	return list, len(list) < n
}

// read reads a schema, at a reference inside the same document where it is one.
func (b *formMaker) read(raw json.RawMessage) (s formSchema, ok bool) {
	for range maxFormDepth {
		s = formSchema{}
		if json.Unmarshal(raw, &s) != nil {
			return s, false
		}
		if s.Ref == "" {
			return s, true
		}
		title, hint := s.Title, s.Description
		at := b.root
		for token := range strings.SplitSeq(strings.TrimPrefix(s.Ref, "#/"), "/") {
			var members map[string]json.RawMessage
			if !strings.HasPrefix(s.Ref, "#/") || json.Unmarshal(at, &members) != nil {
				return s, false
			}
			if at = members[strings.NewReplacer("~1", "/", "~0", "~").Replace(token)]; at == nil {
				return s, false
			}
		}
		raw = at
		defer func() {
			if title != "" {
				s.Title = title
			}
			if hint != "" {
				s.Description = hint
			}
		}()
	}
	return s, false // it refers to itself
}

func (b *formMaker) field(path, key string, raw json.RawMessage, depth int) InputField {
	f := InputField{Path: path, Key: key, Title: key, Kind: FieldJSON}
	b.fields++
	s, ok := b.read(raw)
	if !ok || b.fields > maxFormFields {
		return f
	}
	if s.Title != "" {
		f.Title = s.Title
	}
	f.Hint, f.Default = s.Description, typed(s.Default)
	if len(s.Examples) > 0 {
		f.Example = typed(s.Examples[0])
	}
	types, null := s.types()
	f.Null = null
	switch {
	case s.branches():
	case s.Const != nil:
		f.choose([]json.RawMessage{s.Const}, s.Default)
	case len(s.Enum) > 0:
		f.choose(s.Enum, s.Default)
	case len(types) != 1:
		if len(types) == 0 && len(s.Properties) > 0 && depth < maxFormDepth {
			b.object(&f, s, depth)
		}
	case types[0] == "string":
		f.Kind = FieldText
		n, err := s.MaxLength.Int64()
		f.Long = s.Format == "" && err == nil && n > 200
	case types[0] == "number", types[0] == "integer":
		f.Kind = types[0]
	case types[0] == "boolean":
		f.choose([]json.RawMessage{json.RawMessage("true"), json.RawMessage("false")}, s.Default)
	case types[0] == "array":
		b.list(&f, s)
	case types[0] == "object" && len(s.Properties) > 0 && depth < maxFormDepth:
		b.object(&f, s, depth)
	}
	if f.Kind == FieldJSON && s.Default != nil {
		f.Default = string(s.Default)
	}
	return f
}

// choose makes the field a choice.
func (f *InputField) choose(options []json.RawMessage, preset json.RawMessage) {
	f.Kind, f.Default = FieldChoice, string(preset)
	for _, o := range options {
		f.Options = append(f.Options, string(o))
	}
}

// list makes the field a list when each item is simple.
func (b *formMaker) list(f *InputField, s formSchema) {
	item := b.field("", "", s.Items, maxFormDepth)
	if s.Items == nil || item.Null || item.Kind != FieldText && item.Kind != FieldNumber && item.Kind != FieldInteger && item.Kind != FieldChoice {
		return
	}
	f.Kind, f.Item, f.Options = FieldList, item.Kind, item.Options
	var preset []json.RawMessage
	f.Default = ""
	if json.Unmarshal(s.Default, &preset) == nil {
		lines := make([]string, 0, len(preset))
		for _, p := range preset {
			lines = append(lines, typed(p))
		}
		f.Default = strings.Join(lines, "\n")
	}
}

// object makes the field an object: what is required first, in the schema's order.
func (b *formMaker) object(f *InputField, s formSchema, depth int) {
	var order []string
	for _, k := range append(slices.Clone(s.Required), slices.Sorted(maps.Keys(s.Properties))...) {
		if _, ok := s.Properties[k]; ok && !slices.Contains(order, k) {
			order = append(order, k)
		}
	}
	if len(order)+b.fields > maxFormFields {
		return
	}
	f.Kind = FieldObject
	for _, k := range order {
		member := b.field(joinPath(f.Path, k), k, s.Properties[k], depth+1)
		member.Required = slices.Contains(s.Required, k)
		f.Fields = append(f.Fields, member)
	}
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// joinPath writes the path of a member as pkg/spec does.
func joinPath(path, key string) string {
	if plainKey.MatchString(key) {
		return path + "." + key
	}
	return path + "[" + strconv.Quote(key) + "]"
}

// typed is how a person would type a value: a text without its quotes.
func typed(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

var (
	numberText  = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)
	integerText = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
)

// Value is what a person typed, as JSON; nil when the member is left out. Numbers keep
// their digits. given returns what was typed for a path.
func (f InputField) Value(given func(path string) string) (json.RawMessage, []Place) {
	if f.Kind == FieldObject {
		return f.members(given)
	}
	text := strings.ToValidUTF8(strings.ReplaceAll(given(f.Path), "\r\n", "\n"), "�")
	wrong := func(message string) (json.RawMessage, []Place) { return nil, []Place{{f.Path, message}} }
	if strings.TrimSpace(text) == "" {
		switch {
		case f.Required && f.Null:
			return json.RawMessage("null"), nil
		case f.Required && f.Kind == FieldList:
			return json.RawMessage("[]"), nil
		case f.Required:
			return wrong("is needed")
		}
		return nil, nil
	}
	if f.Kind != FieldList {
		value, problem := valueOf(f.Kind, f.Options, text)
		if problem != "" {
			return wrong(problem)
		}
		return value, nil
	}
	var items [][]byte
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if f.Item == FieldChoice { // people write red, not "red"
			for _, o := range f.Options {
				if typed(json.RawMessage(o)) == line {
					line = o
					break
				}
			}
		}
		value, problem := valueOf(f.Item, f.Options, line)
		if problem != "" {
			return wrong(fmt.Sprintf("line %d %s", len(items)+1, problem))
		}
		items = append(items, value)
	}
	return slices.Concat([]byte("["), bytes.Join(items, []byte(",")), []byte("]")), nil
}

// valueOf reads one simple value, or says what is wrong with it.
func valueOf(kind string, options []string, text string) (json.RawMessage, string) {
	plain := strings.TrimSpace(text)
	switch kind {
	case FieldNumber:
		if !numberText.MatchString(plain) {
			return nil, "is not a number like 12.5"
		}
		return json.RawMessage(plain), ""
	case FieldInteger:
		if !integerText.MatchString(plain) {
			return nil, "is not a whole number"
		}
		return json.RawMessage(plain), ""
	case FieldChoice:
		if !slices.Contains(options, plain) {
			return nil, "is none of what can be chosen"
		}
		return json.RawMessage(plain), ""
	case FieldJSON:
		if err := events.Check(json.RawMessage(plain)); err != nil {
			return nil, "is not JSON: " + err.Error()
		}
		return json.RawMessage(plain), ""
	}
	raw, err := events.Marshal(text)
	if err != nil {
		return nil, "is not a text"
	}
	return raw, ""
}

// members makes an object of what was given; without any the object is left out.
func (f InputField) members(given func(string) string) (json.RawMessage, []Place) {
	var places []Place
	var parts [][]byte
	for _, m := range f.Fields {
		value, wrong := m.Value(given)
		places = append(places, wrong...)
		if value == nil {
			continue
		}
		key, err := events.Marshal(m.Key)
		if err != nil {
			return nil, append(places, Place{m.Path, "has a name that cannot be written"})
		}
		parts = append(parts, slices.Concat(key, []byte(":"), value))
	}
	if len(parts) == 0 && f.Key != "" && !f.Required {
		// Nothing in it was given, so nothing in it is needed.
		return nil, slices.DeleteFunc(places, func(p Place) bool { return p.Message == "is needed" })
	}
	return slices.Concat([]byte("{"), bytes.Join(parts, []byte(",")), []byte("}")), places
}
