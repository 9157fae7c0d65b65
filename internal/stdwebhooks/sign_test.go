package stdwebhooks

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// The vector is the specification's own.
// Source: github.com/standard-webhooks/standard-webhooks, libraries' tests.
func TestSign_PublishedVector(t *testing.T) {
	t.Parallel()
	key, err := ParseKey("whsec_plJ3nmyCDGBKInavdOK15jsl")
	if err != nil {
		t.Fatal(err)
	}
	other, err := ParseKey("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	body := []byte(`{"event_type":"ping","data":{"success":true}}`)
	if err := Sign(h, []Key{key, other}, "msg_loFOjxBNrRLzqYUf", time.Unix(1731705121, 0), body); err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(h.Get(HeaderSignature))
	if len(got) != 2 || got[0] != "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=" || got[1] == got[0] {
		t.Errorf("signatures %q", got)
	}
	if h.Get(HeaderID) != "msg_loFOjxBNrRLzqYUf" || h.Get(HeaderTimestamp) != "1731705121" {
		t.Errorf("headers %v", h)
	}
}

func TestSign_RefusesWhatCannotSign(t *testing.T) {
	t.Parallel()
	public, err := ParseKey("whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=")
	if err != nil {
		t.Fatal(err)
	}
	for name, keys := range map[string][]Key{"no key": nil, "a public key": {public}} {
		h := http.Header{}
		if err := Sign(h, keys, "id", time.Unix(1, 0), nil); err == nil || len(h) != 0 {
			t.Errorf("%s: %v, headers %v", name, err, h)
		}
	}
	for _, secret := range []string{"", "whsec_", "not base64!", "whpk_AAAA"} {
		if _, err := ParseKey(secret); err == nil {
			t.Errorf("%q is taken for a key", secret)
		} else if len(secret) > 8 && strings.Contains(err.Error(), secret[6:]) {
			t.Errorf("the error shows the secret: %v", err)
		}
	}
}
