package spec

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func parsedAgent(t *testing.T, lines string) (*Agent, error) {
	t.Helper()
	docs, err := Parse("t.yaml", []byte("apiVersion: holdfast/v1\nkind: Agent\nmetadata: {name: a}\nspec:\n  model: m\n  instructions: i\n"+lines))
	if err != nil {
		return nil, err
	}
	return docs[0].Agent, nil
}

func TestOutput_Decode(t *testing.T) {
	for name, tc := range map[string]struct{ lines, wantErr string }{
		"a schema":             {"  output: {schema: {type: object}}\n", ""},
		"no repair":            {"  output: {schema: {type: object}, repairs: 0}\n", ""},
		"no schema":            {"  output: {repairs: 1}\n", "spec.output.schema: is required"},
		"too many repairs":     {"  output: {schema: {}, repairs: 11}\n", "11 is outside 0 to 10"},
		"less than none":       {"  output: {schema: {}, repairs: -1}\n", "-1 is outside 0 to 10"},
		"repairs in words":     {"  output: {schema: {}, repairs: two}\n", "expected a number, found text"},
		"no schema at all":     {"  output: {schema: {type: objekt}}\n", "not a valid JSON Schema"},
		"a schema from beyond": {"  output: {schema: {$ref: \"http://x.example/y\"}}\n", "outside this schema"},
		"a schema that loops":  {"  output: {schema: {$ref: \"#\"}}\n", ""},
		"a typo":               {"  output: {shema: {}}\n", `did you mean "schema"?`},
		"a schema for output":  {"  output: {type: object}\n", "unknown field"},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := parsedAgent(t, tc.lines)
			if err == nil {
				a.Output.Read(`{"a":[1,{}]}`) // it ends
			}
			if tc.wantErr == "" && err != nil || tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Errorf("%v, want %q", err, tc.wantErr)
			}
		})
	}
	a, err := parsedAgent(t, "  output: {schema: {type: object}}\n")
	if err != nil || a.Output.Limit() != DefaultRepairs {
		t.Errorf("%+v, %v", a, err)
	}
}

// Every wording that a run may have begun with is what it was: the file only grows.
func TestOutput_WordingsStay(t *testing.T) {
	a, err := parsedAgent(t, "  output: {schema: {type: object}}\n")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for w := 1; w <= OutputWording(); w++ {
		text, err := a.Output.Rule(w)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "== %d\n%s\n", w, text)
	}
	want, err := os.ReadFile("testdata/output_rules.golden")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("wordings of the rule (-want +got):\n%s", diff)
	}
	old, err := a.Output.Rule(0)
	if first, _ := a.Output.Rule(1); err != nil || old != first {
		t.Errorf("a run from before wordings reads %q, %v", old, err)
	}
	if _, err := a.Output.Rule(OutputWording() + 1); err == nil {
		t.Error("a wording that is not there yet is taken")
	}
}

func TestOutput_Read(t *testing.T) {
	a, err := parsedAgent(t, "  output: {schema: {type: object, properties: {n: {type: number}}, required: [n], additionalProperties: false}}\n")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ text, want, wantProblem string }{
		"as it is":               {`{"n":12345678901234567890.10}`, `{"n":12345678901234567890.10}`, ""},
		"space around":           {"\n {\"n\": 1e2} \n", `{"n": 1e2}`, ""},
		"a fence":                {"```json\n{\"n\":1}\n```", `{"n":1}`, ""},
		"a fence without a name": {"```\n{\"n\":1}\n```\n", `{"n":1}`, ""},
		"words before":           {"Here it is: {\"n\":1}", "", "not one JSON value"},
		"words behind":           {"{\"n\":1} I hope it helps", "", "not one JSON value"},
		"words before a fence":   {"Here:\n```json\n{\"n\":1}\n```", "", "not one JSON value"},
		"two fences":             {"```\n```\n{\"n\":1}\n```\n```", "", "not one JSON value"},
		"half a fence":           {"```json\n{\"n\":1}", "", "not one JSON value"},
		"two values":             {`{"n":1}{"n":2}`, "", "not one JSON value"},
		"a key twice":            {`{"n":1,"n":2}`, "", "not one JSON value"},
		"a zero character":       {`{"n":1,"m":"\u0000"}`, "", "not one JSON value"},
		"nothing":                {"", "", "not one JSON value"},
		"an empty fence":         {"```\n```", "", "not one JSON value"},
		"breaks the schema":      {`{"n":"1"}`, "", "$.n: got string, want number"},
		"another key":            {`{"n":1,"m":2}`, "", "additional properties"},
	} {
		t.Run(name, func(t *testing.T) {
			got, problems := a.Output.Read(tc.text)
			if string(got) != tc.want || !strings.Contains(strings.Join(problems, "; "), tc.wantProblem) || (tc.want == "") != (len(problems) > 0) {
				t.Errorf("%s, %q; want %s, %q", got, problems, tc.want, tc.wantProblem)
			}
		})
	}
}

// What the model wrote is hostile: what is said about it is bounded.
func TestOutput_ProblemsAreBounded(t *testing.T) {
	a, err := parsedAgent(t, "  output: {schema: {type: object, additionalProperties: {type: integer}}}\n")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for i := range 500 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + strings.Repeat("k", 1000+i) + `":"x"`)
	}
	_, problems := a.Output.Read("{" + b.String() + "}")
	if size := len(strings.Join(problems, "")); len(problems) != 20 || size > 20*3*maxViolationText {
		t.Errorf("%d problems of %d bytes", len(problems), size)
	}
}
