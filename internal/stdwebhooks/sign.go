// Package stdwebhooks signs what is posted and reads the keys that it is
// signed with, as the Standard Webhooks specification has it. It keeps no state.
//
// Source: Standard Webhooks spec, "Signature scheme": v1 is base64 of HMAC-SHA256
// over msg_id.timestamp.payload; v1a is ed25519.
package stdwebhooks

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers of a signed request.
const (
	HeaderID        = "webhook-id"        // the same in every attempt
	HeaderTimestamp = "webhook-timestamp" // of the attempt, in Unix seconds
	HeaderSignature = "webhook-signature" // one entry per key, separated by spaces
)

// Key is a secret, decoded: an HMAC key, or, when Public is not nil, a public
// key, which can only verify.
type Key struct {
	HMAC   []byte
	Public ed25519.PublicKey
}

var errPublic = errors.New("it is a public key, which cannot sign")

// ParseKey decodes a secret: whsec_ and base64, whpk_ and base64, or base64
// alone. A private key (whsk_) is taken for its public half. No error holds any
// part of the secret.
func ParseKey(secret string) (Key, error) {
	prefix, text := "", secret
	if i := strings.IndexByte(secret, '_'); i >= 0 {
		prefix, text = secret[:i+1], secret[i+1:]
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) == 0 {
		return Key{}, fmt.Errorf("it is not whsec_ or whpk_ and base64")
	}
	switch {
	case prefix == "whpk_" && len(raw) == ed25519.PublicKeySize:
		return Key{Public: raw}, nil
	case prefix == "whsk_" && len(raw) == ed25519.PrivateKeySize:
		return Key{Public: ed25519.PrivateKey(raw).Public().(ed25519.PublicKey)}, nil
	case prefix == "whpk_" || prefix == "whsk_":
		return Key{}, fmt.Errorf("the key has %d bytes", len(raw))
	}
	return Key{HMAC: raw}, nil
}

// Signed is the text that is signed. id must hold no full stop: it would let one
// text be read as another id and time.
func Signed(id, timestamp string, body []byte) []byte {
	return append([]byte(id+"."+timestamp+"."), body...)
}

// MAC is the v1 signature of a text.
func MAC(key, signed []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(signed) // never fails
	return h.Sum(nil)
}

// Sign sets the three headers: one v1 signature for each key, in their order. At
// least one key is needed, and each must be able to sign.
func Sign(h http.Header, keys []Key, id string, at time.Time, body []byte) error {
	if len(keys) == 0 {
		return errors.New("there is no key to sign with")
	}
	timestamp := strconv.FormatInt(at.Unix(), 10)
	signed := Signed(id, timestamp, body)
	signatures := make([]string, 0, len(keys))
	for _, k := range keys {
		if k.HMAC == nil {
			return errPublic
		}
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(MAC(k.HMAC, signed)))
	}
	h.Set(HeaderID, id)
	h.Set(HeaderTimestamp, timestamp)
	h.Set(HeaderSignature, strings.Join(signatures, " "))
	return nil
}
