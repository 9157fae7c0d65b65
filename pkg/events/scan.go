package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Bounds of a JSON value that every hop carries.
const (
	maxDepth    = 200
	maxExponent = 4096
	// plainDigits is up to how many digits an integer is written without an exponent.
	plainDigits = 40
)

var (
	errSyntax    = errors.New("it is not JSON") // json.Unmarshal says where
	errTwice     = errors.New("more than one value")
	errDeep      = errors.New("nested deeper than 200")
	errNUL       = errors.New("NUL character")
	errSurrogate = errors.New("lone surrogate escape")
)

// Check refuses what Canonical refuses, in one pass and without a copy: raw may
// have megabytes.
func Check(raw json.RawMessage) error {
	s := scanner{raw: raw}
	return s.whole(func() error { return s.value(0) })
}

// Value decodes what Canonical takes into map[string]any, []any, string,
// json.Number, bool and nil. Numbers are spelled as Canonical spells them.
func Value(raw json.RawMessage) (v any, err error) {
	s := scanner{raw: raw}
	err = s.whole(func() (err error) { v, err = s.decode(0); return err })
	return v, err
}

// scanner reads one JSON value, by RFC 8259 and the bounds of Canonical.
type scanner struct {
	raw   []byte
	at    int
	write bool // out gets the canonical form
	out   []byte
	open  []member // of the objects that are not closed yet
	spare []byte
	path  []string // of the value that failed; filled on the way back
}

// member is a member of an object: its key without escapes, and where it stands
// in out.
type member struct {
	key      []byte
	from, to int
}

// whole reads one value and nothing behind it, and dresses the error.
func (s *scanner) whole(value func() error) error {
	if !utf8.Valid(s.raw) {
		return fmt.Errorf("%w: invalid UTF-8", ErrCanonical)
	}
	err := value()
	if err == nil {
		if s.space(); s.at == len(s.raw) {
			return nil
		}
		err = errTwice
	}
	if err == errSyntax {
		s.path, err = nil, syntaxError(s.raw)
	}
	slices.Reverse(s.path)
	return fmt.Errorf("%w: $%.300s: %w", ErrCanonical, strings.Join(s.path, ""), err)
}

// syntaxError says what is wrong with raw, which is not JSON.
func syntaxError(raw []byte) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		return io.EOF
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	return errSyntax
}

// in adds a step to the path of an error.
func (s *scanner) in(step string, err error) error {
	s.path = append(s.path, step)
	return err
}

func (s *scanner) space() {
	for s.at < len(s.raw) {
		switch s.raw[s.at] {
		case ' ', '\n', '\r', '\t':
			s.at++
		default:
			return
		}
	}
}

// next passes white space and returns the byte behind it, 0 at the end.
func (s *scanner) next() byte {
	s.space()
	if s.at == len(s.raw) {
		return 0
	}
	return s.raw[s.at]
}

func (s *scanner) put(b []byte) {
	if s.write {
		s.out = append(s.out, b...)
	}
}

func (s *scanner) value(depth int) error {
	if depth > maxDepth {
		return errDeep
	}
	switch c := s.next(); c {
	case '{':
		return s.object(depth)
	case '[':
		return s.array(depth)
	case '"':
		quoted, escaped, err := s.text()
		if err == nil && s.write {
			s.out = appendText(s.out, quoted, escaped)
		}
		return err
	case 't', 'f', 'n':
		word, err := s.word(c)
		s.put(word)
		return err
	default:
		number, plain, err := s.number()
		if err == nil && s.write {
			s.out = append(s.out, spell(number, plain)...)
		}
		return err
	}
}

func (s *scanner) array(depth int) error {
	s.at++
	s.put([]byte{'['})
	if s.next() == ']' {
		s.at++
		s.put([]byte{']'})
		return nil
	}
	for i := 0; ; i++ {
		if err := s.value(depth + 1); err != nil {
			return s.in("["+strconv.Itoa(i)+"]", err)
		}
		switch s.next() {
		case ',':
			s.at++
			s.put([]byte{','})
		case ']':
			s.at++
			s.put([]byte{']'})
			return nil
		default:
			return errSyntax
		}
	}
}

func (s *scanner) object(depth int) error {
	s.at++
	begin, first := len(s.out), len(s.open)
	s.put([]byte{'{'})
	ordered := true
	if s.next() == '}' {
		s.at++
		s.put([]byte{'}'})
		return nil
	}
	for {
		key, err := s.key()
		if err != nil {
			return err
		}
		if n := len(s.open); n > first && bytes.Compare(s.open[n-1].key, key.key) >= 0 {
			ordered = false
		}
		if err := s.value(depth + 1); err != nil {
			return s.in("."+string(key.key), err)
		}
		key.to = len(s.out)
		s.open = append(s.open, key)
		switch s.next() {
		case ',':
			s.at++
			s.put([]byte{','})
			continue
		case '}':
			s.at++
		default:
			return errSyntax
		}
		break
	}
	if !ordered {
		if err := s.order(begin, s.open[first:]); err != nil {
			return err
		}
	}
	s.open = s.open[:first]
	s.put([]byte{'}'})
	return nil
}

// key reads the name of a member and the colon behind it.
func (s *scanner) key() (member, error) {
	if s.next() != '"' {
		return member{}, errSyntax
	}
	m := member{from: len(s.out)}
	quoted, escaped, err := s.text()
	if err != nil {
		return member{}, err
	}
	m.key = quoted[1 : len(quoted)-1]
	if escaped {
		m.key = unescape(m.key)
	}
	if s.write {
		s.out = append(appendText(s.out, quoted, escaped), ':')
	}
	if s.next() != ':' {
		return member{}, errSyntax
	}
	s.at++
	return m, nil
}

// order sorts the members of the object that begins at begin of out, and refuses
// a key that is there twice.
func (s *scanner) order(begin int, members []member) error {
	slices.SortFunc(members, func(a, b member) int { return bytes.Compare(a.key, b.key) })
	for i := 1; i < len(members); i++ {
		if bytes.Equal(members[i-1].key, members[i].key) {
			return fmt.Errorf("key %.100q appears twice", members[i].key)
		}
	}
	if !s.write {
		return nil
	}
	s.spare = append(s.spare[:0], '{')
	for i, m := range members {
		if i > 0 {
			s.spare = append(s.spare, ',')
		}
		s.spare = append(s.spare, s.out[m.from:m.to]...)
	}
	copy(s.out[begin:], s.spare)
	return nil
}

// word reads true, false or null.
func (s *scanner) word(first byte) ([]byte, error) {
	want := "true"
	switch first {
	case 'f':
		want = "false"
	case 'n':
		want = "null"
	}
	end := s.at + len(want)
	if end > len(s.raw) || string(s.raw[s.at:end]) != want {
		return nil, errSyntax
	}
	word := s.raw[s.at:end]
	s.at = end
	return word, nil
}

// text passes a string and returns it as it is, with its quotes.
func (s *scanner) text() (quoted []byte, escaped bool, err error) {
	raw, i := s.raw, s.at+1
	high := false // the first half of a pair was the last character
	for ; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			if high {
				return nil, false, errSurrogate
			}
			quoted = raw[s.at : i+1]
			s.at = i + 1
			return quoted, escaped, nil
		case c < 0x20:
			return nil, false, errSyntax
		case c != '\\':
			if high {
				return nil, false, errSurrogate
			}
			continue
		}
		escaped = true
		if i++; i == len(raw) {
			return nil, false, errSyntax
		}
		switch raw[i] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			if high {
				return nil, false, errSurrogate
			}
			continue
		case 'u':
		default:
			return nil, false, errSyntax
		}
		r, ok := hex4(raw, i+1)
		if !ok {
			return nil, false, errSyntax
		}
		i += 4
		low := r >= 0xdc00 && r <= 0xdfff
		switch {
		case r == 0:
			return nil, false, errNUL
		case high != low: // a low one where none may be, or none where one must be
			return nil, false, errSurrogate
		}
		high = !low && utf16.IsSurrogate(r)
	}
	return nil, false, errSyntax
}

func hex4(raw []byte, at int) (r rune, ok bool) {
	if at+4 > len(raw) {
		return 0, false
	}
	for _, c := range raw[at : at+4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// unescape returns what is between the quotes of a string that text has passed.
func unescape(inside []byte) []byte {
	out := make([]byte, 0, len(inside))
	for i := 0; i < len(inside); i++ {
		c := inside[i]
		if c != '\\' {
			out = append(out, c)
			continue
		}
		i++
		switch c = inside[i]; c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r, _ := hex4(inside, i+1)
			i += 4
			if utf16.IsSurrogate(r) {
				low, _ := hex4(inside, i+3)
				r = utf16.DecodeRune(r, low)
				i += 6
			}
			out = utf8.AppendRune(out, r)
			continue
		}
		out = append(out, c)
	}
	return out
}

// appendText writes a string that text has passed, in its one spelling.
func appendText(out, quoted []byte, escaped bool) []byte {
	if !escaped {
		return append(out, quoted...)
	}
	const hex = "0123456789abcdef"
	out = append(out, '"')
	for _, c := range unescape(quoted[1 : len(quoted)-1]) {
		switch {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c == '\n':
			out = append(out, '\\', 'n')
		case c == '\r':
			out = append(out, '\\', 'r')
		case c == '\t':
			out = append(out, '\\', 't')
		case c < 0x20:
			out = append(out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			out = append(out, c)
		}
	}
	return append(out, '"')
}

func (s *scanner) digits() bool {
	begin := s.at
	for s.at < len(s.raw) && '0' <= s.raw[s.at] && s.raw[s.at] <= '9' {
		s.at++
	}
	return s.at > begin
}

// is passes one of the bytes of set.
func (s *scanner) is(set string) bool {
	if s.at < len(s.raw) && strings.IndexByte(set, s.raw[s.at]) >= 0 {
		s.at++
		return true
	}
	return false
}

// number passes a number; plain says that it is spelled as Canonical does.
func (s *scanner) number() (text []byte, plain bool, err error) {
	begin := s.at
	negative := s.is("-")
	whole := s.at
	if !s.is("0") && !s.digits() {
		return nil, false, errSyntax
	}
	plain = s.at-whole <= plainDigits && !(negative && s.raw[whole] == '0')
	if s.is(".") {
		plain = false
		if !s.digits() {
			return nil, false, errSyntax
		}
	}
	if s.is("eE") {
		plain = false
		exponent := s.at
		s.is("+-")
		if !s.digits() {
			return nil, false, errSyntax
		}
		if e, err := strconv.Atoi(string(s.raw[exponent:s.at])); err != nil || e > maxExponent || e < -maxExponent {
			return nil, false, fmt.Errorf("number %.40s has an exponent beyond 4096", s.raw[begin:s.at])
		}
	}
	return s.raw[begin:s.at], plain, nil
}

func spell(number []byte, plain bool) string {
	if plain {
		return string(number)
	}
	return canonicalNumber(string(number))
}

// decode is value into Go's values.
func (s *scanner) decode(depth int) (any, error) {
	if depth > maxDepth {
		return nil, errDeep
	}
	switch c := s.next(); c {
	case '{':
		return s.decodeObject(depth)
	case '[':
		return s.decodeArray(depth)
	case '"':
		quoted, escaped, err := s.text()
		if err != nil {
			return nil, err
		}
		return textOf(quoted, escaped), nil
	case 't', 'f', 'n':
		if _, err := s.word(c); err != nil || c == 'n' {
			return nil, err
		}
		return c == 't', nil
	default:
		number, plain, err := s.number()
		if err != nil {
			return nil, err
		}
		return json.Number(spell(number, plain)), nil
	}
}

func textOf(quoted []byte, escaped bool) string {
	inside := quoted[1 : len(quoted)-1]
	if escaped {
		inside = unescape(inside)
	}
	return string(inside)
}

func (s *scanner) decodeArray(depth int) (any, error) {
	s.at++
	list := []any{}
	if s.next() == ']' {
		s.at++
		return list, nil
	}
	for {
		v, err := s.decode(depth + 1)
		if err != nil {
			return nil, s.in("["+strconv.Itoa(len(list))+"]", err)
		}
		list = append(list, v)
		switch s.next() {
		case ',':
			s.at++
		case ']':
			s.at++
			return list, nil
		default:
			return nil, errSyntax
		}
	}
}

func (s *scanner) decodeObject(depth int) (any, error) {
	s.at++
	object := map[string]any{}
	if s.next() == '}' {
		s.at++
		return object, nil
	}
	for {
		m, err := s.key()
		if err != nil {
			return nil, err
		}
		key := string(m.key)
		if _, twice := object[key]; twice {
			return nil, fmt.Errorf("key %.100q appears twice", key)
		}
		if object[key], err = s.decode(depth + 1); err != nil {
			return nil, s.in("."+key, err)
		}
		switch s.next() {
		case ',':
			s.at++
		case '}':
			s.at++
			return object, nil
		default:
			return nil, errSyntax
		}
	}
}
