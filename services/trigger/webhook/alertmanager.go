package webhook

import (
	"github.com/holdfast-run/holdfast/pkg/spec"

	"github.com/holdfast-run/holdfast/services/trigger"
)

// Alertmanager is Prometheus Alertmanager with a bearer token, or what speaks its
// format. It gives no id and sends a group again as long as it fires, so the
// webhook's dedupe expression says what is the same: for one run per group,
// state and first alert "${body.groupKey}/${body.status}/${body.alerts[0].startsAt}".
//
// Source: Prometheus docs, "webhook_config".
type Alertmanager struct{}

var (
	_ trigger.Provider = Alertmanager{}
	_ trigger.Signer   = Alertmanager{}
)

// Name implements trigger.Provider.
func (Alertmanager) Name() string { return "alertmanager" }

// Verify implements trigger.Provider.
func (Alertmanager) Verify(r trigger.Request, c trigger.Check) error {
	if _, err := secrets(c); err != nil {
		return err
	}
	return bearerToken(c, r.Header.Get("Authorization"))
}

// Event implements trigger.Provider.
func (Alertmanager) Event(r trigger.Request, _ trigger.Check) (trigger.Event, error) {
	return jsonEvent(r, "")
}

// Sign implements trigger.Signer.
func (Alertmanager) Sign(r *trigger.Request, c trigger.Check, id string) error {
	c.HMAC = spec.Signature{}
	return Bearer{}.Sign(r, c, id)
}
