package trigger

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/spec"
)

func formOf(t *testing.T, schema string) InputField {
	t.Helper()
	s, err := spec.NewSchema(json.RawMessage(schema))
	if err != nil {
		t.Fatal(err)
	}
	return InputForm(s.JSON())
}

// lines is a form in short.
func lines(f InputField) (out []string) {
	line := f.Path + " " + f.Kind
	if f.Item != "" {
		line += " of " + f.Item
	}
	if f.Required {
		line += "!"
	}
	if len(f.Options) > 0 {
		line += " " + strings.Join(f.Options, "|")
	}
	if f.Default != "" {
		line += " = " + f.Default
	}
	out = append(out, line)
	for _, m := range f.Fields {
		out = append(out, lines(m)...)
	}
	return out
}

const shopSchema = `{"type":"object","required":["shop","price"],"properties":{
	"price":{"type":"number","default":12.50},
	"shop":{"type":"string","title":"The shop","description":"Its name"},
	"note":{"type":["string","null"]},
	"n":{"type":"integer"},
	"sure":{"type":"boolean","default":true},
	"mode":{"enum":["fast","slow",3]},
	"tags":{"type":"array","items":{"type":"string"},"default":["a","b"]},
	"sizes":{"type":"array","items":{"type":"number"}},
	"to":{"$ref":"#/$defs/address"},
	"any":true,
	"either":{"oneOf":[{"type":"string"},{"type":"number"}]},
	"rows":{"type":"array","items":{"type":"object"}}},
	"$defs":{"address":{"type":"object","required":["city"],"properties":{"city":{"type":"string"},"zip code":{"type":"string"}}}}}`

func TestInputForm_AsksForWhatTheSchemaNames(t *testing.T) {
	t.Parallel()
	want := `input object
input.shop text!
input.price number! = 12.5
input.any json
input.either json
input.mode choice "fast"|"slow"|3
input.n integer
input.note text
input.rows json
input.sizes list of number
input.sure choice true|false = true
input.tags list of text = a
b
input.to object
input.to.city text!
input.to["zip code"] text`
	if got := strings.Join(lines(formOf(t, shopSchema)), "\n"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	var wide strings.Builder
	for i := range maxFormFields {
		fmt.Fprintf(&wide, `"f%d":{"type":"string"},`, i)
	}
	for schema, want := range map[string]string{
		`true`:                          "", // an input that may be anything is refused by the reader of schemas
		`{}`:                            "input json",
		`{"type":"string"}`:             "input text",
		`{"type":"object"}`:             "input json",
		`{"allOf":[{"type":"object"}]}`: "input json",
		`{"$ref":"#"}`:                  "input json",
		`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/a"}}}`:                                                                           "input json",
		`{"type":"object","properties":{` + strings.TrimSuffix(wide.String(), ",") + `}}`:                                                   "input json",
		`{"type":"object","properties":{"a":{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"boolean"}}}}}}}`: "input object|input.a object|input.a.a object|input.a.a.b choice true|false",
	} {
		if want == "" {
			continue
		}
		if got := strings.Join(lines(formOf(t, schema)), "|"); got != want {
			t.Errorf("%s: %s, want %s", schema, got, want)
		}
	}
	if got := lines(InputForm(nil)); len(got) != 1 || got[0] != "input json" {
		t.Errorf("without a schema: %q", got)
	}
}

func TestInputForm_ValueKeepsEveryDigit(t *testing.T) {
	t.Parallel()
	given := func(values map[string]string) func(string) string {
		return func(path string) string { return values[path] }
	}
	form := formOf(t, shopSchema)
	for name, tc := range map[string]struct {
		values map[string]string
		want   string
	}{
		"what is needed": {map[string]string{"input.shop": "A", "input.price": "9007199254740993.10"}, `{"shop":"A","price":9007199254740993.10}`},
		"all of it": {map[string]string{"input.shop": "A\r\nB", "input.price": "-0.5e3", "input.n": "12345678901234567890", "input.sure": "false", "input.mode": `3`, "input.tags": "x\r\n\r\n y ", "input.sizes": "1.0\n2",
			"input.to.city": "Bonn", `input.to["zip code"]`: "053", "input.any": `{"a": 1.10}`, "input.either": `"s"`, "input.rows": `[{}]`},
			`{"shop":"A\nB","price":-0.5e3,"any":{"a": 1.10},"either":"s","mode":3,"n":12345678901234567890,"rows":[{}],"sizes":[1.0,2],"sure":false,"tags":["x","y"],"to":{"city":"Bonn","zip code":"053"}}`},
		"nothing":           {nil, "input.shop: is needed; input.price: is needed"},
		"no numbers":        {map[string]string{"input.shop": "A", "input.price": "1,5", "input.n": "1.5", "input.sizes": "1\n01"}, "input.price: is not a number like 12.5; input.n: is not a whole number; input.sizes: line 2 is not a number like 12.5"},
		"half an address":   {map[string]string{"input.shop": "A", "input.price": "1", `input.to["zip code"]`: "1"}, "input.to.city: is needed"},
		"no choice":         {map[string]string{"input.shop": "A", "input.price": "1", "input.mode": "fast", "input.sure": "yes"}, "input.mode: is none of what can be chosen; input.sure: is none of what can be chosen"},
		"no JSON":           {map[string]string{"input.shop": "A", "input.price": "1", "input.any": "{"}, "input.any: is not JSON"},
		"a script as text":  {map[string]string{"input.shop": `</script>"`, "input.price": "1"}, `{"shop":"</script>\"","price":1}`},
		"what is no number": {map[string]string{"input.shop": "A", "input.price": "NaN"}, "input.price: is not a number like 12.5"},
	} {
		value, places := form.Value(given(tc.values))
		got := string(value)
		if len(places) > 0 {
			var all []string
			for _, p := range places {
				all = append(all, p.Path+": "+p.Message)
			}
			got = strings.Join(all, "; ")
		}
		if !strings.HasPrefix(got, tc.want) || len(places) == 0 && got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
		if len(places) == 0 {
			if found := form.AsJSON().Path; found != "input" {
				t.Errorf("as JSON it is %q", found)
			}
		}
	}
	if v, places := form.AsJSON().Value(given(map[string]string{"input": `{"price":1.10}`})); string(v) != `{"price":1.10}` || places != nil {
		t.Errorf("as JSON: %s %v", v, places)
	}
}
