package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"

	"github.com/holdfast-run/holdfast/services/trigger"
)

// Linear signs the raw body. The time that counts is webhookTimestamp in the
// body, in milliseconds, which is signed; the header Linear-Timestamp is not, and
// is only looked at when the body has none.
//
// Source: Linear docs, "Webhooks", section "Securing webhooks".
type Linear struct{}

var (
	_ trigger.Provider = Linear{}
	_ trigger.Signer   = Linear{}
)

// Name implements trigger.Provider.
func (Linear) Name() string { return "linear" }

// Verify implements trigger.Provider.
func (Linear) Verify(r trigger.Request, c trigger.Check) error {
	const header, timeHeader = "Linear-Signature", "Linear-Timestamp"
	if err := signedBy(c, sha256.New, header, r.Header.Get(header), hex.DecodeString, string(r.Body)); err != nil {
		return err
	}
	var body struct {
		At json.Number `json:"webhookTimestamp"`
	}
	_ = json.Unmarshal(r.Body, &body) // a body that is no such object has no time; Event refuses what is not JSON
	at := firstOf(body.At.String(), r.Header.Get(timeHeader))
	if at == "" {
		return missing(timeHeader)
	}
	return freshIn(r, c, at, "ms")
}

// Event implements trigger.Provider.
func (Linear) Event(r trigger.Request, _ trigger.Check) (trigger.Event, error) {
	return jsonEvent(r, r.Header.Get("Linear-Delivery"))
}

// Sign implements trigger.Signer. The time is only signed when the body has one.
func (Linear) Sign(r *trigger.Request, c trigger.Check, id string) error {
	key, err := firstKey(c)
	if err != nil {
		return err
	}
	preset(r, "Linear-Delivery", id)
	r.Header.Set("Linear-Timestamp", strconv.FormatInt(r.At.UnixMilli(), 10))
	r.Header.Set("Linear-Signature", hex.EncodeToString(mac256(key, string(r.Body))))
	return nil
}
