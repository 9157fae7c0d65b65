package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
)

type nodeKind int

const (
	nullNode nodeKind = iota
	boolNode
	numberNode
	textNode
	listNode
	mapNode
)

func (k nodeKind) String() string {
	return [...]string{"nothing", "true or false", "a number", "text", "a list", "a map"}[k]
}

// node is one value of a document with its place. YAML text and stored JSON
// bodies both become nodes, so one decoder and one set of rules serve both.
type node struct {
	kind         nodeKind
	text         string // textNode: the value; numberNode: its JSON digits; boolNode: true or false
	list         []*node
	pairs        []pair
	line, column int
	// inline is how far the text starts behind column when each of its bytes
	// stands in the source as it is, else -1.
	inline int
}

type pair struct {
	key   *node // textNode
	value *node
}

func (n *node) get(key string) *node {
	if n == nil {
		return nil
	}
	for _, p := range n.pairs {
		if p.key.text == key {
			return p.value
		}
	}
	return nil
}

// json writes the node as JSON. Digits of numbers stay as they are.
func (n *node) json() json.RawMessage {
	var b bytes.Buffer
	n.write(&b)
	return b.Bytes()
}

func (n *node) write(b *bytes.Buffer) {
	switch n.kind {
	case nullNode:
		b.WriteString("null")
	case boolNode, numberNode:
		b.WriteString(n.text)
	case textNode:
		b.Write(quote(n.text))
	case listNode:
		b.WriteByte('[')
		for i, item := range n.list {
			if i > 0 {
				b.WriteByte(',')
			}
			item.write(b)
		}
		b.WriteByte(']')
	case mapNode:
		b.WriteByte('{')
		for i, p := range n.pairs {
			if i > 0 {
				b.WriteByte(',')
			}
			b.Write(quote(p.key.text))
			b.WriteByte(':')
			p.value.write(b)
		}
		b.WriteByte('}')
	}
}

// quote writes s as a JSON string without escaping <, > and &.
func quote(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic(fmt.Sprintf("encode a string: %v", err)) // strings always encode
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// jsonNode reads JSON into a node without places. It refuses what
// events.Canonical refuses: duplicate keys, deep nesting, bad UTF-8.
func jsonNode(raw json.RawMessage) (*node, error) {
	canonical, err := events.Canonical(raw)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(canonical))
	dec.UseNumber()
	n, err := readNode(dec)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one value")
	}
	return n, nil
}

func readNode(dec *json.Decoder) (*node, error) {
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch t := tok.(type) {
	case json.Delim:
		n := &node{kind: listNode, inline: -1}
		if t == '{' {
			n.kind = mapNode
		}
		for dec.More() {
			var key *node
			if n.kind == mapNode {
				if key, err = readNode(dec); err != nil {
					return nil, err
				}
			}
			value, err := readNode(dec)
			if err != nil {
				return nil, err
			}
			if key != nil {
				n.pairs = append(n.pairs, pair{key, value})
			} else {
				n.list = append(n.list, value)
			}
		}
		_, err := dec.Token()
		return n, err
	case string:
		return &node{kind: textNode, text: t, inline: -1}, nil
	case json.Number:
		return &node{kind: numberNode, text: string(t), inline: -1}, nil
	case bool:
		return &node{kind: boolNode, text: strconv.FormatBool(t), inline: -1}, nil
	}
	return &node{kind: nullNode, inline: -1}, nil
}

// spot is a place in a document: the node there, or the nearest one around a
// place that does not exist, and the path that names it.
type spot struct {
	n    *node
	path string
}

// at steps into the document by keys (string) and indexes (int).
func (s spot) at(steps ...any) spot {
	for _, step := range steps {
		var next *node
		switch k := step.(type) {
		case string:
			next = s.n.get(k)
			s.path = joinPath(s.path, k)
		case int:
			if s.n != nil && k < len(s.n.list) {
				next = s.n.list[k]
			}
			s.path += "[" + strconv.Itoa(k) + "]"
		}
		if next != nil {
			s.n = next
		}
	}
	return s
}

// joinPath appends a key to a path; a key that is not a plain word is quoted.
func joinPath(path, key string) string {
	plain := key != ""
	for _, c := range []byte(key) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-') {
			plain = false
		}
	}
	switch {
	case !plain:
		return path + "[" + strconv.Quote(shorten(key)) + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

// shorten bounds text that is quoted in a message.
func shorten(s string) string {
	const limit = 80
	s = strings.ToValidUTF8(s, "\ufffd")
	if r := []rune(s); len(r) > limit {
		return string(r[:limit]) + "…"
	}
	return s
}

// find returns the node at a path as References writes it, or nil.
func (n *node) find(path string) *node {
	for part := range strings.SplitSeq(path, ".") {
		key, index, indexed := strings.Cut(strings.TrimSuffix(part, "]"), "[")
		if n = n.get(key); n == nil || !indexed {
			continue
		}
		i, err := strconv.Atoi(index)
		if err != nil || i >= len(n.list) {
			return nil
		}
		n = n.list[i]
	}
	return n
}
