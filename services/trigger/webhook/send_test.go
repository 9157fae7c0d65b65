package webhook_test

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/trigger"
	"github.com/holdfast-run/holdfast/services/trigger/webhook"
)

// Every provider signs what its Verify takes, and not what was changed after.
func TestSign_IsWhatVerifyTakes(t *testing.T) {
	t.Parallel()
	whsec := "whsec_" + base64.StdEncoding.EncodeToString([]byte("thirty-two bytes of secret, really"))
	checks := map[string][]trigger.Check{
		"standard": {{Secrets: []string{whsec}}},
		"gitlab":   {{Secrets: []string{"plain"}}, {Secrets: []string{whsec}}},
		"basic":    {{Secrets: []string{"user:pass"}}},
		"hubspot":  {{Secrets: []string{"s"}, PublicURL: "https://example.com/hooks/h"}},
		"twilio":   {{Secrets: []string{"s"}, PublicURL: "https://example.com/hooks/h"}},
		"bearer":   {{Secrets: []string{"s"}}, {Secrets: []string{"s"}, HMAC: spec.Signature{Header: "X-Key", Prefix: "k="}}},
		"generic": {{Secrets: []string{"s"}}, {Secrets: []string{"s"}, PublicURL: "https://example.com/h", HMAC: spec.Signature{
			Header: "X-Sig", Prefix: "v=", Encoding: "base64", Algorithm: "sha512", Signed: "{method} {url} {timestamp} {id} {body}",
			TimestampHeader: "X-Time", TimestampUnit: "rfc3339", IDHeader: "X-Id"}}},
		"none": {{}},
	}
	carried := map[string]bool{"gitlab": true, "bearer": true, "basic": true, "alertmanager": true, "none": true} // a token, not a signature
	for _, p := range webhook.All() {
		cases := checks[p.Name()]
		if cases == nil {
			cases = []trigger.Check{{Secrets: []string{"s"}}}
		}
		signer, ok := p.(trigger.Signer)
		if !ok {
			t.Errorf("%s cannot sign", p.Name())
			continue
		}
		for _, c := range cases {
			r := trigger.Request{Method: "POST", Header: http.Header{"Content-Type": {"application/json"}}, Query: url.Values{"a": {"b c"}}, RawQuery: "a=b+c",
				Body: []byte(`{"id":"evt_1","n":12345678901234567890.123}`), At: time.Now()}
			if p.Name() == "twilio" { // signs a form's fields
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				r.Body = []byte("From=%2B1415&Digits=1234")
			}
			if err := signer.Sign(&r, c, "id-1"); err != nil {
				t.Errorf("%s: %v", p.Name(), err)
				continue
			}
			if err := p.Verify(r, c); err != nil {
				t.Errorf("%s: verify: %v", p.Name(), err)
			}
			if _, err := p.Event(r, c); err != nil {
				t.Errorf("%s: event: %v", p.Name(), err)
			}
			r.Body = append(r.Body, '0')
			if err := p.Verify(r, c); !carried[p.Name()] && !errors.Is(err, trigger.ErrSignature) {
				t.Errorf("%s: a changed body: %v", p.Name(), err)
			}
			if c.Secrets != nil {
				if err := signer.Sign(&r, trigger.Check{HMAC: c.HMAC, PublicURL: c.PublicURL}, "id-1"); err == nil {
					t.Errorf("%s signs without a secret", p.Name())
				}
			}
		}
	}
}

func TestSign_NotByAPublicKey(t *testing.T) {
	t.Parallel()
	r := trigger.Request{Header: http.Header{}, Body: []byte(`{}`), At: time.Now()}
	c := trigger.Check{Secrets: []string{"whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="}}
	if err := (webhook.Standard{}).Sign(&r, c, "id"); err == nil {
		t.Error("a public key signs")
	}
}
