package events

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// EditBytes is how long arguments may be that a person puts in the place of those
// that were asked about.
const EditBytes = 64 << 10

// Change is one place at which two JSON values differ. A side that does not have
// the place is nil.
type Change struct {
	Path string          `json:"path"` // "$.lines[3].amount"
	From json.RawMessage `json:"from,omitempty"`
	To   json.RawMessage `json:"to,omitempty"`
}

// maxChanges bounds what Changes lists; the last one then stands for the rest.
const maxChanges = 100

// Changes lists where to differs from from, in the order of their places. Both are
// canonical. Lists of different lengths are one change: their items have no names
// by which they could be told apart.
func Changes(from, to json.RawMessage) []Change {
	var out []Change
	changes(&out, "$", from, to)
	if len(out) > maxChanges {
		out = append(out[:maxChanges-1], Change{Path: "$", From: from, To: to})
	}
	return out
}

func changes(out *[]Change, path string, from, to json.RawMessage) {
	if bytes.Equal(from, to) || len(*out) > maxChanges {
		return
	}
	if a, b, ok := bothAre[map[string]json.RawMessage](from, to, '{'); ok {
		var names []string
		for name := range a {
			names = append(names, name)
		}
		for name := range b {
			if _, known := a[name]; !known {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			changes(out, path+placeOf(name), a[name], b[name])
		}
		return
	}
	if a, b, ok := bothAre[[]json.RawMessage](from, to, '['); ok && len(a) == len(b) {
		for i := range a {
			changes(out, path+"["+strconv.Itoa(i)+"]", a[i], b[i])
		}
		return
	}
	*out = append(*out, Change{Path: path, From: from, To: to})
}

func bothAre[T any](from, to json.RawMessage, begins byte) (a, b T, ok bool) {
	if len(from) == 0 || len(to) == 0 || from[0] != begins || to[0] != begins {
		return a, b, false
	}
	return a, b, json.Unmarshal(from, &a) == nil && json.Unmarshal(to, &b) == nil
}

// placeOf is how a place names a member: .name, or ["any text"].
func placeOf(name string) string {
	plain := name != "" && strings.IndexFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) < 0
	if plain {
		return "." + name
	}
	quoted, err := Marshal(name)
	if err != nil { // a string can always be written
		return `[?]`
	}
	return "[" + string(quoted) + "]"
}
