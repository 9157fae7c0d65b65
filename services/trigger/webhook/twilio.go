package webhook

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/holdfast-run/holdfast/services/trigger"
)

// Twilio signs its public address with the form's fields behind it, sorted. When
// the body is not a form, the address has its digest in bodySHA256 and is signed
// alone. It signs no time. An answer is TwiML: an empty one asks for nothing.
//
// Source: Twilio docs, "Webhooks security".
type Twilio struct{}

var (
	_ trigger.Provider = Twilio{}
	_ trigger.Signer   = Twilio{}
)

// Name implements trigger.Provider.
func (Twilio) Name() string { return "twilio" }

// Verify implements trigger.Provider.
func (Twilio) Verify(r trigger.Request, c trigger.Check) error {
	const header = "X-Twilio-Signature"
	address, err := publicURL(r, c)
	if err != nil {
		return err
	}
	signed, err := twilioText(r, address)
	if err != nil {
		return err
	}
	return signedBy(c, sha1.New, header, r.Header.Get(header), base64.StdEncoding.DecodeString, signed)
}

// twilioText is what Twilio signs of a request.
func twilioText(r trigger.Request, address string) (string, error) {
	if digest := r.Query.Get("bodySHA256"); digest != "" {
		want, err := hex.DecodeString(digest)
		if sum := sha256.Sum256(r.Body); err != nil || !hmac.Equal(want, sum[:]) {
			return "", fmt.Errorf("%w: bodySHA256 is not the digest of the body", trigger.ErrSignature)
		}
		return address, nil
	}
	fields, isForm, err := form(r)
	if err != nil || !isForm && len(r.Body) > 0 {
		return "", fmt.Errorf("%w: the body is neither a form nor covered by bodySHA256", trigger.ErrSignature)
	}
	return address + joinFields(fields), nil
}

func joinFields(fields url.Values) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		values := slices.Sorted(slices.Values(fields[name]))
		for _, value := range slices.Compact(values) {
			b.WriteString(name + value)
		}
	}
	return b.String()
}

// Event implements trigger.Provider.
func (Twilio) Event(r trigger.Request, _ trigger.Check) (trigger.Event, error) {
	event := trigger.Event{
		ID:     r.Header.Get("I-Twilio-Idempotency-Token"),
		Thanks: &trigger.Thanks{ContentType: "text/xml; charset=utf-8", Body: `<?xml version="1.0" encoding="UTF-8"?><Response/>`},
	}
	fields, isForm, err := form(r)
	switch {
	case err != nil:
	case isForm:
		event.Body, err = formObject(fields)
	default:
		event.Body, err = jsonBody(r)
	}
	return event, err
}

// Sign implements trigger.Signer. A body that is not a form must come with its
// digest in the query.
func (Twilio) Sign(r *trigger.Request, c trigger.Check, id string) error {
	key, err := firstKey(c)
	if err != nil {
		return err
	}
	address, err := publicURL(*r, c)
	if err != nil {
		return err
	}
	signed, err := twilioText(*r, address)
	if err != nil {
		return err
	}
	preset(r, "I-Twilio-Idempotency-Token", id)
	r.Header.Set("X-Twilio-Signature", base64.StdEncoding.EncodeToString(mac(sha1.New, key, signed)))
	return nil
}
