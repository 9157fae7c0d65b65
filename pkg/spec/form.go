package spec

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Form lists arguments of a tool that the person fills in who approves a call: the
// model neither sees nor gives them.
type Form []FormField

// FormField is one of them.
type FormField struct {
	Name  string `json:"name"`            // of a property of the tool's input
	Title string `json:"title,omitempty"` // what people read; default the name
	// Required: no yes without it. A property that the input requires is.
	Required bool `json:"required,omitempty"`
}

// Bounds of a Form.
const (
	maxFormFields = 20
	maxFormTitle  = 200
)

// fieldPattern is of names that people can type into a command as they are.
var fieldPattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,62}$`)

// formBlind are keywords of a schema beside properties that say something about
// arguments by name, so that nobody could take one out.
var formBlind = []string{"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "dependentRequired", "dependentSchemas", "minProperties", "propertyNames", "unevaluatedProperties"}

// inputMembers are the members of a tool's input, and the schemas of its properties.
func (t *Tool) inputMembers() (all, properties map[string]json.RawMessage, required []string) {
	if json.Unmarshal(t.Input.JSON(), &all) != nil {
		return nil, nil, nil
	}
	_ = json.Unmarshal(all["properties"], &properties) // its schema was compiled
	_ = json.Unmarshal(all["required"], &required)
	return all, properties, required
}

// form is the tool's; nil for none.
func (t *Tool) form() Form {
	if t.Approval.Rule == nil {
		return nil
	}
	return t.Approval.Rule.Form
}

// fillForm says of each field whether the input requires it, and makes the schema of
// what the model gives.
func (t *Tool) fillForm() {
	f := t.form()
	all, properties, required := t.inputMembers()
	if f == nil || all == nil {
		return
	}
	for i := range f {
		f[i].Required = f[i].Required || contains(required, f[i].Name)
		delete(properties, f[i].Name)
	}
	required = slices.DeleteFunc(required, f.has)
	for name, v := range map[string]any{"properties": properties, "required": required} {
		raw, err := events.Marshal(v)
		if err != nil {
			return
		}
		if all[name] = raw; name == "required" && len(required) == 0 {
			delete(all, name)
		}
	}
	if raw, err := events.Marshal(all); err == nil {
		t.asked, _ = NewSchema(raw) // check says what is wrong with it
	}
}

func (f Form) has(name string) bool {
	return slices.ContainsFunc(f, func(x FormField) bool { return x.Name == name })
}

func (t *Tool) checkForm(d *decoder, s spot) {
	f := t.form()
	if f == nil {
		return
	}
	at := s.at("approval", "form")
	d.require(at, len(f) > 0, "at least one field, like {name: reason, title: \"Why?\", required: true}")
	if len(f) > maxFormFields {
		d.fail(at, "has %d items; at most %d are allowed", len(f), maxFormFields)
		return
	}
	all, properties, _ := t.inputMembers()
	for i, x := range f {
		at := at.at(i)
		_, known := properties[x.Name]
		switch {
		case x.Name == "":
			d.require(at.at("name"), false, "an argument of the tool, one of the properties of its input")
		case t.Input != nil && !known:
			d.fail(at.at("name"), "%q is not among the properties of input; the tool gets what people fill in as an argument", shorten(x.Name))
		case !fieldPattern.MatchString(x.Name):
			d.fail(at.at("name"), "%q is not a name that people can type: 1 to 63 of A-Z a-z 0-9 _ -, starting with a letter", shorten(x.Name))
		case f[:i].has(x.Name):
			d.fail(at.at("name"), "%q stands here twice", shorten(x.Name))
		}
		d.text(at.at("title"), x.Title, maxFormTitle)
		if x.Required && t.Approval.When != nil {
			d.fail(at, "%s is required, and where the condition does not hold nobody fills it in; leave when out, or the field optional", x.Name)
		}
	}
	if t.Key != nil {
		for _, p := range t.Key.Paths() {
			if p.Root == "args" && f.has(p.Member()) {
				d.fail(s.at("key"), "reads args.%s, which a person fills in later", p.Member())
			}
		}
	}
	for _, word := range formBlind {
		if _, ok := all[word]; ok {
			d.fail(at, "needs an input without %s: a form takes properties out of what the model is shown", word)
		}
	}
	if t.asked == nil && len(d.problems) == 0 {
		d.fail(at, "leaves an input that is no schema")
	}
	if t.Builtin != "" || t.Signal != nil {
		d.fail(at, "is for tools that call something outside")
	}
}

// AskedInput is the schema of the arguments that a model, or a flow's step, gives: all
// but those that a person fills in.
func (t *Tool) AskedInput() *Schema {
	if t.asked != nil {
		return t.asked
	}
	return t.Input
}

// CheckAsked lists what makes canonical args none that a model or a flow may give.
func (t *Tool) CheckAsked(args json.RawMessage) []Violation {
	bad := t.AskedInput().Validate(args)
	for _, name := range t.filled(args) {
		bad = append(bad, Violation{Path: "$." + name, Message: "is filled in by the person who approves the call; leave it out"})
	}
	return bad
}

// filled names the arguments in args that only a person may fill in.
func (t *Tool) filled(args json.RawMessage) []string {
	f := t.form()
	if f == nil {
		return nil
	}
	var given map[string]json.RawMessage
	_ = json.Unmarshal(args, &given) // what is no object has none
	return slices.DeleteFunc(sortedNames(given), func(name string) bool { return !f.has(name) })
}

// FormMissing names the first argument that a person had to fill in and that is not in
// args; empty for none.
func (t *Tool) FormMissing(args json.RawMessage) string {
	return (&events.DecisionRule{Form: t.form().events(nil)}).FormMissing(args)
}

// events are the fields with the schemas of their arguments.
func (f Form) events(properties map[string]json.RawMessage) []events.FormField {
	var out []events.FormField
	for _, x := range f {
		out = append(out, events.FormField{Name: x.Name, Title: x.Title, Required: x.Required, Schema: properties[x.Name]})
	}
	return out
}

// FillIn is canonical args with what a person filled in. Fields that the form does not
// have, and those that args have already, are refused.
func FillIn(args, fields json.RawMessage, form []events.FormField) (json.RawMessage, error) {
	var all, given map[string]json.RawMessage
	if json.Unmarshal(args, &all) != nil || all == nil {
		return nil, fmt.Errorf("the arguments are no object that could be filled in")
	}
	if _, err := events.Canonical(fields); err != nil || json.Unmarshal(fields, &given) != nil || given == nil {
		return nil, fmt.Errorf("fields is no JSON object, like {\"reason\": \"refund\"}")
	}
	for _, name := range sortedNames(given) {
		if !slices.ContainsFunc(form, func(f events.FormField) bool { return f.Name == name }) {
			return nil, fmt.Errorf("there is no field %.100q to fill in; %s", name, fieldsOfForm(form))
		}
		if _, twice := all[name]; twice {
			return nil, fmt.Errorf("%.100s stands in the arguments and in fields", name)
		}
		all[name] = given[name]
	}
	raw, err := events.Marshal(all)
	if err != nil {
		return nil, err
	}
	return events.Canonical(raw)
}

func fieldsOfForm(form []events.FormField) string {
	var names []string
	for _, f := range form {
		names = append(names, f.Name)
	}
	if len(names) == 0 {
		return "this request has none"
	}
	return "the fields are " + strings.Join(names, ", ")
}

// FieldValue is what a person typed into a field as JSON: as text where the schema wants
// text or lists it, else the JSON that it is, else text.
func FieldValue(f events.FormField, typed string) json.RawMessage {
	var s struct {
		Type json.RawMessage
		Enum []any
	}
	_ = json.Unmarshal(f.Schema, &s) // true and false want nothing
	text := string(s.Type) == `"string"` || slices.Contains(s.Enum, any(typed))
	if !text && json.Valid([]byte(typed)) {
		return json.RawMessage(typed)
	}
	return quote(typed)
}
