package spec

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func schema(t *testing.T, raw string) *Schema {
	t.Helper()
	x, err := NewSchema(json.RawMessage(raw))
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestSchema_Validate(t *testing.T) {
	t.Parallel()
	x := schema(t, `{"type":"object","required":["night","competitors"],"additionalProperties":false,"properties":{
		"night":{"type":"string","format":"date"},
		"amount":{"type":"number","maximum":9007199254740992,"multipleOf":0.01},
		"code":{"type":"string","pattern":"^[a-z]+$","maxLength":5},
		"bounds":{"prefixItems":[{"minimum":2.5},{"maximum":3},{"exclusiveMinimum":1},{"exclusiveMaximum":9},{"multipleOf":0.2}]},
		"competitors":{"type":"array","items":{"$ref":"#/$defs/c"}}},
		"$defs":{"c":{"type":"object","required":["shop"],"properties":{"shop":{"type":"string"}}}}}`)
	tests := map[string]struct {
		value string
		want  []Violation
	}{
		"valid":               {`{"night":"2026-11-29","competitors":[{"shop":"a"}],"amount":0.3}`, nil},
		"missing properties":  {`{}`, []Violation{{"$", "missing properties 'night', 'competitors'"}}},
		"deep inside":         {`{"night":"2026-11-29","competitors":[{"shop":"a"},{"shop":7}]}`, []Violation{{"$.competitors[1].shop", "got number, want string"}}},
		"an unknown property": {`{"night":"2026-11-29","competitors":[],"x y":1}`, []Violation{{"$", "additional properties 'x y' not allowed"}}},
		"a format":            {`{"night":"tonight","competitors":[]}`, []Violation{{"$.night", "is not a valid date"}}},
		"exact digits":        {`{"night":"2026-11-29","competitors":[],"amount":9007199254740993}`, []Violation{{"$.amount", "must be at most 9007199254740992"}}},
		"a private value":     {`{"night":"2026-11-29","competitors":[],"code":"SECRET"}`, []Violation{{"$.code", `does not match pattern "^[a-z]+$"`}, {"$.code", "maxLength: got 6, want 5"}}},
		"a number's bounds":   {`{"night":"2026-11-29","competitors":[],"bounds":[1,9,1,9,0.3]}`, []Violation{{"$.bounds[0]", "must be at least 2.5"}, {"$.bounds[1]", "must be at most 3"}, {"$.bounds[2]", "must be above 1"}, {"$.bounds[3]", "must be below 9"}, {"$.bounds[4]", "must be a multiple of 0.2"}}},
		"another type":        {`[]`, []Violation{{"$", "got array, want object"}}},
		"duplicate keys":      {`{"night":"2026-11-29","night":"x"}`, []Violation{{"$", `not canonicalizable JSON: $: key "night" appears twice`}}},
		"nothing":             {``, []Violation{{"$", "not canonicalizable JSON: $: EOF"}}},
		"an endless exponent": {`{"night":"2026-11-29","competitors":[],"amount":1e999999999}`, []Violation{{"$", "not canonicalizable JSON: $.amount: number 1e999999999 has an exponent beyond 4096"}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := x.Validate(json.RawMessage(tc.value))
			less := func(a, b Violation) int { return strings.Compare(a.String(), b.String()) }
			sortViolations(got, less)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

func sortViolations(v []Violation, compare func(a, b Violation) int) {
	for i := range v {
		for j := i; j > 0 && compare(v[j], v[j-1]) < 0; j-- {
			v[j], v[j-1] = v[j-1], v[j]
		}
	}
}

func TestSchema_ViolationsAreBounded(t *testing.T) {
	t.Parallel()
	x := schema(t, `{"type":"array","items":{"type":"string","enum":["`+strings.Repeat("long", 500)+`"]}}`)
	got := x.Validate(json.RawMessage("[" + strings.TrimSuffix(strings.Repeat("1,", 500), ",") + "]"))
	if len(got) != maxViolations {
		t.Fatalf("%d violations, want %d", len(got), maxViolations)
	}
	for _, v := range got {
		if len([]rune(v.Message)) > maxViolationText+1 {
			t.Errorf("message of %d characters", len([]rune(v.Message)))
		}
	}
	if last := got[len(got)-1]; !strings.HasSuffix(last.Message, "more") {
		t.Errorf("last violation is %v, want the number of the rest", last)
	}
}

func TestSchema_Nil(t *testing.T) {
	t.Parallel()
	var x *Schema
	if v := x.Validate(json.RawMessage(`{"a":1}`)); v != nil {
		t.Errorf("a nil schema refuses: %v", v)
	}
	if v := x.Validate(json.RawMessage(`{`)); v == nil {
		t.Error("a nil schema accepts what is not JSON")
	}
}

func TestNewSchema_Refuses(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		`{"$ref":"https://example.com/x"}`:       "only references inside it are followed",
		`{"$ref":"file:///etc/passwd"}`:          "only references inside it are followed",
		`{"$schema":"https://example.com/meta"}`: "only references inside it are followed",
		`{"$ref":"#/$defs/x"}`:                   "not found",
		`{"type":"strng"}`:                       "value must be one of",
		`{"pattern":"("}`:                        "not a valid regex",
		`{"allOf":[{"$ref":"#"}],"description":"` + strings.Repeat("x", maxSchemaBytes) + `"}`: "at most 65536",
		`[]`: "expected a map",
	}
	for raw, want := range tests {
		if _, err := NewSchema(json.RawMessage(raw)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: error %v, want one with %q", raw, err, want)
		}
	}
}

// TestSchema_Recursion: a schema that leads back to itself ends, for values
// that are as deep as they come.
func TestSchema_Recursion(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":`, 150) + "1" + strings.Repeat("}", 150)
	if v := schema(t, `{"type":["object","number"],"properties":{"a":{"$ref":"#"}}}`).Validate(json.RawMessage(deep)); v != nil {
		t.Errorf("a deep value is refused: %v", v)
	}
	if v := schema(t, `{"allOf":[{"$ref":"#"}]}`).Validate(json.RawMessage(`1`)); v == nil {
		t.Error("a schema without an end accepts")
	}
}

func TestSchema_ConcurrentUse(t *testing.T) {
	t.Parallel()
	x := schema(t, `{"type":"object","required":["a"]}`)
	c, err := NewCondition("args.n > 1", "args")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 8)
	for i := range 8 {
		go func() {
			for j := range 200 {
				if v := x.Validate(json.RawMessage(`{}`)); len(v) != 1 {
					done <- fmt.Errorf("%d violations", len(v))
					return
				}
				n := i*200 + j
				got, err := c.Eval(values("args", fmt.Sprintf(`{"n":%d}`, n)))
				if err != nil || got != (n > 1) {
					done <- fmt.Errorf("n=%d gave %v, %v", n, got, err)
					return
				}
			}
			done <- nil
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
