package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"time"

	"github.com/holdfast-run/holdfast/services/trigger"
)

const defaultTolerance = 5 * time.Minute

// errNoSecret is no fault of the sender: without a secret nothing can be checked.
var errNoSecret = errors.New("the webhook has no secret to check signatures with")

func mac(newHash func() hash.Hash, key []byte, parts ...string) []byte {
	h := hmac.New(newHash, key)
	for _, p := range parts {
		h.Write([]byte(p)) // never fails
	}
	return h.Sum(nil)
}

func mac256(key []byte, parts ...string) []byte { return mac(sha256.New, key, parts...) }

// anyEqual compares every pair in constant time per pair.
func anyEqual(want, got [][]byte) bool {
	found := false
	for _, w := range want {
		for _, g := range got {
			if hmac.Equal(w, g) {
				found = true
			}
		}
	}
	return found
}

// fresh checks a signed time in Unix seconds.
func fresh(r trigger.Request, c trigger.Check, seconds string) error {
	return freshIn(r, c, seconds, "s")
}

// freshIn checks a signed time in a unit: s, ms or rfc3339.
func freshIn(r trigger.Request, c trigger.Check, text, unit string) error {
	at, err := moment(text, unit)
	if err != nil {
		return err
	}
	tolerance := c.Tolerance
	if tolerance == 0 {
		tolerance = defaultTolerance
	}
	switch age := r.At.Sub(at); {
	case age > tolerance:
		return fmt.Errorf("%w: signed %s ago, at most %s", trigger.ErrStale, age.Round(time.Second), tolerance)
	case age < -tolerance:
		return fmt.Errorf("%w: signed %s in the future, at most %s; check the sender's clock", trigger.ErrStale, (-age).Round(time.Second), tolerance)
	}
	return nil
}

func moment(text, unit string) (time.Time, error) {
	if unit == "rfc3339" {
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return time.Time{}, fmt.Errorf("%w: the timestamp %.40q is not in the form of RFC 3339", trigger.ErrSignature, text)
		}
		return at, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil && unit == "ms":
		return time.Time{}, fmt.Errorf("%w: the timestamp %.30q is not Unix milliseconds", trigger.ErrSignature, text)
	case err != nil:
		return time.Time{}, fmt.Errorf("%w: the timestamp %.30q is not Unix seconds", trigger.ErrSignature, text)
	case unit == "ms":
		return time.UnixMilli(n), nil
	}
	return time.Unix(n, 0), nil
}

// signedBy reports whether text in a header is, in an encoding, the MAC of parts
// under one of the webhook's secrets.
func signedBy(c trigger.Check, newHash func() hash.Hash, header, value string, decode func(string) ([]byte, error), parts ...string) error {
	keys, err := secrets(c)
	if err != nil {
		return err
	}
	if value == "" {
		return missing(header)
	}
	sig, err := decode(value)
	if err != nil {
		return fmt.Errorf("%w: %s is not in the encoding of this sender", trigger.ErrSignature, header)
	}
	var want [][]byte
	for _, key := range keys {
		want = append(want, mac(newHash, key, parts...))
	}
	if !anyEqual(want, [][]byte{sig}) {
		return trigger.ErrSignature
	}
	return nil
}

// publicURL is the address as the sender signed it: what it was given, and the
// query of this request.
func publicURL(r trigger.Request, c trigger.Check) (string, error) {
	switch {
	case c.PublicURL == "":
		return "", errors.New("the sender signs its address of the webhook, and the webhook has no publicURL")
	case r.RawQuery == "":
		return c.PublicURL, nil
	}
	return c.PublicURL + "?" + r.RawQuery, nil
}

// sameToken compares what was sent with the webhook's secrets in constant time,
// whatever their lengths.
func sameToken(c trigger.Check, sent string) error {
	keys, err := secrets(c)
	if err != nil {
		return err
	}
	got := sha256.Sum256([]byte(sent))
	var want [][]byte
	for _, key := range keys {
		sum := sha256.Sum256(key)
		want = append(want, sum[:])
	}
	if !anyEqual(want, [][]byte{got[:]}) {
		return fmt.Errorf("%w: the token is not that of this webhook", trigger.ErrSignature)
	}
	return nil
}

// secrets returns the keys of c, or an error when there is none that could
// verify anything.
func secrets(c trigger.Check) ([][]byte, error) {
	var keys [][]byte
	for _, s := range c.Secrets {
		if s == "" {
			return nil, errNoSecret
		}
		keys = append(keys, []byte(s))
	}
	if len(keys) == 0 {
		return nil, errNoSecret
	}
	return keys, nil
}

func missing(header string) error {
	return &trigger.Unsigned{Header: header}
}
