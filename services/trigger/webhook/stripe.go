package webhook

import (
	"encoding/hex"
	"strings"

	"github.com/holdfast-run/holdfast/services/trigger"
)

// Stripe signs time and body with the whole text of the whsec_ secret, which is
// not decoded. Retries carry a fresh time and the same event id.
//
// Source: Stripe docs, "Verify webhook signatures manually".
type Stripe struct{}

var _ trigger.Provider = Stripe{}

// Name implements trigger.Provider.
func (Stripe) Name() string { return "stripe" }

// Verify implements trigger.Provider.
func (Stripe) Verify(r trigger.Request, c trigger.Check) error {
	const header = "Stripe-Signature"
	keys, err := secrets(c)
	if err != nil {
		return err
	}
	value := r.Header.Get(header)
	if value == "" {
		return missing(header)
	}
	var at string
	var got [][]byte
	for part := range strings.SplitSeq(value, ",") {
		switch name, text, _ := strings.Cut(strings.TrimSpace(part), "="); name {
		case "t":
			at = text
		case "v1": // v0 is a scheme of test events and is not believed
			if sig, err := hex.DecodeString(text); err == nil {
				got = append(got, sig)
			}
		}
	}
	var want [][]byte
	for _, key := range keys {
		want = append(want, mac256(key, at, ".", string(r.Body)))
	}
	if !anyEqual(want, got) {
		return trigger.ErrSignature
	}
	return fresh(r, c, at)
}

// Event implements trigger.Provider.
func (Stripe) Event(r trigger.Request, _ trigger.Check) (trigger.Event, error) {
	body, err := jsonBody(r)
	if err != nil {
		return trigger.Event{}, err
	}
	return trigger.Event{ID: member(body, "id"), Body: body}, nil
}
