package trigger

import (
	"encoding/json"
	"strings"
	"testing"
)

// What a later hop would change is refused by name; what looks like it is not.
func TestCheckJSON(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ raw, code, want string }{
		"an object":                  {`{"a":1}`, "", ""},
		"a scalar":                   {`"x"`, "", ""},
		"escaped backslash":          {`{"a":"x\\u0000y"}`, "", ""},
		"a pair of surrogates":       {`{"a":"\ud83d\ude00"}`, "", ""},
		"an emoji":                   {`{"a":"😀"}`, "", ""},
		"digits beyond a float":      {`[8202522731445525542, 12345678901234567890.123, 1e400, -0]`, "", ""},
		"NUL in a value":             {`{"a":"x\u0000y"}`, CodeInvalidText, "$.a: NUL"},
		"NUL in a key":               {`{"k\u0000":1}`, CodeInvalidText, "NUL"},
		"half a surrogate":           {`{"a":"\ud800"}`, CodeInvalidText, "surrogate"},
		"invalid UTF-8":              {"{\"a\":\"\xff\"}", CodeInvalidText, "UTF-8"},
		"a key that appears twice":   {`{"a":1,"a":2}`, CodeInvalidText, `"a" appears twice`},
		"exponent beyond all reason": {`1e5000`, CodeInvalidText, "exponent"},
		"too deep":                   {strings.Repeat("[", 300) + strings.Repeat("]", 300), CodeInvalidText, "nested"},
		"nothing":                    {"", CodeInvalidJSON, "empty"},
		"white space":                {" \n", CodeInvalidJSON, "empty"},
		"two values":                 {"{} {}", CodeInvalidJSON, "after top-level value"},
		"not JSON":                   {"<a/>", CodeInvalidJSON, "invalid character"},
		"cut short":                  {`{"a":`, CodeInvalidJSON, "unexpected end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := CheckJSON("body", json.RawMessage(tc.raw))
			if tc.code == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			r, ok := AsRefusal(err)
			if !ok || r.Code != tc.code || !strings.Contains(r.Message, tc.want) || !strings.HasPrefix(r.Message, "body: ") {
				t.Errorf("error %v, want %s naming %q", err, tc.code, tc.want)
			}
		})
	}
}
