package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ErrCanonical is wrapped by every error of Canonical.
var ErrCanonical = errors.New("not canonicalizable JSON")

// Canonical rewrites one JSON value so that equal meanings have equal bytes:
// object keys sorted by their bytes, no white space, one spelling per string
// and per number. Numbers are exact decimals and never pass through a float:
// 10, 10.0 and 1e1 are the same, 9007199254740993 keeps every digit. It refuses
// duplicate keys, invalid UTF-8, lone surrogates, NUL characters, exponents
// beyond ±4096 and a nesting deeper than 200.
func Canonical(raw json.RawMessage) (json.RawMessage, error) {
	if !utf8.Valid(raw) {
		return nil, fmt.Errorf("%w: invalid UTF-8", ErrCanonical)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	c := canonicalizer{dec: dec}
	if err := c.value("$", 0); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCanonical, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: more than one value", ErrCanonical)
	}
	if loneSurrogate(raw) {
		return nil, fmt.Errorf("%w: lone surrogate escape", ErrCanonical)
	}
	return c.out.Bytes(), nil
}

type canonicalizer struct {
	dec *json.Decoder
	out bytes.Buffer
}

func (c *canonicalizer) value(path string, depth int) error {
	if depth > 200 {
		return fmt.Errorf("%s: nested deeper than 200", path)
	}
	tok, err := c.dec.Token()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	switch t := tok.(type) {
	case json.Delim:
		if t == '[' {
			return c.array(path, depth)
		}
		return c.object(path, depth)
	case string:
		return c.text(path, t)
	case json.Number:
		n, err := canonicalNumber(string(t))
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		c.out.WriteString(n)
	case bool:
		c.out.WriteString(strconv.FormatBool(t))
	case nil:
		c.out.WriteString("null")
	}
	return nil
}

func (c *canonicalizer) array(path string, depth int) error {
	c.out.WriteByte('[')
	for i := 0; c.dec.More(); i++ {
		if i > 0 {
			c.out.WriteByte(',')
		}
		if err := c.value(fmt.Sprintf("%s[%d]", path, i), depth+1); err != nil {
			return err
		}
	}
	_, err := c.dec.Token()
	c.out.WriteByte(']')
	return err
}

func (c *canonicalizer) object(path string, depth int) error {
	members := map[string]json.RawMessage{}
	var keys []string
	outer := c.out
	for c.dec.More() {
		tok, err := c.dec.Token()
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		key := tok.(string) // the decoder accepts nothing else here
		if _, twice := members[key]; twice {
			return fmt.Errorf("%s: key %q appears twice", path, key)
		}
		c.out = bytes.Buffer{}
		if err := c.value(path+"."+key, depth+1); err != nil {
			return err
		}
		members[key] = bytes.Clone(c.out.Bytes())
		keys = append(keys, key)
	}
	if _, err := c.dec.Token(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	c.out = outer
	sort.Strings(keys)
	c.out.WriteByte('{')
	for i, key := range keys {
		if i > 0 {
			c.out.WriteByte(',')
		}
		if err := c.text(path, key); err != nil {
			return err
		}
		c.out.WriteByte(':')
		c.out.Write(members[key])
	}
	c.out.WriteByte('}')
	return nil
}

func (c *canonicalizer) text(path, s string) error {
	if strings.ContainsRune(s, 0) {
		return fmt.Errorf("%s: NUL character", path)
	}
	c.out.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			c.out.WriteByte('\\')
			c.out.WriteRune(r)
		case r == '\n':
			c.out.WriteString(`\n`)
		case r == '\r':
			c.out.WriteString(`\r`)
		case r == '\t':
			c.out.WriteString(`\t`)
		case r < 0x20:
			fmt.Fprintf(&c.out, `\u%04x`, r)
		default:
			c.out.WriteRune(r)
		}
	}
	c.out.WriteByte('"')
	return nil
}

// canonicalNumber spells an exact decimal: an integer without exponent up to 40
// digits, else d.ddde±x with no trailing zeros.
func canonicalNumber(s string) (string, error) {
	mantissa, exp := s, 0
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		e, err := strconv.Atoi(s[i+1:])
		if err != nil || e > 4096 || e < -4096 {
			return "", fmt.Errorf("number %.40s has an exponent beyond 4096", s)
		}
		mantissa, exp = s[:i], e
	}
	sign := ""
	if strings.HasPrefix(mantissa, "-") {
		sign, mantissa = "-", mantissa[1:]
	}
	whole, frac, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+frac, "0")
	exp -= len(frac)
	trimmed := strings.TrimRight(digits, "0")
	exp += len(digits) - len(trimmed)
	if trimmed == "" {
		return "0", nil // -0 and 0.00 too
	}
	switch {
	case exp >= 0 && len(trimmed)+exp <= 40:
		return sign + trimmed + strings.Repeat("0", exp), nil
	case exp < 0 && -exp < len(trimmed):
		return sign + trimmed[:len(trimmed)+exp] + "." + trimmed[len(trimmed)+exp:], nil
	case exp < 0 && -exp-len(trimmed) < 20:
		return sign + "0." + strings.Repeat("0", -exp-len(trimmed)) + trimmed, nil
	}
	e := exp + len(trimmed) - 1
	if len(trimmed) == 1 {
		return fmt.Sprintf("%s%se%d", sign, trimmed, e), nil
	}
	return fmt.Sprintf("%s%s.%se%d", sign, trimmed[:1], trimmed[1:], e), nil
}

// loneSurrogate finds a \ud800-\udfff escape that is not half of a pair; the
// decoder would replace it silently.
func loneSurrogate(raw []byte) bool {
	for i := 0; i+1 < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		if raw[i+1] != 'u' {
			i++
			continue
		}
		hi, ok := hex4(raw, i+2)
		if !ok {
			return false
		}
		i += 5
		switch {
		case hi >= 0xd800 && hi < 0xdc00:
			lo, ok := uint64(0), false
			if i+2 < len(raw) && raw[i+1] == '\\' && raw[i+2] == 'u' {
				lo, ok = hex4(raw, i+3)
			}
			if !ok || lo < 0xdc00 || lo > 0xdfff {
				return true
			}
			i += 6
		case hi >= 0xdc00 && hi < 0xe000:
			return true
		}
	}
	return false
}

func hex4(raw []byte, at int) (uint64, bool) {
	if at+4 > len(raw) {
		return 0, false
	}
	n, err := strconv.ParseUint(string(raw[at:at+4]), 16, 32)
	return n, err == nil
}

// BindDigest is what a yes is bound to: the tool's version, the canonical
// arguments and the approval policy in force. Any other call has another digest.
func BindDigest(tool string, toolDigest, argsDigest Digest, policy string) Digest {
	return DigestOf(fmt.Appendf(nil, "holdfast/bind/v1\n%q\n%s\n%s\n%q\n", tool, toolDigest, argsDigest, policy))
}
