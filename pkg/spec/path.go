package spec

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Path names a value: a root, then members and indexes, like
// input.competitors[0].url. A member that is not a plain word is quoted:
// body["x.y"]. Members of headers are read in lower case.
type Path struct {
	Root  string
	steps []step
	text  string
}

type step struct {
	key   string
	index int // used when key is not
	isKey bool
}

// String is the path as it was written.
func (p Path) String() string { return p.text }

// Member is the first step behind the root, or "".
func (p Path) Member() string {
	if len(p.steps) > 0 && p.steps[0].isKey {
		return p.steps[0].key
	}
	return ""
}

func parsePath(text string) (Path, error) {
	s := strings.TrimSpace(text)
	p := Path{text: s}
	root, rest := word(s)
	if root == "" {
		return Path{}, fmt.Errorf("${%s} is not a path like input.name or input.list[0]", shorten(text))
	}
	p.Root = root
	for rest != "" {
		var st step
		var err error
		if st, rest, err = nextStep(rest); err != nil {
			return Path{}, fmt.Errorf("${%s}: %w", shorten(text), err)
		}
		if p.Root == "headers" && st.isKey {
			st.key = strings.ToLower(st.key)
		}
		if p.steps = append(p.steps, st); len(p.steps) > 50 {
			return Path{}, fmt.Errorf("${%s}: more than 50 steps", shorten(text))
		}
	}
	return p, nil
}

func nextStep(s string) (step, string, error) {
	if rest, ok := strings.CutPrefix(s, "."); ok {
		key, rest := word(rest)
		if key == "" {
			return step{}, "", fmt.Errorf("a name must follow the dot")
		}
		return step{key: key, isKey: true}, rest, nil
	}
	rest, ok := strings.CutPrefix(s, "[")
	if !ok {
		return step{}, "", fmt.Errorf("%q is not allowed in a path; conditions and functions do not work here", shorten(s))
	}
	if strings.HasPrefix(rest, `"`) {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return step{}, "", fmt.Errorf("a quoted name has no end")
		}
		key, err := strconv.Unquote(quoted)
		if err != nil {
			return step{}, "", fmt.Errorf("%s is not a quoted name", shorten(quoted))
		}
		after, ok := strings.CutPrefix(rest[len(quoted):], "]")
		if !ok {
			return step{}, "", fmt.Errorf("] is missing")
		}
		return step{key: key, isKey: true}, after, nil
	}
	inside, after, ok := strings.Cut(rest, "]")
	index, err := strconv.ParseUint(inside, 10, 31)
	if !ok || err != nil {
		return step{}, "", fmt.Errorf("[%s is not an index like [0]", shorten(rest))
	}
	return step{index: int(index)}, after, nil
}

// word cuts a leading name: letters, digits, _ and -, not starting with a digit or -.
func word(s string) (string, string) {
	i := 0
	for ; i < len(s); i++ {
		c := s[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
		if !letter && (i == 0 || !('0' <= c && c <= '9' || c == '-')) {
			break
		}
	}
	return s[:i], s[i:]
}

// find returns the value that the path names. Its bytes are those of values:
// digits and key order are kept. Errors name the path, never a value.
func (p Path) find(values map[string]json.RawMessage) (json.RawMessage, error) {
	raw, ok := values[p.Root]
	if !ok || raw == nil {
		return nil, fmt.Errorf("${%s}: there is no %s here", p.text, p.Root)
	}
	at := p.Root
	for _, st := range p.steps {
		if !st.isKey {
			var list []json.RawMessage
			if err := json.Unmarshal(raw, &list); err != nil || list == nil {
				return nil, fmt.Errorf("${%s}: %s is not a list", p.text, at)
			}
			if st.index >= len(list) {
				return nil, fmt.Errorf("${%s}: %s has %d items", p.text, at, len(list))
			}
			raw, at = list[st.index], fmt.Sprintf("%s[%d]", at, st.index)
			continue
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(raw, &object); err != nil || object == nil {
			return nil, fmt.Errorf("${%s}: %s is not an object", p.text, at)
		}
		if raw, ok = object[st.key]; !ok {
			return nil, fmt.Errorf("${%s}: %s has no %q", p.text, at, shorten(st.key))
		}
		at = joinPath(at, st.key)
	}
	if !json.Valid(raw) {
		return nil, fmt.Errorf("${%s}: %s is not valid JSON", p.text, at)
	}
	return raw, nil
}
