//go:build live

package model_test

import (
	"cmp"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/runner"
	"github.com/holdfast-run/holdfast/services/runner/model"
)

// TestLive_AToolCallAndItsResult has a real service call a tool and read its
// result: the history of an answer of its own must be one that it takes. It costs a
// few thousand tokens.
func TestLive_AToolCallAndItsResult(t *testing.T) {
	for name, tc := range map[string]struct{ provider, key, model, url string }{
		"anthropic":        {spec.ProviderAnthropic, "ANTHROPIC_API_KEY", "LIVE_ANTHROPIC_MODEL", "ANTHROPIC_BASE_URL"},
		"openai-chat":      {spec.ProviderOpenAIChat, "OPENAI_API_KEY", "LIVE_OPENAI_MODEL", "OPENAI_BASE_URL"},
		"openai-responses": {spec.ProviderOpenAIResponses, "OPENAI_API_KEY", "LIVE_OPENAI_MODEL", "OPENAI_BASE_URL"},
		"compatible":       {spec.ProviderOpenAIChat, "LIVE_COMPATIBLE_KEY", "LIVE_COMPATIBLE_MODEL", "LIVE_COMPATIBLE_URL"},
	} {
		t.Run(name, func(t *testing.T) {
			if os.Getenv(tc.key) == "" || os.Getenv(tc.model) == "" {
				t.Skipf("not asked: set %s and %s", tc.key, tc.model)
			}
			r := request(t, cmp.Or(os.Getenv(tc.url), "http://replaced"))
			m := *r.Model
			m.Provider, m.Model, m.Timeout = tc.provider, os.Getenv(tc.model), spec.Duration(2*time.Minute)
			m.APIKey.Env = tc.key
			if os.Getenv(tc.url) == "" {
				m.BaseURL = spec.Setting{}
			}
			r.Model, r.MaxTokens = &m, 4000
			r.System = "Use the tool look for the number that you are asked for, then answer with its result alone."
			r.Entries = []runner.Entry{{User: "What is behind id 7?"}}
			a := model.All(model.Env{LookupEnv: os.LookupEnv, ReadFile: os.ReadFile,
				Egress: egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})})
			first, err := a.Answer(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if len(first.Calls) != 1 || first.Calls[0].Tool != "look" || first.StopReason != runner.StopTools || first.Usage.Estimated && name != "compatible" {
				t.Fatalf("answer %+v", first)
			}
			r.Entries = append(r.Entries, runner.Entry{Assistant: first.Raw}, runner.Entry{Results: []runner.Result{{ProviderID: first.Calls[0].ProviderID, Text: "it is 4711"}}})
			second, err := a.Answer(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(second.Text, "4711") || second.StopReason != runner.StopEnd {
				t.Errorf("answer %+v", second)
			}
		})
	}
}
