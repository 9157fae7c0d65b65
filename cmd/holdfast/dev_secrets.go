package main

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast-run/holdfast/pkg/spec"
)

// devSecrets resolves what webhooks sign with, for "holdfast dev": a variable
// that is not set gets a secret made for this data directory, so that a first
// webhook needs no preparation. Nothing else is made up: a missing API key of a
// model stays missing.
type devSecrets struct{ dir string }

func (d *devSecrets) resolve(r spec.SecretRef) (string, error) {
	value, err := resolveSecret(r)
	if err == nil {
		return value, nil
	}
	if made, ok := d.made(r); ok {
		return made, nil
	}
	return "", err
}

// made returns the secret that stands in for r; ok is false when r names a
// variable that is set, or a file.
func (d *devSecrets) made(r spec.SecretRef) (secret string, ok bool) {
	if _, set := os.LookupEnv(r.Env); r.Env == "" || set {
		return "", false
	}
	key, err := d.key()
	if err != nil {
		return "", false
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprint(mac, r.Env)
	return "whsec_" + base64.StdEncoding.EncodeToString(mac.Sum(nil)), true
}

// key is what made secrets are derived from; it stays with the data.
func (d *devSecrets) key() ([]byte, error) {
	path := filepath.Join(d.dir, "dev-secret")
	if b, err := os.ReadFile(path); err == nil && len(b) > 0 {
		return b, nil
	}
	key := []byte(rand.Text())
	return key, os.WriteFile(path, key, 0o600)
}
