// Package config holds what every service's settings share: secrets that do
// not print themselves, and values read from files.
//
// Only cmd/ reads flags and the environment; packages take a Config struct.
package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
)

const redacted = "[redacted]"

// Secret is text that must not reach logs, errors or JSON. It prints as
// "[redacted]" whichever way it is formatted, empty when it is empty; the value
// comes out by Reveal only.
type Secret string

// Reveal returns the value. Call it where the value is used and nowhere else.
func (s Secret) Reveal() string { return string(s) }

// String hides the value.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// GoString hides the value from %#v.
func (s Secret) GoString() string { return fmt.Sprintf("config.Secret(%q)", s.String()) }

// Format hides the value from every verb, %d and %v alike.
func (s Secret) Format(f fmt.State, verb rune) {
	switch {
	case verb == 'v' && f.Flag('#'):
		_, _ = fmt.Fprint(f, s.GoString())
	case verb == 'q':
		_, _ = fmt.Fprintf(f, "%q", s.String())
	default:
		_, _ = fmt.Fprint(f, s.String())
	}
}

// LogValue hides the value from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalJSON hides the value from JSON.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// MarshalText hides the value from encoders that take text, YAML among them.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText takes the value as it stands.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = Secret(text)
	return nil
}

// ReadSecret reads a secret from a file, without the line break at its end: what
// an editor or a mounted secret leaves there is not part of it.
func ReadSecret(path string) (Secret, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	v := strings.TrimRight(string(b), "\r\n")
	if v == "" {
		return "", fmt.Errorf("read secret: %s is empty", path)
	}
	return Secret(v), nil
}

// RedactURL returns a URL as an operator may see it: without the password, and
// without query values whose names speak of one. Text that is no URL is hidden
// altogether. A list of URLs separated by commas is treated one by one.
func RedactURL(s Secret) string {
	if s == "" {
		return ""
	}
	if first, rest, many := strings.Cut(s.Reveal(), ","); many {
		return RedactURL(Secret(first)) + "," + RedactURL(Secret(rest))
	}
	u, err := url.Parse(s.Reveal())
	if err != nil || u.Scheme == "" {
		return redacted
	}
	if u.User != nil {
		if _, has := u.User.Password(); has || u.User.Username() != "" && strings.HasPrefix(u.Scheme, "nats") {
			u.User = url.User("redacted")
		}
	}
	q := u.Query()
	for k := range q {
		l := strings.ToLower(k)
		if strings.Contains(l, "pass") || strings.Contains(l, "secret") || strings.Contains(l, "token") {
			q.Set(k, "redacted")
		}
	}
	u.RawQuery = q.Encode()
	return u.String()
}
