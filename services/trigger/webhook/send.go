package webhook

import (
	"encoding/hex"
	"strconv"

	"github.com/holdfast-run/holdfast/internal/stdwebhooks"
	"github.com/holdfast-run/holdfast/services/trigger"
)

// Test-sends: each provider signs as its sender does. What it signs, its Verify
// takes.
var (
	_ trigger.Signer = Standard{}
	_ trigger.Signer = GitHub{}
	_ trigger.Signer = Stripe{}
	_ trigger.Signer = Slack{}
	_ trigger.Signer = None{}
)

// firstKey is the secret that a test-send signs with.
func firstKey(c trigger.Check) ([]byte, error) {
	keys, err := secrets(c)
	if err != nil {
		return nil, err
	}
	return keys[0], nil
}

func unix(r *trigger.Request) string { return strconv.FormatInt(r.At.Unix(), 10) }

// preset sets a header that the caller has not set.
func preset(r *trigger.Request, name, value string) {
	if r.Header.Get(name) == "" {
		r.Header.Set(name, value)
	}
}

// Sign implements trigger.Signer. It cannot sign by a public key.
func (Standard) Sign(r *trigger.Request, c trigger.Check, id string) error {
	if len(c.Secrets) == 0 {
		return errNoSecret
	}
	key, err := stdwebhooks.ParseKey(c.Secrets[0])
	if err != nil {
		return err
	}
	preset(r, stdwebhooks.HeaderID, id)
	return stdwebhooks.Sign(r.Header, []stdwebhooks.Key{key}, r.Header.Get(stdwebhooks.HeaderID), r.At, r.Body)
}

// Sign implements trigger.Signer.
func (GitHub) Sign(r *trigger.Request, c trigger.Check, id string) error {
	key, err := firstKey(c)
	if err != nil {
		return err
	}
	preset(r, "X-GitHub-Event", "push")
	preset(r, "X-GitHub-Delivery", id)
	r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac256(key, string(r.Body))))
	return nil
}

// Sign implements trigger.Signer. The id is the body's.
func (Stripe) Sign(r *trigger.Request, c trigger.Check, _ string) error {
	key, err := firstKey(c)
	if err != nil {
		return err
	}
	at := unix(r)
	r.Header.Set("Stripe-Signature", "t="+at+",v1="+hex.EncodeToString(mac256(key, at, ".", string(r.Body))))
	return nil
}

// Sign implements trigger.Signer. The id is the body's.
func (Slack) Sign(r *trigger.Request, c trigger.Check, _ string) error {
	key, err := firstKey(c)
	if err != nil {
		return err
	}
	at := unix(r)
	r.Header.Set("X-Slack-Request-Timestamp", at)
	r.Header.Set("X-Slack-Signature", "v0="+hex.EncodeToString(mac256(key, "v0:", at, ":", string(r.Body))))
	return nil
}

// Sign implements trigger.Signer: there is nothing to sign.
func (None) Sign(*trigger.Request, trigger.Check, string) error { return nil }
