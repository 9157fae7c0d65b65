package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Styles of a query parameter whose value is a list or an object, as OpenAPI
// names them (Specification 3.1, "Style Values").
const (
	StyleForm  = "form"           // a=1&a=2, or a=1,2 without explode
	StyleSpace = "spaceDelimited" // a=1%202
	StylePipe  = "pipeDelimited"  // a=1%7C2
	StyleDeep  = "deepObject"     // a[k]=v
)

// QueryParam is one parameter of a query. In YAML it is its value alone or
// {value, style, explode}. A value that is exactly one ${path} and absent or
// null leaves the parameter out.
type QueryParam struct {
	Value   *Template `json:"value"` // over ${args...} and ${env...}
	Style   string    `json:"style"` // default StyleForm
	Explode bool      `json:"explode"`
}

// MarshalJSON writes the short form when nothing else is said.
func (q QueryParam) MarshalJSON() ([]byte, error) {
	if q.Style == StyleForm && q.Explode {
		return json.Marshal(q.Value)
	}
	type long QueryParam
	return json.Marshal(long(q))
}

func (q *QueryParam) readNode(d *decoder, s spot) {
	q.Style, q.Explode = StyleForm, true
	if s.n.kind != mapNode {
		q.Value = &Template{}
		q.Value.readNode(d, s)
		return
	}
	var p struct {
		Value   *Template `json:"value"`
		Style   string    `json:"style"`
		Explode *bool     `json:"explode"`
	}
	d.into(s, reflectOf(&p))
	q.Value = p.Value
	if p.Style != "" {
		q.Style = p.Style
		q.Explode = p.Style == StyleForm || p.Style == StyleDeep
	}
	if p.Explode != nil {
		q.Explode = *p.Explode
	}
}

func (h *HTTP) checkQuery(d *decoder, s spot) {
	if len(h.Query) > 200 {
		d.fail(s, "has %d parameters; at most 200 are allowed", len(h.Query))
	}
	for _, name := range names(h.Query) {
		at, q := s.at(name), h.Query[name]
		if name == "" || len(name) > 200 {
			d.fail(at, "the name of a parameter has 1 to 200 bytes")
		}
		d.require(at, q.Value != nil, "a value like \"${args.name}\"")
		d.oneOf(at.at("style"), q.Style, StyleForm, StyleSpace, StylePipe, StyleDeep)
		d.roots(q.Value, "args", "env")
	}
}

func (h *HTTP) inQuery(t *Template) bool {
	for _, q := range h.Query {
		if q.Value == t {
			return true
		}
	}
	return false
}

// AddQuery appends the parameters to a rendered URL. Names and values are
// escaped, so none of them can add a parameter or change the path.
func (h *HTTP) AddQuery(url string, values map[string]json.RawMessage) (string, error) {
	if len(h.Query) == 0 {
		return url, nil
	}
	var parts []string
	for _, name := range names(h.Query) {
		q := h.Query[name]
		if p, ok := q.Value.onePath(); ok && p.absent(values) {
			continue
		}
		raw, err := q.Value.Render(values)
		if err != nil {
			return "", fmt.Errorf("query %s: %w", shorten(name), err)
		}
		more, err := q.spell(name, raw)
		if err != nil {
			return "", fmt.Errorf("query %s: %w", shorten(name), err)
		}
		parts = append(parts, more...)
	}
	if len(parts) == 0 {
		return url, nil
	}
	url, fragment, cut := strings.Cut(url, "#")
	join := "?"
	if strings.Contains(url, "?") {
		join = "&"
	}
	url += join + strings.Join(parts, "&")
	if cut {
		url += "#" + fragment
	}
	if len(url) > maxURLBytes {
		return "", fmt.Errorf("URL is longer than %d bytes", maxURLBytes)
	}
	return url, nil
}

// spell writes one parameter as name=value pairs.
func (q QueryParam) spell(name string, raw json.RawMessage) ([]string, error) {
	n, err := jsonNode(raw)
	if err != nil {
		return nil, err
	}
	key := escapeSegment(name)
	delimiter := map[string]string{StyleForm: ",", StyleSpace: "%20", StylePipe: "%7C"}[q.Style]
	switch n.kind {
	case nullNode:
		return nil, nil
	case listNode:
		items := make([]string, len(n.list))
		for i, item := range n.list {
			if items[i], err = escapedScalar(item); err != nil {
				return nil, err
			}
		}
		switch {
		case q.Style == StyleDeep:
			return nil, fmt.Errorf("a list cannot be written as %s", StyleDeep)
		case len(items) == 0:
			return nil, nil
		case q.Explode:
			for i := range items {
				items[i] = key + "=" + items[i]
			}
			return items, nil
		}
		return []string{key + "=" + strings.Join(items, delimiter)}, nil
	case mapNode:
		var out []string
		for _, p := range n.pairs {
			if p.value.kind == nullNode {
				continue
			}
			value, err := escapedScalar(p.value)
			if err != nil {
				return nil, err
			}
			member := escapeSegment(p.key.text)
			switch {
			case q.Style == StyleDeep:
				out = append(out, key+"%5B"+member+"%5D="+value)
			case q.Explode:
				out = append(out, member+"="+value)
			default:
				out = append(out, member+delimiter+value)
			}
		}
		if q.Style == StyleDeep || q.Explode || len(out) == 0 {
			return out, nil
		}
		return []string{key + "=" + strings.Join(out, delimiter)}, nil
	}
	value, err := escapedScalar(n)
	return []string{key + "=" + value}, err
}

func escapedScalar(n *node) (string, error) {
	switch n.kind {
	case textNode, numberNode, boolNode:
		return escapeSegment(n.text), nil
	}
	return "", fmt.Errorf("%s inside a list or an object cannot be written into a query", n.kind)
}

// absent reports whether the path names nothing, or null.
func (p Path) absent(values map[string]json.RawMessage) bool {
	raw, err := p.find(values)
	if err == nil {
		return string(bytes.TrimSpace(raw)) == "null"
	}
	if len(p.steps) == 0 || !p.steps[len(p.steps)-1].isKey {
		return false
	}
	last := p.steps[len(p.steps)-1].key
	p.steps = p.steps[:len(p.steps)-1]
	parent, err := p.find(values)
	if err != nil {
		return p.absent(values)
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(parent, &object) != nil {
		return false
	}
	_, there := object[last]
	return object == nil || !there
}
