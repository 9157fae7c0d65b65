package webhook

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"strings"

	"github.com/holdfast-run/holdfast/services/trigger"
)

// Generic is any sender that signs with a plain HMAC: header, prefix, encoding
// and algorithm are the webhook's. It knows an id only where the webhook names
// its header.
type Generic struct{}

var _ trigger.Provider = Generic{}

// defaultPrefix stands before most senders' signatures. A webhook that names no
// prefix takes them with and without it.
const defaultPrefix = "sha256="

// DefaultHeader is where Generic looks for the signature when the webhook names
// no header.
const DefaultHeader = "X-Signature"

// Name implements trigger.Provider.
func (Generic) Name() string { return "generic" }

// Verify implements trigger.Provider.
func (Generic) Verify(r trigger.Request, c trigger.Check) error {
	keys, err := secrets(c)
	if err != nil {
		return err
	}
	var newHash func() hash.Hash
	switch c.HMAC.Algorithm {
	case "", "sha256":
		newHash = sha256.New
	case "sha1":
		newHash = sha1.New
	case "sha512":
		newHash = sha512.New
	default:
		return fmt.Errorf("algorithm %q is not sha1, sha256 or sha512", c.HMAC.Algorithm)
	}
	decode := hex.DecodeString
	switch c.HMAC.Encoding {
	case "", "hex":
	case "base64":
		decode = base64.StdEncoding.DecodeString
	default:
		return fmt.Errorf("encoding %q is not hex or base64", c.HMAC.Encoding)
	}
	header := c.HMAC.Header
	if header == "" {
		header = DefaultHeader
	}
	value := r.Header.Get(header)
	if value == "" {
		return missing(header)
	}
	prefix := c.HMAC.Prefix
	if prefix == "" && strings.HasPrefix(value, defaultPrefix) {
		prefix = defaultPrefix
	}
	text, ok := strings.CutPrefix(value, prefix)
	sig, err := decode(text)
	if !ok || err != nil {
		return fmt.Errorf("%w: %s is not in the encoding of this webhook", trigger.ErrSignature, header)
	}
	at := ""
	signed := string(r.Body)
	if c.HMAC.TimestampHeader != "" {
		if at = r.Header.Get(c.HMAC.TimestampHeader); at == "" {
			return missing(c.HMAC.TimestampHeader)
		}
		signed = at + "." + signed
	}
	var want [][]byte
	for _, key := range keys {
		want = append(want, mac(newHash, key, signed))
	}
	if !anyEqual(want, [][]byte{sig}) {
		return trigger.ErrSignature
	}
	if at != "" {
		return fresh(r, c, at)
	}
	return nil
}

// Event implements trigger.Provider. The id comes from the webhook's own
// definition: its dedupe expression, or the header it names.
func (Generic) Event(r trigger.Request) (trigger.Event, error) {
	body, err := jsonBody(r)
	if err != nil {
		return trigger.Event{}, err
	}
	return trigger.Event{Body: body}, nil
}
