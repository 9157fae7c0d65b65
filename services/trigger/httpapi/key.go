package httpapi

import (
	"net/http"
	"strings"

	"github.com/holdfast-run/holdfast/services/trigger"
)

// keyOf is the Idempotency-Key of a request, empty when it has none.
func keyOf(r *http.Request) (string, error) {
	lines := r.Header.Values("Idempotency-Key")
	if len(lines) > 1 {
		return "", trigger.Refuse(trigger.CodeInvalidKey, "there are %d headers Idempotency-Key; send one", len(lines))
	}
	if len(lines) == 1 && strings.TrimSpace(lines[0]) == "" {
		return "", trigger.Refuse(trigger.CodeInvalidKey, "Idempotency-Key is empty; send a key, or no header")
	}
	return idempotencyKey(r.Header.Get("Idempotency-Key"))
}

// idempotencyKey reads the header Idempotency-Key: a quoted string as the IETF
// draft wants it (a structured field string, RFC 9651 section 3.3.3), or the
// bare text that most clients send. Empty means none.
//
// Source: draft-ietf-httpapi-idempotency-key-header.
func idempotencyKey(header string) (string, error) {
	key := strings.TrimSpace(header)
	if key == "" {
		return "", nil
	}
	if key[0] == '"' {
		var ok bool
		if key, ok = unquote(key); !ok || key == "" {
			return "", trigger.Refuse(trigger.CodeInvalidKey, `Idempotency-Key is not a quoted string; send it like "8e03978e-40d5", or bare`)
		}
	}
	if len(key) > trigger.MaxKey {
		return "", trigger.Refuse(trigger.CodeInvalidKey, "Idempotency-Key has %d characters; at most %d are allowed", len(key), trigger.MaxKey)
	}
	for _, c := range []byte(key) {
		if c < ' ' || c > '~' {
			return "", trigger.Refuse(trigger.CodeInvalidKey, "Idempotency-Key has characters other than printable ASCII")
		}
	}
	return key, nil
}

func unquote(s string) (string, bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), i == len(s)-1
		case '\\':
			if i++; i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", false
			}
		}
		b.WriteByte(s[i])
	}
	return "", false
}
