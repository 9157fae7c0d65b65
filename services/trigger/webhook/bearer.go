package webhook

import (
	"strings"

	"github.com/holdfast-run/holdfast/services/trigger"
)

// Bearer is any sender that proves itself by a token in a header and signs
// nothing: whoever sees the request can send another. The header is Authorization
// with "Bearer " before the token, or the webhook's own. The query is never
// looked at: addresses end up in logs.
type Bearer struct{}

var (
	_ trigger.Provider = Bearer{}
	_ trigger.Signer   = Bearer{}
)

// Name implements trigger.Provider.
func (Bearer) Name() string { return "bearer" }

// Verify implements trigger.Provider.
func (Bearer) Verify(r trigger.Request, c trigger.Check) error {
	header := c.HMAC.Header
	if header == "" {
		header = "Authorization"
	}
	if _, err := secrets(c); err != nil {
		return err
	}
	value := r.Header.Get(header)
	if value == "" {
		return missing(header)
	}
	prefix := c.HMAC.Prefix
	if c.HMAC.Header == "" && prefix == "" {
		return bearerToken(c, value)
	}
	token, ok := strings.CutPrefix(value, prefix)
	if !ok {
		return missing(header)
	}
	return sameToken(c, token)
}

// bearerToken checks the value of an Authorization header, RFC 6750 section 2.1.
func bearerToken(c trigger.Check, value string) error {
	scheme, token, _ := strings.Cut(value, " ")
	if !strings.EqualFold(scheme, "bearer") {
		return missing("Authorization: Bearer")
	}
	return sameToken(c, strings.TrimLeft(token, " "))
}

// Event implements trigger.Provider.
func (Bearer) Event(r trigger.Request, _ trigger.Check) (trigger.Event, error) {
	return jsonEvent(r, "")
}

// SecretHeaders implements trigger.Secretive.
func (Bearer) SecretHeaders(c trigger.Check) []string {
	if c.HMAC.Header == "" {
		return nil
	}
	return []string{c.HMAC.Header}
}

// Sign implements trigger.Signer.
func (Bearer) Sign(r *trigger.Request, c trigger.Check, _ string) error {
	key, err := firstKey(c)
	if err != nil {
		return err
	}
	header, prefix := c.HMAC.Header, c.HMAC.Prefix
	if header == "" && prefix == "" {
		prefix = "Bearer "
	}
	r.Header.Set(firstOf(header, "Authorization"), prefix+string(key))
	return nil
}
