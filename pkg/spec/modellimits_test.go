package spec

import (
	"strings"
	"testing"
)

func TestModelLimits(t *testing.T) {
	t.Parallel()
	m, err := modelWith(`limits: {requestsPerMinute: 50, tokensPerMinute: 40000}`)
	if err != nil || *m.Limits != (ModelLimits{RequestsPerMinute: 50, TokensPerMinute: 40000}) {
		t.Errorf("%+v, %v", m, err)
	}
	for text, want := range map[string]string{
		`limits: {}`:                            "limits nothing",
		`limits: {requestsPerMinute: 0}`:        "limits nothing",
		`limits: {requestsPerMinute: -1}`:       "spec.limits.requestsPerMinute",
		`limits: {requestsPerMinute: 1.5}`:      "spec.limits.requestsPerMinute",
		`limits: {requestsPerMinute: 10/s}`:     "spec.limits.requestsPerMinute",
		`limits: {tokensPerMinute: 1000000001}`: "spec.limits.tokensPerMinute",
		`limits: {rate: 10/s}`:                  "rate",
		`limits: 10`:                            "spec.limits",
	} {
		if _, err := modelWith(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want it to name %q", text, err, want)
		}
	}
}
