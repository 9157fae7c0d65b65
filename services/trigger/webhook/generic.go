package webhook

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/services/trigger"
)

// Generic is any sender that signs with a plain HMAC. Where the signature
// stands, what it is over and where time and id are is the webhook's own word.
type Generic struct{}

var (
	_ trigger.Provider = Generic{}
	_ trigger.Signer   = Generic{}
)

// defaultPrefix stands before most senders' signatures. A webhook that names no
// prefix takes them with and without it.
const defaultPrefix = "sha256="

// DefaultHeader is where Generic looks for the signature when the webhook names
// no header.
const DefaultHeader = "X-Signature"

// Name implements trigger.Provider.
func (Generic) Name() string { return "generic" }

var hashes = map[string]func() hash.Hash{"": sha256.New, "sha1": sha1.New, "sha256": sha256.New, "sha512": sha512.New}

var encodings = map[string]func(string) ([]byte, error){
	"": hex.DecodeString, "hex": hex.DecodeString, "base64": base64.StdEncoding.DecodeString,
}

// Verify implements trigger.Provider.
func (Generic) Verify(r trigger.Request, c trigger.Check) error {
	newHash, ok := hashes[c.HMAC.Algorithm]
	if !ok {
		return fmt.Errorf("algorithm %q is not sha1, sha256 or sha512", c.HMAC.Algorithm)
	}
	decode, ok := encodings[c.HMAC.Encoding]
	if !ok {
		return fmt.Errorf("encoding %q is not hex or base64", c.HMAC.Encoding)
	}
	header := firstOf(c.HMAC.Header, DefaultHeader)
	value := r.Header.Get(header)
	prefix := c.HMAC.Prefix
	if prefix == "" && strings.HasPrefix(value, defaultPrefix) {
		prefix = defaultPrefix
	}
	text, ok := strings.CutPrefix(value, prefix)
	if !ok && value != "" {
		return fmt.Errorf("%w: %s is not in the encoding of this webhook", trigger.ErrSignature, header)
	}
	signed, at, err := signedText(r, c)
	if err != nil {
		return err
	}
	if err := signedBy(c, newHash, header, text, decode, signed); err != nil || at == "" {
		return err
	}
	return freshIn(r, c, at, firstOf(c.HMAC.TimestampUnit, "s"))
}

// signedText fills the webhook's template of what is signed, and returns the
// time in it.
func signedText(r trigger.Request, c trigger.Check) (text, at string, err error) {
	template := c.HMAC.Signed
	if template == "" {
		template = "{body}"
		if c.HMAC.TimestampHeader != "" {
			template = "{timestamp}.{body}"
		}
	}
	if c.HMAC.TimestampHeader != "" {
		if at = r.Header.Get(c.HMAC.TimestampHeader); at == "" {
			return "", "", missing(c.HMAC.TimestampHeader)
		}
	}
	id := ""
	if c.HMAC.IDHeader != "" {
		if id = r.Header.Get(c.HMAC.IDHeader); id == "" {
			return "", "", missing(c.HMAC.IDHeader)
		}
	}
	address := ""
	if strings.Contains(template, "{url}") {
		if address, err = publicURL(r, c); err != nil {
			return "", "", err
		}
	}
	return strings.NewReplacer("{method}", r.Method, "{url}", address, "{timestamp}", at, "{id}", id, "{body}", string(r.Body)).Replace(template), at, nil
}

// Event implements trigger.Provider. Without an id header, an id comes only from
// the webhook's dedupe expression.
func (Generic) Event(r trigger.Request, c trigger.Check) (trigger.Event, error) {
	id := ""
	if c.HMAC.IDHeader != "" {
		id = r.Header.Get(c.HMAC.IDHeader)
	}
	return jsonEvent(r, id)
}

// Sign implements trigger.Signer.
func (Generic) Sign(r *trigger.Request, c trigger.Check, id string) error {
	key, err := firstKey(c)
	if err != nil {
		return err
	}
	newHash, encode := hashes[c.HMAC.Algorithm], hex.EncodeToString
	if c.HMAC.Encoding == "base64" {
		encode = base64.StdEncoding.EncodeToString
	}
	if newHash == nil {
		return fmt.Errorf("algorithm %q is not sha1, sha256 or sha512", c.HMAC.Algorithm)
	}
	if c.HMAC.IDHeader != "" {
		preset(r, c.HMAC.IDHeader, id)
	}
	if header := c.HMAC.TimestampHeader; header != "" {
		switch c.HMAC.TimestampUnit {
		case "ms":
			r.Header.Set(header, strconv.FormatInt(r.At.UnixMilli(), 10))
		case "rfc3339":
			r.Header.Set(header, r.At.UTC().Format(time.RFC3339))
		default:
			r.Header.Set(header, unix(r))
		}
	}
	signed, _, err := signedText(*r, c)
	if err != nil {
		return err
	}
	r.Header.Set(firstOf(c.HMAC.Header, DefaultHeader), c.HMAC.Prefix+encode(mac(newHash, key, signed)))
	return nil
}
