package trigger

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// CheckJSON refuses what a later hop cannot carry unchanged: what is not one JSON
// value, invalid UTF-8, NUL characters, lone surrogates, keys that appear twice,
// exponents beyond 4096 and nesting deeper than 200. What passes keeps its bytes
// and digits to the end. what names the text in the message: "body", "input".
func CheckJSON(what string, raw json.RawMessage) error {
	unfit := events.Check(raw)
	if unfit == nil {
		return nil
	}
	if !utf8.Valid(raw) {
		return Refuse(CodeInvalidText, "%s: the text is not valid UTF-8; send UTF-8", what)
	}
	if !json.Valid(raw) {
		if len(bytes.TrimSpace(raw)) == 0 {
			return Refuse(CodeInvalidJSON, "%s: it is empty; send a JSON value", what)
		}
		var v any
		err := json.Unmarshal(raw, &v)
		if err == nil {
			err = errors.New("it is not JSON")
		}
		return Refuse(CodeInvalidJSON, "%s: %w; send one JSON value", what, err)
	}
	where := strings.TrimPrefix(unfit.Error(), events.ErrCanonical.Error()+": ")
	return Refuse(CodeInvalidText, "%s: %s; this cannot be carried unchanged, so it is refused", what, where)
}

// CheckText refuses text that Postgres or a header could not carry.
func CheckText(s string) error {
	switch {
	case !utf8.ValidString(s):
		return errors.New("it is not valid UTF-8")
	case strings.ContainsRune(s, 0):
		return errors.New("it has a NUL character")
	}
	return nil
}
