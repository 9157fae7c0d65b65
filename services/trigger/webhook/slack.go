package webhook

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/holdfast-run/holdfast/services/trigger"
)

// Slack signs "v0:time:body". Events are JSON and known by their event_id;
// commands and interactions are forms and known by their trigger_id.
// X-Slack-Retry-Num is no id: a retry may be the first that arrives.
//
// Source: Slack docs, "Verifying requests from Slack".
type Slack struct{}

var _ trigger.Provider = Slack{}

// Name implements trigger.Provider.
func (Slack) Name() string { return "slack" }

// Verify implements trigger.Provider.
func (Slack) Verify(r trigger.Request, c trigger.Check) error {
	const header, timeHeader = "X-Slack-Signature", "X-Slack-Request-Timestamp"
	keys, err := secrets(c)
	if err != nil {
		return err
	}
	value, at := r.Header.Get(header), r.Header.Get(timeHeader)
	switch {
	case value == "":
		return missing(header)
	case at == "":
		return missing(timeHeader)
	}
	text, ok := strings.CutPrefix(value, "v0=")
	sig, err := hex.DecodeString(text)
	if !ok || err != nil {
		return fmt.Errorf("%w: %s is not v0=<hex>", trigger.ErrSignature, header)
	}
	var want [][]byte
	for _, key := range keys {
		want = append(want, mac256(key, "v0:", at, ":", string(r.Body)))
	}
	if !anyEqual(want, [][]byte{sig}) {
		return trigger.ErrSignature
	}
	return fresh(r, c, at)
}

// Event implements trigger.Provider.
func (Slack) Event(r trigger.Request, _ trigger.Check) (trigger.Event, error) {
	fields, isForm, err := form(r)
	if err != nil {
		return trigger.Event{}, err
	}
	if !isForm {
		body, err := jsonBody(r)
		if err != nil {
			return trigger.Event{}, err
		}
		if member(body, "type") == "url_verification" {
			reply, err := json.Marshal(map[string]string{"challenge": member(body, "challenge")})
			return trigger.Event{Reply: reply}, err
		}
		return trigger.Event{ID: member(body, "event_id"), Body: body}, nil
	}
	var body json.RawMessage
	switch {
	case fields.Has("ssl_check"): // Slack asks now and then whether the address still answers
		return trigger.Event{Reply: json.RawMessage(`{}`)}, nil
	case fields.Has("payload"): // interactivity
		body, err = formPayload(fields)
	case fields.Has("command"):
		body, err = formObject(fields)
	default:
		return trigger.Event{}, trigger.Refuse(trigger.CodeInvalidJSON,
			"the form has neither a field payload nor a field command; is this request from Slack?")
	}
	if err != nil {
		return trigger.Event{}, err
	}
	return trigger.Event{ID: member(body, "trigger_id"), Body: body}, nil
}
