package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Definition is one version of a definition, as it is stored.
type Definition struct {
	events.Ref
	Body json.RawMessage
}

// Change is one difference between what a run executes and what it would.
type Change struct {
	Kind string // of the definition
	Name string
	Op   string // ChangeAdded, ChangeRemoved or ChangeChanged
	// Path is the member that differs; empty for the definition as a whole, whose
	// Before and After are digests.
	Path          string
	Before, After json.RawMessage // nil: it is not there; long texts are cut
}

// Values of Change.Op.
const (
	ChangeAdded   = "added"
	ChangeRemoved = "removed"
	ChangeChanged = "changed"
)

const (
	maxChanges    = 400
	maxChangeText = 16 << 10 // of one value
	maxChangeLine = 400
)

// Changes lists what differs between two sets of definitions, by kind and name, in
// the order of after; what is gone comes last. more says that there is more than
// fits.
func Changes(before, after []Definition) (out []Change, more bool) {
	find := func(list []Definition, r events.Ref) int {
		return slices.IndexFunc(list, func(d Definition) bool { return d.Kind == r.Kind && d.Name == r.Name })
	}
	for _, d := range after {
		i := find(before, d.Ref)
		switch {
		case i < 0:
			out = append(out, Change{Kind: d.Kind, Name: d.Name, Op: ChangeAdded, After: text(string(d.Digest))})
		case before[i].Digest != d.Digest:
			out = append(out, Change{Kind: d.Kind, Name: d.Name, Op: ChangeChanged, Before: text(string(before[i].Digest)), After: text(string(d.Digest))})
			out = append(out, members(d.Kind, d.Name, "", before[i].Body, d.Body)...)
		}
	}
	for _, d := range before {
		if find(after, d.Ref) < 0 {
			out = append(out, Change{Kind: d.Kind, Name: d.Name, Op: ChangeRemoved, Before: text(string(d.Digest))})
		}
	}
	if len(out) > maxChanges {
		return out[:maxChanges], true
	}
	return out, false
}

// members compares two values member by member; lists are compared as a whole.
func members(kind, name, path string, before, after json.RawMessage) (out []Change) {
	var a, b map[string]json.RawMessage
	if object(before, &a) && object(after, &b) {
		all := maps.Clone(a)
		maps.Copy(all, b)
		for _, k := range slices.Sorted(maps.Keys(all)) {
			at := k
			if path != "" {
				at = path + "." + k
			}
			out = append(out, members(kind, name, at, a[k], b[k])...)
		}
		return out
	}
	if same(before, after) {
		return nil
	}
	c := Change{Kind: kind, Name: name, Op: ChangeChanged, Path: path, Before: cutValue(before), After: cutValue(after)}
	switch {
	case before == nil:
		c.Op = ChangeAdded
	case after == nil:
		c.Op = ChangeRemoved
	}
	return []Change{c}
}

func object(raw json.RawMessage, into *map[string]json.RawMessage) bool {
	return bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) && json.Unmarshal(raw, into) == nil
}

func same(a, b json.RawMessage) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	x, errX := events.Canonical(a)
	y, errY := events.Canonical(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// cutValue bounds a value; one that is too long becomes the beginning of its text.
func cutValue(raw json.RawMessage) json.RawMessage {
	if len(raw) <= maxChangeText {
		return raw
	}
	return text(plain(raw)[:maxChangeText/2] + " …")
}

func text(s string) json.RawMessage {
	raw, err := events.Marshal(strings.ToValidUTF8(s, ""))
	if err != nil {
		return json.RawMessage("null")
	}
	return raw
}

// plain is a JSON string's text, and anything else as it is.
func plain(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// ChangeText is the changes for people, a line or a few for each.
func ChangeText(changes []Change, more bool) string {
	var b strings.Builder
	for _, c := range changes {
		switch {
		case c.Path == "" && c.Op == ChangeChanged:
			fmt.Fprintf(&b, "%s %s: %s -> %s\n", c.Kind, c.Name, events.Digest(plain(c.Before)).Short(), events.Digest(plain(c.After)).Short())
		case c.Path == "":
			fmt.Fprintf(&b, "%s %s: %s (%s)\n", c.Kind, c.Name, c.Op, events.Digest(plain(c.Before)+plain(c.After)).Short())
		default:
			fmt.Fprintf(&b, "  %s\n", c.Path)
			lineDiff(&b, lines(c.Before), lines(c.After))
		}
	}
	if more {
		b.WriteString("and more\n")
	}
	return b.String()
}

func lines(raw json.RawMessage) []string {
	if raw == nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(plain(raw), "\n"), "\n")
}

// lineDiff writes the lines that differ, behind the ones in common at both ends.
func lineDiff(b *strings.Builder, before, after []string) {
	for len(before) > 0 && len(after) > 0 && before[0] == after[0] {
		before, after = before[1:], after[1:]
	}
	for len(before) > 0 && len(after) > 0 && before[len(before)-1] == after[len(after)-1] {
		before, after = before[:len(before)-1], after[:len(after)-1]
	}
	writeLines(b, "-", before)
	writeLines(b, "+", after)
}

func writeLines(b *strings.Builder, sign string, list []string) {
	for _, line := range list {
		if len(line) > maxChangeLine {
			line = strings.ToValidUTF8(line[:maxChangeLine], "") + " …"
		}
		fmt.Fprintf(b, "    %s %s\n", sign, line)
	}
}
