package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// MaxRenderedBytes bounds what a template may produce.
const MaxRenderedBytes = 32 << 20

// ErrTooLarge is wrapped by the error of a template that would produce more
// than MaxRenderedBytes.
var ErrTooLarge = errors.New("rendered template is too large")

// Template is text or a JSON value in which ${path} is replaced. A string that
// is exactly one ${path} becomes the value as it is, every digit kept; inside
// longer text a string is inserted as it is and any other value as JSON. $${
// writes ${. Keys of objects are never replaced. A path without a value is an
// error that names it. The zero value renders null.
//
// A Template is immutable and safe for concurrent use.
type Template struct {
	root *form
	src  json.RawMessage // canonical JSON of the source
}

// form is one value of a template.
type form struct {
	literal json.RawMessage // neither text, list nor object
	pieces  []piece         // text
	isText  bool
	list    []*form
	keys    []string // object
	members []*form
	at      spot
}

// piece is literal text, or a path when that is set.
type piece struct {
	text  string
	path  *Path
	value json.RawMessage // of the path, when With has found it
}

// ParseTemplate reads a template from JSON.
func ParseTemplate(source json.RawMessage) (*Template, error) {
	n, err := jsonNode(source)
	if err != nil {
		return nil, fmt.Errorf("read template: %w", err)
	}
	d := newDecoder("")
	t := &Template{}
	t.readNode(d, spot{n: n})
	if err := join(d.problems); err != nil {
		return nil, err
	}
	return t, nil
}

// TextTemplate reads a template that is one string.
func TextTemplate(text string) (*Template, error) { return ParseTemplate(quote(text)) }

func (t *Template) readNode(d *decoder, s spot) {
	t.root = readForm(d, s)
	src, err := events.Canonical(s.n.json())
	if err != nil {
		d.fail(s, "%s", err)
	}
	t.src = src
}

func readForm(d *decoder, s spot) *form {
	f := &form{at: s}
	switch s.n.kind {
	case textNode:
		f.isText = true
		pieces, err := parsePieces(s.n.text)
		if err != nil {
			d.fail(s, "%s", err)
		}
		f.pieces = pieces
	case listNode:
		f.list = make([]*form, len(s.n.list))
		for i := range s.n.list {
			f.list[i] = readForm(d, s.at(i))
		}
	case mapNode:
		pairs := append([]pair(nil), s.n.pairs...) // in the order of canonical JSON
		sort.Slice(pairs, func(i, j int) bool { return pairs[i].key.text < pairs[j].key.text })
		f.members = make([]*form, len(pairs))
		for i, p := range pairs {
			if strings.Contains(p.key.text, "${") {
				d.failAt(joinPath(s.path, p.key.text), p.key.line, p.key.column, "a key cannot be a template; only values can")
			}
			f.keys = append(f.keys, p.key.text)
			f.members[i] = readForm(d, s.at(p.key.text))
		}
	default:
		literal, err := events.Canonical(s.n.json())
		if err != nil {
			d.fail(s, "%s", err)
		}
		f.literal = literal
	}
	return f
}

func parsePieces(s string) ([]piece, error) {
	var out []piece
	var text strings.Builder
	for s != "" {
		i := strings.IndexByte(s, '$')
		if i < 0 {
			text.WriteString(s)
			break
		}
		text.WriteString(s[:i])
		s = s[i:]
		switch {
		case strings.HasPrefix(s, "$${"):
			text.WriteString("${")
			s = s[3:]
		case strings.HasPrefix(s, "${"):
			inside, rest, ok := cutPath(s[2:])
			if !ok {
				return nil, fmt.Errorf("${%s has no }; write $${ for a literal ${", shorten(s[2:]))
			}
			p, err := parsePath(inside)
			if err != nil {
				return nil, err
			}
			if text.Len() > 0 {
				out = append(out, piece{text: text.String()})
				text.Reset()
			}
			out = append(out, piece{path: &p})
			s = rest
		default:
			text.WriteByte('$')
			s = s[1:]
		}
	}
	if text.Len() > 0 {
		out = append(out, piece{text: text.String()})
	}
	return out, nil
}

// cutPath cuts at the } that ends a path; one inside a quoted name does not.
func cutPath(s string) (inside, rest string, ok bool) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case quoted && s[i] == '\\':
			i++
		case s[i] == '"':
			quoted = !quoted
		case s[i] == '}' && !quoted:
			return s[:i], s[i+1:], true
		}
	}
	return "", "", false
}

// Paths lists every path of the template in the order of the text.
func (t *Template) Paths() []Path {
	var out []Path
	t.each(func(_ *form, p Path) { out = append(out, p) })
	return out
}

func (t *Template) each(visit func(*form, Path)) {
	if t == nil || t.root == nil {
		return
	}
	var walk func(*form)
	walk = func(f *form) {
		for _, p := range f.pieces {
			if p.path != nil {
				visit(f, *p.path)
			}
		}
		for _, c := range f.list {
			walk(c)
		}
		for _, c := range f.members {
			walk(c)
		}
	}
	walk(t.root)
}

// onePath is the path of a template that is exactly one ${path}.
func (t *Template) onePath() (Path, bool) {
	if t == nil || t.root == nil || len(t.root.pieces) != 1 || t.root.pieces[0].path == nil {
		return Path{}, false
	}
	return *t.root.pieces[0].path, true
}

// isText reports whether the template is one string.
func (t *Template) isText() bool { return t != nil && t.root != nil && t.root.isText }

// MarshalJSON writes the source.
func (t *Template) MarshalJSON() ([]byte, error) {
	if t == nil || t.src == nil {
		return []byte("null"), nil
	}
	return t.src, nil
}

// String is the source: the text itself, or JSON.
func (t *Template) String() string {
	if t == nil || t.src == nil {
		return ""
	}
	if t.root.isText {
		return t.root.at.n.text
	}
	return string(t.src)
}

// Render returns the value of the template.
func (t *Template) Render(values map[string]json.RawMessage) (json.RawMessage, error) {
	if t == nil || t.root == nil {
		return json.RawMessage("null"), nil
	}
	var w limited
	if err := t.root.render(&w, values); err != nil {
		return nil, err
	}
	return w.Bytes(), nil
}

// Text returns the template as plain text: a string as it is, any other value
// as JSON.
func (t *Template) Text(values map[string]json.RawMessage) (string, error) {
	if t == nil || t.root == nil {
		return "", nil
	}
	var w limited
	if t.root.isText {
		if err := renderText(&w, t.root.pieces, values, plain); err != nil {
			return "", err
		}
		return w.String(), nil
	}
	if err := t.root.render(&w, values); err != nil {
		return "", err
	}
	return w.String(), nil
}

func (f *form) render(w *limited, values map[string]json.RawMessage) error {
	switch {
	case f.isText && len(f.pieces) == 1 && f.pieces[0].path != nil:
		raw, err := f.pieces[0].find(values)
		if err != nil {
			return err
		}
		return w.add(raw)
	case f.isText:
		var text limited
		if err := renderText(&text, f.pieces, values, plain); err != nil {
			return err
		}
		return w.add(quote(text.String()))
	case f.list != nil:
		return renderItems(w, "[", "]", f.list, nil, values)
	case f.members != nil:
		return renderItems(w, "{", "}", f.members, f.keys, values)
	}
	return w.add(f.literal)
}

func renderItems(w *limited, open, end string, items []*form, keys []string, values map[string]json.RawMessage) error {
	if err := w.add([]byte(open)); err != nil {
		return err
	}
	for i, item := range items {
		var head []byte
		if i > 0 {
			head = append(head, ',')
		}
		if keys != nil {
			head = append(append(head, quote(keys[i])...), ':')
		}
		if err := w.add(head); err != nil {
			return err
		}
		if err := item.render(w, values); err != nil {
			return err
		}
	}
	return w.add([]byte(end))
}

// insert turns a found value into the text that stands for it.
type insert func(p Path, raw json.RawMessage) (string, error)

func renderText(w *limited, pieces []piece, values map[string]json.RawMessage, as insert) error {
	for _, p := range pieces {
		text := p.text
		if p.path != nil {
			raw, err := p.find(values)
			if err != nil {
				return err
			}
			if text, err = as(*p.path, raw); err != nil {
				return err
			}
		}
		if err := w.add([]byte(text)); err != nil {
			return err
		}
	}
	return nil
}

// plain inserts a string as it is and any other value as JSON.
func plain(_ Path, raw json.RawMessage) (string, error) {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] != '"' {
		return string(raw), nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", err
	}
	return s, nil
}

// scalar inserts a string, number or boolean; nothing else can be part of an
// address or a key. An empty string is refused unless empty says otherwise.
func scalar(p Path, raw json.RawMessage, empty bool) (string, error) {
	text, err := plain(p, raw)
	if err != nil {
		return "", err
	}
	switch c := bytes.TrimSpace(raw)[0]; {
	case c == '{' || c == '[' || c == 'n':
		return "", fmt.Errorf("${%s} must be text, a number or true or false here", p)
	case text == "" && !empty:
		return "", fmt.Errorf("${%s} is empty", p)
	}
	return text, nil
}

// limited is a buffer that refuses to grow beyond MaxRenderedBytes.
type limited struct{ bytes.Buffer }

func (w *limited) add(b []byte) error {
	if w.Len()+len(b) > MaxRenderedBytes {
		return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, MaxRenderedBytes)
	}
	w.Write(b)
	return nil
}

// roots checks that a template names only values that exist at its place.
func (d *decoder) roots(t *Template, allowed ...string) {
	t.each(func(f *form, p Path) {
		for _, a := range allowed {
			if p.Root == a {
				return
			}
		}
		switch near := Nearest(p.Root, allowed); {
		case near != "":
			d.also(f.at, "${%s}: there is no %s here; did you mean %q?", p, p.Root, near)
		case len(allowed) == 0:
			d.also(f.at, "${%s}: no values can be inserted here", p)
		default:
			d.also(f.at, "${%s}: there is no %s here; it can be %s", p, p.Root, strings.Join(allowed, ", "))
		}
	})
}
