package webhook

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/holdfast-run/holdfast/services/trigger"
)

// Zendesk signs time and body with nothing between them. The time is RFC 3339
// text. A webhook may be set up to send no body, which counts as {}, or a form.
//
// Source: Zendesk docs, "Verifying webhook authenticity".
type Zendesk struct{}

var (
	_ trigger.Provider = Zendesk{}
	_ trigger.Signer   = Zendesk{}
)

// Name implements trigger.Provider.
func (Zendesk) Name() string { return "zendesk" }

// Verify implements trigger.Provider.
func (Zendesk) Verify(r trigger.Request, c trigger.Check) error {
	const header, timeHeader = "X-Zendesk-Webhook-Signature", "X-Zendesk-Webhook-Signature-Timestamp"
	at := r.Header.Get(timeHeader)
	if at == "" {
		return missing(timeHeader)
	}
	if err := signedBy(c, sha256.New, header, r.Header.Get(header), base64.StdEncoding.DecodeString, at, string(r.Body)); err != nil {
		return err
	}
	return freshIn(r, c, at, "rfc3339")
}

// Event implements trigger.Provider.
func (Zendesk) Event(r trigger.Request, _ trigger.Check) (trigger.Event, error) {
	id := r.Header.Get("X-Zendesk-Webhook-Invocation-Id")
	if len(bytes.TrimSpace(r.Body)) == 0 {
		return trigger.Event{ID: id, Body: json.RawMessage(`{}`)}, nil
	}
	fields, isForm, err := form(r)
	switch {
	case err != nil:
		return trigger.Event{}, err
	case !isForm:
		return jsonEvent(r, id)
	}
	body, err := formObject(fields)
	return trigger.Event{ID: id, Body: body}, err
}

// Sign implements trigger.Signer.
func (Zendesk) Sign(r *trigger.Request, c trigger.Check, id string) error {
	key, err := firstKey(c)
	if err != nil {
		return err
	}
	at := r.At.UTC().Format(time.RFC3339)
	preset(r, "X-Zendesk-Webhook-Invocation-Id", id)
	r.Header.Set("X-Zendesk-Webhook-Signature-Timestamp", at)
	r.Header.Set("X-Zendesk-Webhook-Signature", base64.StdEncoding.EncodeToString(mac256(key, at, string(r.Body))))
	return nil
}
