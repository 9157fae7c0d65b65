package spec

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits of one file. A definition is written by hand and small; the limits
// keep a hostile upload from costing more than a second.
const (
	maxFileBytes     = 1 << 20
	maxDocumentBytes = 256 << 10
	maxDocuments     = 1000
	maxNodes         = 50_000 // aliases counted as often as they are used
	maxNesting       = 100
)

// chunk is the text of one document and the line before its first.
type chunk struct {
	text string
	line int
}

// split cuts a file at its document markers. YAML gives "---" and "..." at the
// start of a line no other meaning, not even inside quotes, so a syntax error
// in one document cannot hide those of the next.
func split(text string) []chunk {
	text = strings.TrimPrefix(text, "\ufeff")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	var out []chunk
	var cur strings.Builder
	start := 0
	flush := func(next int) {
		if hasContent(cur.String()) {
			out = append(out, chunk{cur.String(), start})
		}
		cur.Reset()
		start = next
	}
	for i, line := range strings.SplitAfter(text, "\n") {
		rest, ok := strings.CutPrefix(line, "---")
		switch {
		case ok && (rest == "" || strings.ContainsAny(rest[:1], " \t\n")):
			flush(i)
			cur.WriteString("   " + rest) // keeps the columns of what follows the marker
		case strings.TrimRight(line, " \t\n") == "...":
			flush(i + 1)
		default:
			cur.WriteString(line)
		}
	}
	flush(0)
	return out
}

func hasContent(text string) bool {
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return true
		}
	}
	return false
}

// yamlNode reads one document.
func yamlNode(file string, c chunk) (n *node, err error) {
	at := func(line, column int, format string, args ...any) error {
		return &Error{File: file, Line: line + c.line, Column: max(column, 1), Message: fmt.Sprintf(format, args...)}
	}
	defer func() {
		if r := recover(); r != nil { // the parser is not ours; a panic must not take a door down
			n, err = nil, at(1, 1, "this document is not readable as YAML")
		}
	}()
	if len(c.text) > maxDocumentBytes {
		return nil, at(1, 1, "the document has %d bytes; at most %d are allowed", len(c.text), maxDocumentBytes)
	}
	if line, column, bad := badText(c.text); bad != "" {
		return nil, at(line, column, "%s", bad)
	}
	if line := tooDeep(c.text); line > 0 {
		return nil, at(line, 1, "nested deeper than %d", maxNesting)
	}
	f, err := parser.ParseBytes([]byte(c.text), 0)
	if err != nil {
		var ye yaml.Error
		if errors.As(err, &ye) && ye.GetToken() != nil {
			p := ye.GetToken().Position
			return nil, at(p.Line, p.Column, "%s", syntaxMessage(ye.GetMessage()))
		}
		return nil, at(1, 1, "not readable as YAML: %s", shorten(err.Error()))
	}
	if len(f.Docs) != 1 || f.Docs[0].Body == nil {
		return nil, at(1, 1, "not readable as one YAML document")
	}
	r := reader{at: at, lines: strings.Split(c.text, "\n"), offset: c.line, anchors: map[string]ast.Node{}, open: map[string]bool{}}
	return r.read(f.Docs[0].Body, 0)
}

var definedAt = regexp.MustCompile(`^mapping key ("(?:[^"\\]|\\.)*") already defined at \[\d+:\d+\]$`)

// syntaxMessage makes the parser's message independent of where the document
// starts in the file.
func syntaxMessage(msg string) string {
	if m := definedAt.FindStringSubmatch(msg); m != nil {
		return "key " + m[1] + " appears twice"
	}
	if strings.Contains(msg, "\t") {
		msg = "a tab cannot indent YAML; use spaces"
	}
	return "not readable as YAML: " + shorten(msg)
}

// badText finds what YAML and Postgres text do not hold.
func badText(s string) (line, column int, problem string) {
	line, start := 1, 0
	for i, r := range s {
		switch {
		case r == '\n':
			line, start = line+1, i+1
			continue
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd"):
			problem = "not valid UTF-8"
		case r < 0x20 && r != '\t' && r != '\r' || r == 0x7f:
			problem = fmt.Sprintf("control character U+%04X", r)
		default:
			continue
		}
		return line, utf8.RuneCountInString(s[start:i]) + 1, problem
	}
	return 0, 0, ""
}

// tooDeep gives the line at which brackets or dashes nest deeper than the
// parser, which is recursive, should be asked to follow; 0 when none does.
func tooDeep(s string) int {
	depth, line := 0, 1
	for part := range strings.SplitSeq(s, "\n") {
		dashes := 0
		for rest := strings.TrimLeft(part, " "); ; {
			r := strings.TrimLeft(rest, "-?:&!*")
			if r == rest || !strings.HasPrefix(r, " ") && r != "" {
				break
			}
			rest, dashes = strings.TrimLeft(r, " "), dashes+1
			if r == "" {
				break
			}
		}
		for _, b := range []byte(part) {
			switch b {
			case '[', '{':
				depth++
			case ']', '}':
				depth = max(0, depth-1)
			}
			if depth+dashes > 10*maxNesting {
				return line
			}
		}
		if dashes > maxNesting {
			return line
		}
		line++
	}
	return 0
}

type reader struct {
	at      func(line, column int, format string, args ...any) error
	lines   []string
	offset  int
	anchors map[string]ast.Node
	open    map[string]bool // anchors that are being read; one inside itself has no end
	count   int
}

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

func (r *reader) read(a ast.Node, depth int) (*node, error) {
	pos := a.GetToken().Position
	n := &node{line: pos.Line + r.offset, column: pos.Column, inline: -1}
	if r.count++; r.count > maxNodes {
		return nil, r.at(pos.Line, pos.Column, "more than %d values in one document (aliases count as often as they are used)", maxNodes)
	}
	if depth > maxNesting {
		return nil, r.at(pos.Line, pos.Column, "nested deeper than %d", maxNesting)
	}
	switch v := a.(type) {
	case *ast.NullNode:
		return n, nil
	case *ast.BoolNode:
		n.kind, n.text = boolNode, fmt.Sprint(v.Value)
		return n, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return r.number(n, a.GetToken())
	case *ast.StringNode:
		return r.scalar(n, v)
	case *ast.LiteralNode:
		n.kind, n.text = textNode, v.Value.Value
		return n, nil
	case *ast.SequenceNode:
		n.kind = listNode
		for _, item := range v.Values {
			child, err := r.read(item, depth+1)
			if err != nil {
				return nil, err
			}
			n.list = append(n.list, child)
		}
		return n, nil
	case *ast.MappingNode:
		return r.mapping(n, v.Values, depth)
	case *ast.MappingValueNode:
		return r.mapping(n, []*ast.MappingValueNode{v}, depth)
	case *ast.TagNode:
		return r.tag(n, v, depth)
	case *ast.AnchorNode:
		name := v.Name.GetToken().Value
		r.open[name] = true
		child, err := r.read(v.Value, depth+1)
		delete(r.open, name)
		r.anchors[name] = v.Value
		return child, err
	case *ast.AliasNode:
		return r.alias(v, depth)
	}
	return nil, r.at(pos.Line, pos.Column, "%s is not allowed here", a.Type())
}

func (r *reader) alias(v *ast.AliasNode, depth int) (*node, error) {
	pos, name := v.GetToken().Position, v.Value.GetToken().Value
	target, ok := r.anchors[name]
	switch {
	case r.open[name]:
		return nil, r.at(pos.Line, pos.Column, "alias *%s stands inside its own anchor", shorten(name))
	case !ok:
		return nil, r.at(pos.Line, pos.Column, "alias *%s has no anchor &%s before it", shorten(name), shorten(name))
	}
	return r.read(target, depth+1)
}

func (r *reader) tag(n *node, v *ast.TagNode, depth int) (*node, error) {
	if tag := v.GetToken().Value; tag != "!!str" {
		return nil, r.at(v.GetToken().Position.Line, v.GetToken().Position.Column, "tag %s is not allowed; leave it out", shorten(tag))
	}
	child, err := r.read(v.Value, depth+1)
	if err != nil {
		return nil, err
	}
	switch child.kind {
	case numberNode, boolNode, textNode:
		child.kind = textNode
		return child, nil
	}
	return nil, r.at(n.line-r.offset, n.column, "!!str needs text behind it")
}

func (r *reader) mapping(n *node, values []*ast.MappingValueNode, depth int) (*node, error) {
	n.kind = mapNode
	seen := map[string]bool{}
	for i, v := range values {
		pos := v.Key.GetToken().Position
		if i == 0 {
			n.line, n.column = pos.Line+r.offset, pos.Column
		}
		var key *node
		switch k := v.Key.(type) {
		case *ast.MergeKeyNode:
			return nil, r.at(pos.Line, pos.Column, "merge keys (<<) are not allowed; write the fields out")
		case *ast.StringNode:
			key = &node{kind: textNode, text: k.Value, line: pos.Line + r.offset, column: pos.Column, inline: -1}
		case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
			return nil, r.at(pos.Line, pos.Column, "key %s must be quoted to be text", shorten(v.Key.GetToken().Value))
		default:
			return nil, r.at(pos.Line, pos.Column, "a key must be plain or quoted text")
		}
		if seen[key.text] {
			return nil, r.at(pos.Line, pos.Column, "key %q appears twice", shorten(key.text))
		}
		seen[key.text] = true
		value, err := r.read(v.Value, depth+1)
		if err != nil {
			return nil, err
		}
		if value.kind == nullNode { // an absent value has no place of its own
			value.line, value.column = key.line, key.column
		}
		n.pairs = append(n.pairs, pair{key, value})
	}
	return n, nil
}

// scalar reads plain and quoted text. A plain number that fits no machine type
// arrives as text from the parser and is a number all the same.
func (r *reader) scalar(n *node, v *ast.StringNode) (*node, error) {
	t := v.GetToken()
	quoted := t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType
	if !quoted && jsonNumber.MatchString(v.Value) {
		return r.number(n, t)
	}
	n.kind, n.text = textNode, v.Value
	if strings.ContainsRune(n.text, 0) {
		return nil, r.at(t.Position.Line, t.Position.Column, "the text holds a NUL character")
	}
	if quoted {
		n.inline = 1
	} else {
		n.inline = 0
	}
	// Escapes, folding and tabs move text away from its place in the source.
	line := t.Position.Line - 1
	if line < 0 || line >= len(r.lines) {
		n.inline = -1
		return n, nil
	}
	src := []rune(r.lines[line])
	from := t.Position.Column - 1 + n.inline
	if from < 0 || from > len(src) || !bytes.HasPrefix([]byte(string(src[from:])), []byte(n.text)) {
		n.inline = -1
	}
	return n, nil
}

func (r *reader) number(n *node, t *token.Token) (*node, error) {
	n.kind, n.text = numberNode, t.Value
	if !jsonNumber.MatchString(t.Value) {
		return nil, r.at(t.Position.Line, t.Position.Column, "%s is not a plain decimal number; write it like 123 or 1.5, or quote it to be text", shorten(t.Value))
	}
	return n, nil
}
