package toolfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Document is one Tool document that is being written.
type Document struct {
	Name     string
	Comments []string // lines above it
	fields   []field
}

type field struct {
	key   string
	value json.RawMessage
}

// Skipped is something of which no document is made, and why.
type Skipped struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// set adds a field of the spec; nil leaves it out.
func (d *Document) set(key string, value any) error {
	raw, ok := value.(json.RawMessage)
	if !ok {
		var err error
		if raw, err = events.Marshal(value); err != nil {
			return fmt.Errorf("write %s of tool %s: %w", key, d.Name, err)
		}
	}
	if len(raw) > 0 {
		d.fields = append(d.fields, field{key, raw})
	}
	return nil
}

// YAML is the document's text.
func (d *Document) YAML() ([]byte, error) {
	var b bytes.Buffer
	for _, c := range d.Comments {
		for line := range strings.Lines(c) {
			fmt.Fprintf(&b, "# %s\n", strings.Map(visible, strings.TrimRight(line, "\n")))
		}
	}
	fmt.Fprintf(&b, "apiVersion: %s\nkind: Tool\nmetadata:\n  name: %s\nspec:\n", spec.APIVersion, d.Name)
	for _, f := range d.fields {
		if err := writeYAML(&b, f.key, f.value, 1); err != nil {
			return nil, fmt.Errorf("write %s of tool %s: %w", f.key, d.Name, err)
		}
	}
	return b.Bytes(), nil
}

// Check reads the document as apply would.
func (d *Document) Check() error {
	text, err := d.YAML()
	if err != nil {
		return err
	}
	_, err = spec.Parse(d.Name+".yaml", text)
	return err
}

// keep returns the documents that apply would take, under names of their own,
// and what is wrong with the others.
func keep(documents []*Document, skipped []Skipped) ([]*Document, []Skipped) {
	used := map[string]bool{}
	var out []*Document
	for _, d := range documents {
		base := d.Name
		for n := 2; used[d.Name]; n++ {
			suffix := "_" + strconv.Itoa(n)
			d.Name = base[:min(len(base), maxName-len(suffix))] + suffix
		}
		if err := d.Check(); err != nil {
			skipped = append(skipped, Skipped{Name: d.Name, Reason: err.Error()})
			continue
		}
		used[d.Name] = true
		out = append(out, d)
	}
	return out, skipped
}

const maxName = 62

// Name makes the name of a definition of what others call something:
// getPetById becomes get_pet_by_id.
func Name(text string) string {
	var b strings.Builder
	gap, lower := false, false
	for _, r := range text {
		switch {
		case 'A' <= r && r <= 'Z':
			gap = gap || lower
			r, lower = unicode.ToLower(r), false
		case 'a' <= r && r <= 'z' || '0' <= r && r <= '9':
			lower = true
		default:
			gap, lower = true, false
			continue
		}
		if gap && b.Len() > 0 {
			b.WriteByte('_')
		}
		gap = false
		b.WriteRune(r)
	}
	name := b.String()
	if len(name) > maxName {
		name = strings.TrimRight(name[:maxName], "_")
	}
	return name
}

// visible replaces what could end a comment or steer a terminal.
func visible(r rune) rune {
	if r == '\t' {
		return ' '
	}
	if !unicode.IsPrint(r) {
		return '\ufffd'
	}
	return r
}

var plainKey = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_-]*$`)

// reserved are plain words that YAML readers take for something else.
var reserved = map[string]bool{"y": true, "n": true, "yes": true, "no": true, "on": true, "off": true, "true": true, "false": true, "null": true}

// writeYAML writes a JSON value below a key in blocks, every digit kept and in
// the order in which it stands. Text is always quoted, as JSON quotes it.
func writeYAML(b *bytes.Buffer, key string, raw json.RawMessage, depth int) error {
	indent := strings.Repeat("  ", depth)
	if !plainKey.MatchString(key) || reserved[strings.ToLower(key)] {
		key = quoted(key)
	}
	pairs, isObject, err := members(raw)
	if err != nil {
		return err
	}
	if isObject && len(pairs) > 0 {
		fmt.Fprintf(b, "%s%s:\n", indent, key)
		for _, p := range pairs {
			if err := writeYAML(b, p.key, p.value, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	flow, err := events.Canonical(raw) // one spelling of every string
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "%s%s: %s\n", indent, key, escaped(string(flow)))
	return nil
}

// members lists an object's members in their order.
func members(raw json.RawMessage) ([]field, bool, error) {
	if t := bytes.TrimSpace(raw); len(t) == 0 || t[0] != '{' {
		return nil, false, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		return nil, true, err
	}
	var out []field
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, true, err
		}
		text, ok := key.(string)
		if !ok {
			return nil, true, errors.New("a key is not text")
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, true, err
		}
		out = append(out, field{text, value})
	}
	_, err := dec.Token()
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return out, true, err
}

func quoted(s string) string {
	b, err := events.Marshal(s)
	if err != nil {
		return `""`
	}
	return escaped(string(b))
}

// escaped spells characters that YAML does not take, or that hide, as \u escapes;
// outside of quotes there are none.
func escaped(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// clip cuts text to limit bytes without splitting a character.
func clip(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	if len(s) <= limit {
		return s
	}
	for limit > 0 && s[limit]&0xc0 == 0x80 {
		limit--
	}
	return s[:limit] + "…"
}

// Only returns the documents with one of the names; all of them without names.
func Only(documents []*Document, names []string) []*Document {
	if len(names) == 0 {
		return documents
	}
	var out []*Document
	for _, d := range documents {
		if slices.Contains(names, d.Name) {
			out = append(out, d)
		}
	}
	return out
}
