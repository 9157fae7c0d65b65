package events_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
)

func TestChanges(t *testing.T) {
	for name, tc := range map[string]struct{ from, to, want string }{
		"nothing":                         {`{"a":1}`, `{"a":1}`, ``},
		"another number, digit by digit":  {`{"amount":500,"id":1234567890123456789}`, `{"amount":50,"id":1234567890123456788}`, `$.amount 500→50 $.id 1234567890123456789→1234567890123456788`},
		"a member more and one less":      {`{"a":1,"b":2}`, `{"b":2,"c":{"d":3}}`, `$.a 1→ $.c →{"d":3}`},
		"deep inside":                     {`{"lines":[{"n":1},{"n":2}]}`, `{"lines":[{"n":1},{"n":3}]}`, `$.lines[1].n 2→3`},
		"lists of other lengths":          {`{"l":[1,2]}`, `{"l":[1]}`, `$.l [1,2]→[1]`},
		"another type":                    {`{"a":{"b":1}}`, `{"a":[1]}`, `$.a {"b":1}→[1]`},
		"null is a value, absent is none": {`{"a":null}`, `{}`, `$.a null→`},
		"names that need quotes":          {`{"a.b":1,"":1}`, `{"a.b":2,"":2}`, `$[""] 1→2 $["a.b"] 1→2`},
	} {
		var got []string
		for _, c := range events.Changes(json.RawMessage(tc.from), json.RawMessage(tc.to)) {
			got = append(got, fmt.Sprintf("%s %s→%s", c.Path, c.From, c.To))
		}
		if s := strings.Join(got, " "); s != tc.want {
			t.Errorf("%s: %s, want %s", name, s, tc.want)
		}
	}
	var from, to []string
	for i := range 5000 {
		from, to = append(from, fmt.Sprintf(`"k%04d":1`, i)), append(to, fmt.Sprintf(`"k%04d":2`, i))
	}
	all := events.Changes(json.RawMessage("{"+strings.Join(from, ",")+"}"), json.RawMessage("{"+strings.Join(to, ",")+"}"))
	if len(all) != 100 || all[99].Path != "$" {
		t.Errorf("%d changes, the last at %s; want 100, the last of which is the whole", len(all), all[len(all)-1].Path)
	}
}
