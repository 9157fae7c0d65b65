package webhook

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/holdfast-run/holdfast/services/trigger"
)

// GitHub signs the raw body, also a form's. It signs no time, so an old request
// is known by its delivery id alone. The SHA-1 header is not looked at.
//
// Source: GitHub docs, "Validating webhook deliveries".
type GitHub struct{}

var _ trigger.Provider = GitHub{}

// Name implements trigger.Provider.
func (GitHub) Name() string { return "github" }

// Verify implements trigger.Provider.
func (GitHub) Verify(r trigger.Request, c trigger.Check) error {
	const header = "X-Hub-Signature-256"
	keys, err := secrets(c)
	if err != nil {
		return err
	}
	value := r.Header.Get(header)
	if value == "" {
		return missing(header)
	}
	text, ok := strings.CutPrefix(value, "sha256=")
	sig, err := hex.DecodeString(text)
	if !ok || err != nil {
		return fmt.Errorf("%w: %s is not sha256=<hex>", trigger.ErrSignature, header)
	}
	var want [][]byte
	for _, key := range keys {
		want = append(want, mac256(key, string(r.Body)))
	}
	if !anyEqual(want, [][]byte{sig}) {
		return trigger.ErrSignature
	}
	return nil
}

// Event implements trigger.Provider.
func (GitHub) Event(r trigger.Request, _ trigger.Check) (trigger.Event, error) {
	var body json.RawMessage
	fields, isForm, err := form(r)
	switch {
	case err != nil:
		return trigger.Event{}, err
	case isForm && !fields.Has("payload"):
		return trigger.Event{}, trigger.Refuse(trigger.CodeInvalidJSON,
			`the form has no field payload; choose content type "application/json" or "application/x-www-form-urlencoded" in the webhook's settings at GitHub`)
	case isForm:
		body, err = formPayload(fields)
	default:
		body, err = jsonBody(r)
	}
	if err != nil {
		return trigger.Event{}, err
	}
	if r.Header.Get("X-GitHub-Event") == "ping" {
		return trigger.Event{Reply: json.RawMessage(`{"pong":true}`)}, nil
	}
	return trigger.Event{ID: r.Header.Get("X-GitHub-Delivery"), Body: body}, nil
}
