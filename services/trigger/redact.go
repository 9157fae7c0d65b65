package trigger

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Redacted stands in the log for a value that is secret.
const Redacted = "[redacted]"

// Limits of what the log keeps of a head.
const (
	maxKeptNames = 64
	maxKeptValue = 1024 // bytes
)

// Secretive is a Provider that knows of headers which are secret beyond those
// whose names say so.
type Secretive interface {
	// SecretHeaders names them for a webhook's check.
	SecretHeaders(c Check) []string
}

// Names whose values are credentials or signatures, of which either could be used
// by who reads the log: those that hold one of secretParts, and secretWords. A
// name too many costs a detail; one too few costs a secret.
var (
	secretParts = []string{"auth", "cookie", "token", "secret", "signature", "hmac", "passw", "credential", "session", "jwt", "csrf",
		"apikey", "api-key", "api_key", "accesskey", "access-key", "access_key"}
	secretWords = []string{"key", "sig", "code", "state"}
)

// secretName reports whether a name says that its value is secret.
func secretName(name string) bool {
	name = foldCase(name)
	if slices.Contains(harmless, name) {
		return false
	}
	for _, part := range secretParts {
		if strings.Contains(name, part) {
			return true
		}
	}
	return slices.Contains(secretWords, name)
}

// foldCase is strings.ToLower that also takes the two letters beyond ASCII that
// count as s and k whatever the case.
func foldCase(s string) string {
	if strings.ContainsAny(s, "\u017f\u212a") {
		s = strings.NewReplacer("\u017f", "s", "\u212a", "k").Replace(s)
	}
	return strings.ToLower(s)
}

// harmless names look like the above and are ids.
var harmless = []string{"i-twilio-idempotency-token"}

// briefHeaders are kept of a request that was not verified, beside secret ones,
// whose presence is worth knowing.
var briefHeaders = []string{"content-type", "content-length", "user-agent", "x-forwarded-for"}

// redaction says what is hidden.
type redaction struct {
	names  []string // headers
	values []string // secrets: a value that holds one is hidden whatever its name
	brief  bool     // keep next to nothing
}

// redactionOf says what is hidden of a webhook's verified requests.
func redactionOf(p Provider, c Check) redaction {
	h := redaction{names: []string{c.HMAC.Header}, values: c.Secrets}
	if s, ok := p.(Secretive); ok {
		h.names = append(h.names, s.SecretHeaders(c)...)
	}
	return h
}

func (h redaction) hides(name, value string) bool {
	return secretName(name) || h.secret(name, value)
}

// secret reports whether a header holds what proves its sender.
func (h redaction) secret(name, value string) bool {
	for _, n := range h.names {
		if strings.EqualFold(n, name) {
			return true
		}
	}
	for _, secret := range h.values {
		if secret != "" && strings.Contains(value, secret) {
			return true
		}
	}
	return false
}

// redactHeader is what the log keeps of a head, names in lower case.
func redactHeader(header http.Header, h redaction) map[string][]string {
	return redact(header, h, strings.ToLower)
}

func redactQuery(query url.Values, h redaction) map[string][]string {
	return redact(query, h, func(s string) string { return s })
}

func redact(from map[string][]string, h redaction, spell func(string) string) map[string][]string {
	names := make([]string, 0, len(from))
	for name := range from {
		names = append(names, name)
	}
	slices.Sort(names)
	kept := map[string][]string{}
	for _, name := range names {
		spelled := spell(name)
		if len(kept) == maxKeptNames || len(name) > 100 || CheckText(name) != nil {
			continue
		}
		var values []string
		for _, v := range from[name] {
			switch {
			case h.hides(name, v):
				v = Redacted
			case h.brief && !slices.Contains(briefHeaders, spelled):
				continue
			}
			if len(values) < 8 {
				values = append(values, keptText(v, maxKeptValue))
			}
		}
		if values != nil {
			kept[spelled] = values
		}
	}
	return kept
}
