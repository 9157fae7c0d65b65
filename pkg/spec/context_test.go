package spec

import (
	"strings"
	"testing"
)

func TestContext_Decode(t *testing.T) {
	for name, tc := range map[string]struct {
		lines, wantErr string
		wantKept       int
		wantAt         int64
	}{
		"a threshold":           {"  context: {compactAt: 150000}\n", "", DefaultKeep, 150_000},
		"only a full window":    {"  context: {}\n", "", DefaultKeep, 0},
		"nothing stays":         {"  context: {compactAt: 1000, keep: 0}\n", "", 0, 1000},
		"too small a threshold": {"  context: {compactAt: 999}\n", "999 is outside 1000 to", 0, 0},
		"less than nothing":     {"  context: {keep: -1}\n", "-1 is outside 0 to 1000", 0, 0},
		"a threshold in words":  {"  context: {compactAt: much}\n", "expected a number, found text", 0, 0},
		"a typo":                {"  context: {compactat: 2000}\n", `did you mean "compactAt"?`, 0, 0},
		"a number":              {"  context: 150000\n", "spec.context: expected a map", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := parsedAgent(t, tc.lines)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("%v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil || a.Context.Kept() != tc.wantKept || a.Context.CompactAt != tc.wantAt {
				t.Errorf("%+v, %v", a, err)
			}
		})
	}
	if a, err := parsedAgent(t, ""); err != nil || a.Context != nil {
		t.Errorf("without the field: %+v, %v", a, err)
	}
}
