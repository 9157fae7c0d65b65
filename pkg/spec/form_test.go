package spec

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
)

func formTool(t *testing.T, lines string) *Tool {
	t.Helper()
	docs, err := Parse("tool.yaml", []byte(`
apiVersion: holdfast/v1
kind: Tool
metadata: {name: refund}
spec:
  description: x
  effect: write
  input:
    type: object
    additionalProperties: false
    required: [order, reason]
    properties: {order: {type: integer}, reason: {enum: [damaged, late]}, note: {type: string}, copies: {type: integer}}
  http: {method: POST, url: "https://x.example/", body: "${args}"}
`+lines))
	if err != nil {
		t.Fatal(err)
	}
	return docs[0].Tool
}

const form3 = "  approval: {form: [{name: reason, title: Why}, {name: note}, {name: copies, required: true}]}\n"

// The model neither sees nor gives what a person fills in, and the call is whole only
// with what had to be filled in.
func TestForm_IsThePersons(t *testing.T) {
	t.Parallel()
	tool := formTool(t, form3)
	if got, want := string(tool.AskedInput().JSON()), `{"additionalProperties":false,"properties":{"order":{"type":"integer"}},"required":["order"],"type":"object"}`; got != want {
		t.Errorf("the model sees %s", got)
	}
	for args, want := range map[string]string{
		`{"order":1}`:                    "",
		`{}`:                             "order",
		`{"order":1,"reason":"damaged"}`: "is filled in by the person",
		`{"order":1,"note":null}`:        "is filled in by the person",
	} {
		if got := violationsText(tool.CheckAsked(json.RawMessage(args))); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("a model gives %s: %q, want %q", args, got, want)
		}
	}
	for args, want := range map[string]string{
		`{"order":1,"reason":"damaged","copies":2}`: "",
		`{"order":1}`:                           "reason",
		`{"order":1,"reason":"damaged"}`:        "$.copies: must be filled in",
		`{"order":1,"reason":"why","copies":2}`: "reason",
	} {
		if got := violationsText(tool.CheckArgs(json.RawMessage(args))); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
	rule := Asking{}.RuleFor(tool)
	raw, err := events.Marshal(rule.Form)
	if want := `[{"name":"reason","title":"Why","required":true,"schema":{"enum":["damaged","late"]}},{"name":"note","schema":{"type":"string"}},{"name":"copies","required":true,"schema":{"type":"integer"}}]`; err != nil || string(raw) != want {
		t.Errorf("people are asked for %s (%v)", raw, err)
	}
	if !rule.RequesterDenied || rule.FormMissing(json.RawMessage(`{"reason":"late"}`)) != "copies" || rule.FormMissing(nil) != "reason" {
		t.Errorf("%+v", rule)
	}
	if plain := formTool(t, ""); plain.AskedInput() != plain.Input || len(plain.CheckAsked(json.RawMessage(`{"order":1,"reason":"late"}`))) != 0 {
		t.Error("a tool without a form is asked for something")
	}
}

// A call that carries what only a person may fill in is asked about, whatever the
// condition says.
func TestForm_WhatIsFilledInNeedsAYes(t *testing.T) {
	t.Parallel()
	tool := formTool(t, `  approval: {when: "args.order > 10", form: [{name: note}]}`+"\n")
	for args, want := range map[string]bool{`{"order":1,"reason":"late"}`: false, `{"order":11,"reason":"late"}`: true, `{"order":1,"reason":"late","note":"x"}`: true} {
		if g := tool.Gate(Asking{}, GateCase{Args: json.RawMessage(args)}); g.Ask != want {
			t.Errorf("%s is asked about: %t", args, g.Ask)
		}
	}
	// What a yes is bound to covers the form.
	other := formTool(t, `  approval: {when: "args.order > 10", form: [{name: note, required: false, title: Why}]}`+"\n")
	if (Asking{}).PolicyText(tool, false) == (Asking{}).PolicyText(other, false) {
		t.Error("another form has the same policy")
	}
}

func TestFillIn(t *testing.T) {
	t.Parallel()
	form := Asking{}.RuleFor(formTool(t, form3)).Form
	got, err := FillIn(json.RawMessage(`{"order":9007199254740993}`), json.RawMessage(`{"reason": "late", "copies": 1.0e0}`), form)
	if want := `{"copies":1,"order":9007199254740993,"reason":"late"}`; err != nil || string(got) != want {
		t.Errorf("%s (%v), want %s", got, err, want)
	}
	for _, bad := range []string{`{"order":2}`, `{"tool":"wipe"}`, `[]`, `null`, `{`, `{"note":"a","note":"b"}`} {
		if got, err := FillIn(json.RawMessage(`{"order":1}`), json.RawMessage(bad), form); err == nil {
			t.Errorf("%s is taken: %s", bad, got)
		}
	}
	if got, err := FillIn(json.RawMessage(`{"note":"model's"}`), json.RawMessage(`{"note":"mine"}`), form); err == nil {
		t.Errorf("what the model gave is filled in: %s", got)
	}
	for typed, want := range map[string]string{"7": "7", "late": `"late"`, `{"a":1}`: `{"a":1}`, "": `""`} {
		if got := string(FieldValue(events.FormField{}, typed)); got != want {
			t.Errorf("%q is %s, want %s", typed, got, want)
		}
	}
	for _, schema := range []string{`{"type":"string"}`, `{"enum":[8,"7"]}`} {
		if got := string(FieldValue(events.FormField{Schema: json.RawMessage(schema)}, "7")); got != `"7"` {
			t.Errorf("a text of digits is %s for %s", got, schema)
		}
	}
}

func violationsText(bad []Violation) string {
	var parts []string
	for _, v := range bad {
		parts = append(parts, v.String())
	}
	return strings.Join(parts, "; ")
}
