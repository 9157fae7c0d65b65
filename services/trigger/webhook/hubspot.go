package webhook

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/trigger"
)

// HubSpot signs method, public address, body and time (v3). The older headers,
// which sign no time, are not looked at. A delivery is a list of events, each
// known by itself: a retry may come in another list.
//
// Source: HubSpot docs, "Validating requests", section v3: some escapes of the
// address are decoded before it is signed.
type HubSpot struct{}

var (
	_ trigger.Provider = HubSpot{}
	_ trigger.Signer   = HubSpot{}
)

// Name implements trigger.Provider.
func (HubSpot) Name() string { return "hubspot" }

// hubspotEscapes are the escapes that HubSpot decodes.
var hubspotEscapes = strings.NewReplacer("%3A", ":", "%2F", "/", "%3F", "?", "%40", "@", "%21", "!", "%24", "$",
	"%27", "'", "%28", "(", "%29", ")", "%2A", "*", "%2C", ",", "%3B", ";",
	"%3a", ":", "%2f", "/", "%3f", "?", "%2a", "*", "%2c", ",", "%3b", ";")

// Verify implements trigger.Provider.
func (HubSpot) Verify(r trigger.Request, c trigger.Check) error {
	const header, timeHeader = "X-HubSpot-Signature-v3", "X-HubSpot-Request-Timestamp"
	address, err := publicURL(r, c)
	if err != nil {
		return err
	}
	at := r.Header.Get(timeHeader)
	if at == "" {
		return missing(timeHeader)
	}
	err = signedBy(c, sha256.New, header, r.Header.Get(header), base64.StdEncoding.DecodeString,
		r.Method, hubspotEscapes.Replace(address), string(r.Body), at)
	if err != nil {
		return err
	}
	return freshIn(r, c, at, "ms")
}

// Event implements trigger.Provider.
func (HubSpot) Event(r trigger.Request, _ trigger.Check) (trigger.Event, error) {
	event, err := jsonEvent(r, "")
	if err != nil {
		return trigger.Event{}, err
	}
	var list []json.RawMessage
	if json.Unmarshal(event.Body, &list) != nil || list == nil {
		event.ID, err = hubspotID(event.Body)
		return event, err
	}
	event.Items = []trigger.Event{}
	var ids []byte
	for _, body := range list {
		id, err := hubspotID(body)
		if err != nil {
			return trigger.Event{}, err
		}
		event.Items = append(event.Items, trigger.Event{ID: id, Body: body})
		ids = append(append(ids, id...), '\n')
	}
	event.ID = string(events.DigestOf(ids))
	return event, nil
}

// hubspotID names one event. Its eventId alone is not unique by HubSpot's own
// word, and attemptNumber changes with each retry; everything else is the same.
func hubspotID(body json.RawMessage) (string, error) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil || fields == nil {
		return string(events.DigestOf(bytes.TrimSpace(body))), nil
	}
	id := string(fields["eventId"])
	delete(fields, "attemptNumber")
	rest, err := events.Marshal(fields)
	if err != nil {
		return "", err
	}
	canonical, err := events.Canonical(rest)
	if err != nil {
		return "", trigger.Refuse(trigger.CodeInvalidText, "body: %w", err)
	}
	return strings.Trim(id, `"`) + "/" + string(events.DigestOf(canonical)), nil
}

// Sign implements trigger.Signer. The ids are the body's.
func (HubSpot) Sign(r *trigger.Request, c trigger.Check, _ string) error {
	key, err := firstKey(c)
	if err != nil {
		return err
	}
	address, err := publicURL(*r, c)
	if err != nil {
		return err
	}
	at := strconv.FormatInt(r.At.UnixMilli(), 10)
	r.Header.Set("X-HubSpot-Request-Timestamp", at)
	r.Header.Set("X-HubSpot-Signature-v3", base64.StdEncoding.EncodeToString(
		mac256(key, firstOf(r.Method, http.MethodPost), hubspotEscapes.Replace(address), string(r.Body), at)))
	return nil
}
