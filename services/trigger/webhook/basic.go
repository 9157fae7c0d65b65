package webhook

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/holdfast-run/holdfast/services/trigger"
)

// Basic is any sender that sends a user and a password, RFC 7617; the secret is
// both, with a colon between. Nothing is signed.
type Basic struct{}

var (
	_ trigger.Provider = Basic{}
	_ trigger.Signer   = Basic{}
)

// Name implements trigger.Provider.
func (Basic) Name() string { return "basic" }

// Verify implements trigger.Provider.
func (Basic) Verify(r trigger.Request, c trigger.Check) error {
	if _, err := secrets(c); err != nil {
		return err
	}
	for i, secret := range c.Secrets {
		if !strings.Contains(secret, ":") {
			return fmt.Errorf("secret %d of the webhook is not user:password", i+1)
		}
	}
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "basic") {
		return missing("Authorization: Basic")
	}
	sent, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		return fmt.Errorf("%w: Authorization is not in base64", trigger.ErrSignature)
	}
	return sameToken(c, string(sent))
}

// Event implements trigger.Provider.
func (Basic) Event(r trigger.Request, _ trigger.Check) (trigger.Event, error) {
	return jsonEvent(r, "")
}

// Sign implements trigger.Signer.
func (Basic) Sign(r *trigger.Request, c trigger.Check, _ string) error {
	key, err := firstKey(c)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString(key))
	return nil
}
