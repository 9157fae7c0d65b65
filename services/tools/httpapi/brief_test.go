package httpapi

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestBrief_OneLineEveryDigit(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"b":1e400,"a":"x y","c":{"d":[1, 2]},"e":null}`: `b 1e400, a x y, c {"d":[1,2]}, e null`,
		`{}`: ``, `12345678901234567890.10`: `12345678901234567890.10`, `"text"`: `text`, `[1, 2]`: `[1,2]`, ``: ``, `{"a":`: `{"a":`, `null`: `null`,
	} {
		if got := brief(json.RawMessage(in)); got != want {
			t.Errorf("brief(%s) = %q, want %q", in, got, want)
		}
	}
	long := brief(json.RawMessage(`{"a":"` + strings.Repeat("ä", 500) + `","b":"\ud800"}`))
	if n := len([]rune(long)); n > briefAll || !strings.Contains(long, "…, b \uFFFD") {
		t.Errorf("%d characters: %q", n, long)
	}
}
