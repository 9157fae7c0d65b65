package trigger

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// The names that are secret, as a pattern: what secretName finds by hand.
var secretPattern = regexp.MustCompile(`(?i)auth|cookie|token|secret|signature|hmac|passw|credential|session|jwt|csrf|api[-_]?key|access[-_]?key|^key$|^sig$|^code$|^state$`)

func TestSecretName_AsPattern(t *testing.T) {
	t.Parallel()
	parts := append([]string{"x", "-", "_", "api", "access", "k", "ke", "Key", "\u212aey", "\u017fecret", "Sig", "é", "my", "webhook"}, append(secretParts, secretWords...)...)
	rnd := rand.New(rand.NewPCG(3, 4))
	secret := 0
	for range 50_000 {
		var name string
		for range 1 + rnd.IntN(3) {
			part := parts[rnd.IntN(len(parts))]
			switch rnd.IntN(3) {
			case 0:
				part = strings.ToUpper(part)
			case 1:
				part = part[:rnd.IntN(len(part)+1)]
			}
			name += part
		}
		want := secretPattern.MatchString(name)
		if got := secretName(name); got != want {
			t.Fatalf("%q is secret: %v, want %v", name, got, want)
		}
		if want {
			secret++
		}
	}
	if secret < 1000 || secret > 49_000 {
		t.Errorf("%d of 50000 names were secret: too few to tell", secret)
	}
	if secretName("I-Twilio-Idempotency-Token") {
		t.Error("an id is taken for a secret")
	}
}
