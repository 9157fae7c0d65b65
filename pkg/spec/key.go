package spec

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// maxKeyBytes bounds a business key.
const maxKeyBytes = 512

// BusinessKey derives the key of a call from its arguments; ok is false when
// the tool has none. Different arguments never give the same key by accident:
// where a value is followed by literal text, the first character of that text
// is written %XX inside the value, and so is % itself. Numbers are spelled as
// events.Canonical spells them. A part that is absent, empty, null, a list or
// an object is an error, and so is a key over 512 bytes.
func (t *Tool) BusinessKey(args json.RawMessage) (key string, ok bool, err error) {
	if t.Key == nil {
		return "", false, nil
	}
	canonical, err := events.Canonical(args)
	if err != nil {
		return "", true, fmt.Errorf("business key of tool %s: %w", t.Name, err)
	}
	var w limited
	escape := keyEscapes(t.Key)
	err = renderText(&w, t.Key.root.pieces, map[string]json.RawMessage{"args": canonical}, func(p Path, raw json.RawMessage) (string, error) {
		text, err := scalar(p, raw, false)
		return escapeKey(text, escape), err
	})
	switch {
	case err != nil:
		return "", true, fmt.Errorf("business key of tool %s: %w", t.Name, err)
	case w.Len() > maxKeyBytes:
		return "", true, fmt.Errorf("business key of tool %s has %d bytes; at most %d are allowed", t.Name, w.Len(), maxKeyBytes)
	}
	return w.String(), true, nil
}

// keyEscapes lists the characters that end a value in the key.
func keyEscapes(t *Template) string {
	escape := "%"
	for i, p := range t.root.pieces {
		if i > 0 && p.path == nil {
			first, _ := utf8.DecodeRuneInString(p.text)
			escape += string(first)
		}
	}
	if len(t.Paths()) == 1 {
		return "" // one value cannot be confused with another
	}
	return escape
}

func escapeKey(s, escape string) string {
	if !strings.ContainsAny(s, escape) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if !strings.ContainsRune(escape, r) {
			b.WriteRune(r)
			continue
		}
		for _, c := range []byte(string(r)) {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// keyTemplate checks a business key.
func (d *decoder) keyTemplate(s spot, t *Template) {
	d.textTemplate(s, t)
	d.roots(t, "args")
	if !t.isText() {
		return
	}
	if len(t.Paths()) == 0 {
		d.fail(s, "inserts no argument: every call would count as the same action")
	}
	for i, p := range t.root.pieces {
		if i > 0 && p.path != nil && t.root.pieces[i-1].path != nil {
			d.fail(s, "two values stand side by side and could be confused; put text between ${%s} and ${%s}", t.root.pieces[i-1].path, p.path)
		}
	}
}
