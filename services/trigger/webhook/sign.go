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
	at, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: the timestamp %.30q is not Unix seconds", trigger.ErrSignature, seconds)
	}
	tolerance := c.Tolerance
	if tolerance == 0 {
		tolerance = defaultTolerance
	}
	switch age := r.At.Sub(time.Unix(at, 0)); {
	case age > tolerance:
		return fmt.Errorf("%w: signed %s ago, at most %s", trigger.ErrStale, age.Round(time.Second), tolerance)
	case age < -tolerance:
		return fmt.Errorf("%w: signed %s in the future, at most %s; check the sender's clock", trigger.ErrStale, (-age).Round(time.Second), tolerance)
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
