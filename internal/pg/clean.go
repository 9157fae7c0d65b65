package pg

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ErrUnclean is wrapped by the errors of CleanText and CleanJSON.
var ErrUnclean = errors.New("text that Postgres cannot keep")

// CleanText reports whether s fits a text column: valid UTF-8 without NUL.
func CleanText(s string) error {
	if strings.IndexByte(s, 0) >= 0 {
		return fmt.Errorf("%w: it holds a NUL character", ErrUnclean)
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("%w: it is not valid UTF-8", ErrUnclean)
	}
	return nil
}

// CleanJSON reports whether raw is one JSON value that Postgres keeps and also
// reads back. The json type stores the text as it came and so accepts \u0000
// and half surrogate pairs in a string; jsonb, and every operator that takes a
// string out of a json value, refuses them with class 22. CleanJSON refuses
// both, so that what was stored can be read with ->> for ever.
func CleanJSON(raw []byte) error {
	if !utf8.Valid(raw) {
		return fmt.Errorf("%w: it is not valid UTF-8", ErrUnclean)
	}
	if !json.Valid(raw) {
		return fmt.Errorf("%w: it is not one JSON value", ErrUnclean)
	}
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++ // raw is valid JSON: an escape has a second byte
		if raw[i] != 'u' {
			continue
		}
		unit := hex4(raw[i+1:])
		i += 4
		switch {
		case unit == 0:
			return fmt.Errorf(`%w: it holds \u0000`, ErrUnclean)
		case unit >= 0xd800 && unit < 0xdc00:
			if i+6 >= len(raw) || raw[i+1] != '\\' || raw[i+2] != 'u' {
				return fmt.Errorf("%w: it holds half a surrogate pair", ErrUnclean)
			}
			if low := hex4(raw[i+3:]); low < 0xdc00 || low > 0xdfff {
				return fmt.Errorf("%w: it holds half a surrogate pair", ErrUnclean)
			}
			i += 6
		case unit >= 0xdc00 && unit <= 0xdfff:
			return fmt.Errorf("%w: it holds half a surrogate pair", ErrUnclean)
		}
	}
	return nil
}

// hex4 reads four hex digits of valid JSON.
func hex4(b []byte) (n uint32) {
	for _, c := range b[:4] {
		n <<= 4
		switch {
		case c <= '9':
			n |= uint32(c - '0')
		default:
			n |= uint32(c|0x20-'a') + 10
		}
	}
	return n
}
