package httpapi

import (
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/services/trigger"
)

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		header, want string
		refused      bool
	}{
		"none":                     {"", "", false},
		"bare":                     {"8e03978e-40d5", "8e03978e-40d5", false},
		"quoted":                   {`"8e03978e-40d5"`, "8e03978e-40d5", false},
		"quoted with escapes":      {`"a\"b\\c"`, `a"b\c`, false},
		"spaces around":            {"  k1 ", "k1", false},
		"at the limit":             {strings.Repeat("k", 255), strings.Repeat("k", 255), false},
		"too long":                 {strings.Repeat("k", 256), "", true},
		"quote without end":        {`"abc`, "", true},
		"text behind the quote":    {`"abc"; x=1`, "", true},
		"an empty string":          {`""`, "", true},
		"escape of something else": {`"a\nb"`, "", true},
		"not ASCII":                {"schlüssel", "", true},
		"a control character":      {"a\tb", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := idempotencyKey(tc.header)
			if r, ok := trigger.AsRefusal(err); ok != tc.refused || ok && r.Code != trigger.CodeInvalidKey {
				t.Fatalf("error %v, want refused = %v", err, tc.refused)
			}
			if got != tc.want {
				t.Errorf("key %q, want %q", got, tc.want)
			}
		})
	}
}
