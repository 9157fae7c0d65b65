package webhook

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/holdfast-run/holdfast/internal/stdwebhooks"
	"github.com/holdfast-run/holdfast/services/trigger"
)

// Standard is Standard Webhooks, also as Svix sends it: v1 (HMAC, secret
// whsec_...) and v1a (ed25519, public key whpk_...). Retries carry the same
// webhook-id and a fresh timestamp.
//
// Source: Standard Webhooks spec, "Signature scheme": base64 of HMAC-SHA256 or
// ed25519 over msg_id.timestamp.payload.
type Standard struct{}

var _ trigger.Provider = Standard{}

// Name implements trigger.Provider.
func (Standard) Name() string { return "standard" }

func standardHeader(r trigger.Request, name string) string {
	if v := r.Header.Get("webhook-" + name); v != "" {
		return v
	}
	return r.Header.Get("svix-" + name)
}

// Verify implements trigger.Provider.
func (Standard) Verify(r trigger.Request, c trigger.Check) error {
	id, at, signatures := standardHeader(r, "id"), standardHeader(r, "timestamp"), standardHeader(r, "signature")
	switch {
	case id == "":
		return missing("webhook-id")
	case at == "":
		return missing("webhook-timestamp")
	case signatures == "":
		return missing("webhook-signature")
	case strings.Contains(id, "."):
		// It would let one signed text be read as another id and time.
		return fmt.Errorf("%w: webhook-id must have no full stop", trigger.ErrSignature)
	}
	if len(c.Secrets) == 0 {
		return errNoSecret
	}
	var v1, v1a [][]byte
	for entry := range strings.FieldsSeq(signatures) {
		version, text, _ := strings.Cut(entry, ",")
		sig, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			continue // another entry may be good
		}
		switch version {
		case "v1":
			v1 = append(v1, sig)
		case "v1a":
			v1a = append(v1a, sig)
		}
	}
	signed := stdwebhooks.Signed(id, at, r.Body)
	verified := false
	for i, secret := range c.Secrets {
		key, err := stdwebhooks.ParseKey(secret)
		if err != nil {
			return fmt.Errorf("secret %d of the webhook: %w", i+1, err)
		}
		if key.Public != nil {
			for _, sig := range v1a {
				verified = ed25519.Verify(key.Public, signed, sig) || verified
			}
			continue
		}
		verified = anyEqual([][]byte{stdwebhooks.MAC(key.HMAC, signed)}, v1) || verified
	}
	if !verified {
		return trigger.ErrSignature
	}
	return fresh(r, c, at)
}

// Event implements trigger.Provider.
func (Standard) Event(r trigger.Request, _ trigger.Check) (trigger.Event, error) {
	body, err := jsonBody(r)
	if err != nil {
		return trigger.Event{}, err
	}
	return trigger.Event{ID: standardHeader(r, "id"), Body: body}, nil
}
