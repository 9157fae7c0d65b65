package console

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestLines_ShowWhatDiffersAndALittleAround(t *testing.T) {
	t.Parallel()
	text := func(lines ...string) json.RawMessage {
		raw, err := json.Marshal(strings.Join(lines, "\n"))
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	many := make([]string, 0, 40)
	for i := range 40 {
		many = append(many, fmt.Sprint("line ", i))
	}
	changed := append([]string{}, many...)
	changed[20] = "other"
	for name, tc := range map[string]struct {
		before, after json.RawMessage
		want          string
	}{
		"a line in the middle":     {text(many...), text(changed...), "…18 lines alike| line 18| line 19|-line 20|+other| line 21| line 22|…17 lines alike"},
		"a list, member by member": {json.RawMessage(`["a","b"]`), json.RawMessage(`["a","c","b"]`), ` [|   "a",|+  "c",|   "b"| ]`},
		"a number to its digits":   {json.RawMessage(`12345678901234567890`), json.RawMessage(`12345678901234567891`), "-12345678901234567890|+12345678901234567891"},
		"what was not there":       {nil, text("a"), "+a"},
		"what is gone":             {text("a", "b"), nil, "-a|-b"},
		"two places":               {text("a", "b", "c", "d", "e"), text("x", "b", "c", "d", "y"), "-a|+x| b| c| d|-e|+y"},
	} {
		var got []string
		for _, l := range (Change{Before: tc.before, After: tc.after}).Lines() {
			got = append(got, string(l.Sign)+l.Text)
		}
		if s := strings.Join(got, "|"); s != tc.want {
			t.Errorf("%s: %q, want %q", name, s, tc.want)
		}
	}
	long := strings.Repeat("x\n", 5000)
	if n := len((Change{Before: text(long), After: text(strings.ReplaceAll(long, "x", "y"))}).Lines()); n != 10000 {
		t.Errorf("a text that is too long to compare has %d lines", n)
	}
	ends := make([]string, 3001)
	for i := range ends {
		ends[i] = fmt.Sprint("line ", i)
	}
	before := text(ends...)
	ends[0], ends[3000] = "first", "last"
	if n := len((Change{Before: before, After: text(ends...)}).Lines()); n != 6002 {
		t.Errorf("a text that is too long to look closer has %d lines, want all of it twice", n)
	}
	if got := (Change{After: text(strings.Repeat("ä", 300))}).Lines(); len(got) != 1 || got[0].Text != strings.Repeat("ä", 200)+" …" {
		t.Errorf("a long line is %v", got)
	}
}
