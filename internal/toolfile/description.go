package toolfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// description is an OpenAPI description as it was written: nodes in their order,
// with every digit of a number. What the parts of it mean is left to who asks.
type description struct {
	root    *yaml.Node
	version string
}

// maxReferences bounds the references that lead to one part.
const maxReferences = 100

// readDescription reads JSON or YAML, one document of it.
func readDescription(text []byte) (*description, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	root := &yaml.Node{}
	if json.Valid(text) { // YAML has no pairs of \ud83d\ude00
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		var err error
		if root, err = jsonNode(dec); err != nil {
			return nil, err
		}
	} else if err := errors.Join(yaml.Unmarshal(text, root), unique(root)); err != nil {
		return nil, err
	}
	if root.Kind == yaml.DocumentNode && len(root.Content) == 1 {
		root = root.Content[0]
	}
	switch root = deref(root); {
	case root.IsZero():
		return nil, errors.New("it is empty")
	case root.Kind != yaml.MappingNode:
		return nil, errors.New("it is not an object")
	}
	d := &description{root: root}
	for _, key := range []string{"openapi", "swagger", "asyncapi"} {
		if d.version == "" {
			d.version = textOf(valueOf(root, key))
		}
	}
	if d.version == "" {
		return nil, errors.New("it does not say its version, as in openapi: 3.1.0")
	}
	return d, nil
}

// jsonNode reads the next value as the nodes that YAML would give.
func jsonNode(dec *json.Decoder) (*yaml.Node, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case json.Delim:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		if v == '{' {
			n.Kind = yaml.MappingNode
		}
		for dec.More() { // a key is a value like others
			child, err := jsonNode(dec)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, child)
		}
		_, err := dec.Token()
		return n, err
	case json.Number:
		if _, err := v.Float64(); err != nil {
			return plain("!!str", v.String()), nil
		}
		return plain("!!float", v.String()), nil
	case bool:
		return plain("!!bool", strconv.FormatBool(v)), nil
	case string:
		return plain("!!str", v), nil
	}
	return plain("!!null", "null"), nil
}

func plain(tag, value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value}
}

// unique refuses an object that has a key twice.
func unique(n *yaml.Node) error {
	if n.Kind == yaml.MappingNode {
		seen := map[string]bool{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i]
			if k.Kind != yaml.ScalarNode {
				continue
			}
			if seen[k.Value] {
				return fmt.Errorf("line %d: the key %.100q appears twice in one object", k.Line, k.Value)
			}
			seen[k.Value] = true
		}
	}
	for _, c := range n.Content {
		if err := unique(c); err != nil {
			return err
		}
	}
	return nil
}

// find follows a JSON pointer without its leading "#/".
func (d *description) find(pointer string) (*yaml.Node, error) {
	n := d.root
	for part := range strings.SplitSeq(pointer, "/") {
		if unescaped, err := url.PathUnescape(part); err == nil {
			part = unescaped
		}
		part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		if i, err := strconv.Atoi(part); err == nil && n.Kind == yaml.SequenceNode && 0 <= i && i < len(n.Content) {
			n = deref(n.Content[i])
			continue
		}
		if n = valueOf(n, part); n == nil {
			return nil, fmt.Errorf("it refers to %.100q, which is not there", "#/"+pointer)
		}
	}
	return n, nil
}

// pointerOf returns what follows "#/" of a reference; other files are not read.
func pointerOf(ref string) (string, error) {
	pointer, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return "", fmt.Errorf("it refers to %.100q, and other files are not read", ref)
	}
	return pointer, nil
}

// object returns the object that n is or refers to, and nil where there is none
// or null. what names it in errors.
func (d *description) object(n *yaml.Node, what string) (*yaml.Node, error) {
	for range maxReferences {
		if n = deref(n); n == nil || n.Tag == "!!null" {
			return nil, nil
		}
		if n.Kind != yaml.MappingNode {
			return nil, fmt.Errorf("%s is not an object", what)
		}
		ref := valueOf(n, "$ref")
		if ref == nil {
			return n, nil
		}
		pointer, err := pointerOf(textOf(ref))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		if n, err = d.find(pointer); err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
	}
	return nil, fmt.Errorf("%s refers to itself", what)
}

// listOf returns the members of a list, and none where there is none or null.
func listOf(n *yaml.Node, what string) ([]*yaml.Node, error) {
	if n = deref(n); n == nil || n.Tag == "!!null" {
		return nil, nil
	}
	if n.Kind != yaml.SequenceNode {
		return nil, fmt.Errorf("%s is not a list", what)
	}
	return n.Content, nil
}

func deref(n *yaml.Node) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// pair is one member of an object.
type pair struct {
	key   string
	value *yaml.Node
}

// pairsOf lists an object's members in their order; what it takes over from
// others by << stands where that does, unless the object has its own.
func pairsOf(n *yaml.Node) []pair {
	if n = deref(n); n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	keys, merged := map[string]bool{}, map[*yaml.Node]bool{}
	var out []pair
	var take func(n *yaml.Node)
	take = func(n *yaml.Node) {
		if n = deref(n); n == nil || merged[n] {
			return
		}
		merged[n] = true
		if n.Kind == yaml.SequenceNode {
			for _, c := range n.Content {
				take(c)
			}
			return
		}
		own := map[string]int{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if k := deref(n.Content[i]); k.Tag != "!!merge" && !keys[k.Value] {
				keys[k.Value], own[k.Value] = true, i
			}
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := deref(n.Content[i])
			if k.Tag == "!!merge" {
				take(n.Content[i+1])
			} else if at, ok := own[k.Value]; ok && at == i {
				out = append(out, pair{k.Value, deref(n.Content[i+1])})
			}
		}
	}
	take(n)
	return out
}

// valueOf returns an object's member, nil when it has none of this name.
func valueOf(n *yaml.Node, key string) *yaml.Node {
	if n = deref(n); n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	merges := false
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch k := deref(n.Content[i]); {
		case k.Tag == "!!merge":
			merges = true
		case k.Value == key:
			return deref(n.Content[i+1])
		}
	}
	if !merges {
		return nil
	}
	for _, p := range pairsOf(n) {
		if p.key == key {
			return p.value
		}
	}
	return nil
}

// textOf returns a plain value's text, "" for everything else.
func textOf(n *yaml.Node) string {
	if n = deref(n); n == nil || n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return ""
	}
	return n.Value
}

func isTrue(n *yaml.Node) bool {
	n = deref(n)
	return n != nil && n.Tag == "!!bool" && strings.EqualFold(n.Value, "true")
}
