package trigger

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
)

// Bounds of a JSON value that every hop carries: those of events.Canonical.
const (
	maxDepth    = 200
	maxExponent = 4096
)

// scanJSON refuses what events.Canonical refuses, in one pass and without a copy:
// raw is valid JSON in valid UTF-8, and may have megabytes.
func scanJSON(raw json.RawMessage) error {
	s := scanner{raw: raw}
	if err := s.value(0); err != nil {
		return fmt.Errorf("$%.300s: %w", strings.Join(s.path, ""), err)
	}
	return nil
}

type scanner struct {
	raw  []byte
	at   int
	path []string // of the value that failed; filled on the way back
}

// in adds a step to the path of an error.
func (s *scanner) in(step string, err error) error {
	s.path = append([]string{step}, s.path...)
	return err
}

func (s *scanner) space() {
	for s.at < len(s.raw) && (s.raw[s.at] == ' ' || s.raw[s.at] == '\n' || s.raw[s.at] == '\r' || s.raw[s.at] == '\t') {
		s.at++
	}
}

func (s *scanner) value(depth int) error {
	if depth > maxDepth {
		return errors.New("nested deeper than 200")
	}
	s.space()
	switch c := s.raw[s.at]; {
	case c == '{':
		return s.object(depth)
	case c == '[':
		return s.array(depth)
	case c == '"':
		_, _, err := s.text()
		return err
	case c == '-' || '0' <= c && c <= '9':
		return s.number()
	default: // true, false, null
		for s.at < len(s.raw) && 'a' <= s.raw[s.at] && s.raw[s.at] <= 'z' {
			s.at++
		}
		return nil
	}
}

func (s *scanner) array(depth int) error {
	s.at++
	for i := 0; ; i++ {
		if s.space(); s.raw[s.at] == ']' {
			s.at++
			return nil
		}
		if err := s.value(depth + 1); err != nil {
			return s.in("["+strconv.Itoa(i)+"]", err)
		}
		if s.space(); s.raw[s.at] == ',' {
			s.at++
		}
	}
}

// fewKeys is up to how many keys of an object are compared one by one.
const fewKeys = 8

func (s *scanner) object(depth int) error {
	s.at++
	var few [fewKeys]string
	var many map[string]struct{}
	for n := 0; ; n++ {
		if s.space(); s.raw[s.at] == '}' {
			s.at++
			return nil
		}
		key, err := s.key()
		if err != nil {
			return err
		}
		_, twice := many[key]
		for _, k := range few[:min(n, fewKeys)] {
			twice = twice || k == key
		}
		switch {
		case twice:
			return fmt.Errorf("key %.100q appears twice", key)
		case n < fewKeys:
			few[n] = key
		case many == nil:
			many = map[string]struct{}{key: {}}
		default:
			many[key] = struct{}{}
		}
		s.space()
		s.at++ // the colon
		if err := s.value(depth + 1); err != nil {
			return s.in("."+key, err)
		}
		if s.space(); s.raw[s.at] == ',' {
			s.at++
		}
	}
}

// key returns a string without its escapes.
func (s *scanner) key() (string, error) {
	quoted, escaped, err := s.text()
	if err != nil {
		return "", err
	}
	if !escaped {
		return string(quoted[1 : len(quoted)-1]), nil
	}
	var text string
	err = json.Unmarshal(quoted, &text)
	return text, err
}

// text passes a string and returns it as it is, with its quotes.
func (s *scanner) text() (quoted []byte, escaped bool, err error) {
	begin := s.at
	s.at++
	high := false
	for ; s.raw[s.at] != '"'; s.at++ {
		if s.raw[s.at] != '\\' {
			if high {
				return nil, false, errSurrogate
			}
			continue
		}
		escaped = true
		if s.at++; s.raw[s.at] != 'u' {
			if high {
				return nil, false, errSurrogate
			}
			continue
		}
		n, err := strconv.ParseUint(string(s.raw[s.at+1:s.at+5]), 16, 32)
		if err != nil {
			return nil, false, err
		}
		s.at += 4
		r := rune(n)
		switch {
		case r == 0:
			return nil, false, errors.New("NUL character")
		case high != (r >= 0xdc00 && r <= 0xdfff): // a low one where none may be, or none where one must be
			return nil, false, errSurrogate
		}
		high = utf16.IsSurrogate(r) && r < 0xdc00
	}
	if high {
		return nil, false, errSurrogate
	}
	s.at++
	return s.raw[begin:s.at], escaped, nil
}

var errSurrogate = errors.New("lone surrogate escape")

func (s *scanner) number() error {
	begin := s.at
	exponent := -1
	for ; s.at < len(s.raw) && strings.IndexByte("+-.0123456789eE", s.raw[s.at]) >= 0; s.at++ {
		if c := s.raw[s.at]; c == 'e' || c == 'E' {
			exponent = s.at + 1
		}
	}
	if exponent < 0 {
		return nil
	}
	if e, err := strconv.Atoi(string(s.raw[exponent:s.at])); err != nil || e > maxExponent || e < -maxExponent {
		return fmt.Errorf("number %.40s has an exponent beyond 4096", s.raw[begin:s.at])
	}
	return nil
}
