package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
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
	s := scanner{raw: raw, write: true, out: make([]byte, 0, len(raw))}
	if err := s.whole(func() error { return s.value(0) }); err != nil {
		return nil, err
	}
	return s.out, nil
}

// canonicalNumber spells an exact decimal: an integer without exponent up to 40
// digits, else d.ddde±x with no trailing zeros. s is a number that the scanner has passed.
func canonicalNumber(s string) string {
	mantissa, exp := s, 0
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		exp, _ = strconv.Atoi(s[i+1:]) // the scanner has looked at it
		mantissa = s[:i]
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
		return "0" // -0 and 0.00 too
	}
	switch {
	case exp >= 0 && len(trimmed)+exp <= 40:
		return sign + trimmed + strings.Repeat("0", exp)
	case exp < 0 && -exp < len(trimmed):
		return sign + trimmed[:len(trimmed)+exp] + "." + trimmed[len(trimmed)+exp:]
	case exp < 0 && -exp-len(trimmed) < 20:
		return sign + "0." + strings.Repeat("0", -exp-len(trimmed)) + trimmed
	}
	e := exp + len(trimmed) - 1
	if len(trimmed) == 1 {
		return fmt.Sprintf("%s%se%d", sign, trimmed, e)
	}
	return fmt.Sprintf("%s%s.%se%d", sign, trimmed[:1], trimmed[1:], e)
}

// BindDigest is what a yes is bound to: the tool's version, the canonical
// arguments and the approval policy in force. Any other call has another digest.
func BindDigest(tool string, toolDigest, argsDigest Digest, policy string) Digest {
	return DigestOf(fmt.Appendf(nil, "holdfast/bind/v1\n%q\n%s\n%s\n%q\n", tool, toolDigest, argsDigest, policy))
}
