package webhook

import (
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/trigger"
)

// GitLab sends the secret token as it is, which signs nothing, or, with a signing
// token (whsec_...), Standard Webhooks. A webhook whose secrets are all signing
// tokens refuses what is not signed.
//
// Source: GitLab docs, "Webhooks": X-Gitlab-Token, signing token,
// Idempotency-Key (which equals webhook-id), X-Gitlab-Event-UUID.
type GitLab struct{}

var (
	_ trigger.Provider = GitLab{}
	_ trigger.Signer   = GitLab{}
)

// Name implements trigger.Provider.
func (GitLab) Name() string { return "gitlab" }

// Verify implements trigger.Provider.
func (GitLab) Verify(r trigger.Request, c trigger.Check) error {
	if _, err := secrets(c); err != nil {
		return err
	}
	var signing, plain []string
	for _, secret := range c.Secrets {
		if strings.HasPrefix(secret, "whsec_") {
			signing = append(signing, secret)
		} else {
			plain = append(plain, secret)
		}
	}
	signature, token := standardHeader(r, "signature"), r.Header.Get("X-Gitlab-Token")
	switch {
	case signature != "" && len(signing) > 0:
		c.Secrets = signing
		return Standard{}.Verify(r, c)
	case len(plain) == 0:
		return missing("webhook-signature")
	case token == "":
		return missing("X-Gitlab-Token")
	}
	c.Secrets = plain
	return sameToken(c, token)
}

// Event implements trigger.Provider. Hooks that were set off by another hook
// share an event UUID, so the body tells them apart where there is no key.
func (GitLab) Event(r trigger.Request, _ trigger.Check) (trigger.Event, error) {
	id := firstOf(standardHeader(r, "id"), r.Header.Get("Idempotency-Key")) // equal, and only the first is signed
	if uuid := r.Header.Get("X-Gitlab-Event-UUID"); id == "" && uuid != "" {
		id = uuid + "/" + string(events.DigestOf(r.Body))
	}
	return jsonEvent(r, id)
}

// SecretHeaders implements trigger.Secretive.
func (GitLab) SecretHeaders(trigger.Check) []string { return []string{"X-Gitlab-Token"} }

// Sign implements trigger.Signer, by what the first secret is for.
func (GitLab) Sign(r *trigger.Request, c trigger.Check, id string) error {
	key, err := firstKey(c)
	if err != nil {
		return err
	}
	preset(r, "Idempotency-Key", id)
	if strings.HasPrefix(string(key), "whsec_") {
		return Standard{}.Sign(r, c, r.Header.Get("Idempotency-Key"))
	}
	r.Header.Set("X-Gitlab-Token", string(key))
	return nil
}
