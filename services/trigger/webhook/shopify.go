package webhook

import (
	"crypto/sha256"
	"encoding/base64"

	"github.com/holdfast-run/holdfast/services/trigger"
)

// Shopify signs the raw body with the app's client secret. It signs no time. One
// change in a shop is one event id under every topic that tells of it, so topic
// and event id together name a delivery; X-Shopify-Webhook-Id is per subscription.
//
// Source: Shopify docs, "Deliver webhooks through HTTPS" and "Ignore duplicate
// webhooks".
type Shopify struct{}

var (
	_ trigger.Provider = Shopify{}
	_ trigger.Signer   = Shopify{}
)

// Name implements trigger.Provider.
func (Shopify) Name() string { return "shopify" }

// Verify implements trigger.Provider.
func (Shopify) Verify(r trigger.Request, c trigger.Check) error {
	const header = "X-Shopify-Hmac-Sha256"
	return signedBy(c, sha256.New, header, r.Header.Get(header), base64.StdEncoding.DecodeString, string(r.Body))
}

// Event implements trigger.Provider.
func (Shopify) Event(r trigger.Request, _ trigger.Check) (trigger.Event, error) {
	id := r.Header.Get("X-Shopify-Event-Id")
	if topic := r.Header.Get("X-Shopify-Topic"); id != "" && topic != "" {
		id = topic + "/" + id
	}
	return jsonEvent(r, firstOf(id, r.Header.Get("X-Shopify-Webhook-Id")))
}

// Sign implements trigger.Signer.
func (Shopify) Sign(r *trigger.Request, c trigger.Check, id string) error {
	key, err := firstKey(c)
	if err != nil {
		return err
	}
	preset(r, "X-Shopify-Event-Id", id)
	r.Header.Set("X-Shopify-Hmac-Sha256", base64.StdEncoding.EncodeToString(mac256(key, string(r.Body))))
	return nil
}
