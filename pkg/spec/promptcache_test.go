package spec

import (
	"strings"
	"testing"
)

func TestModel_PromptCache(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{`timeout: 1m`: "", `promptCache: auto`: "", `promptCache: none`: PromptCacheNone} {
		if m, err := modelWith(text); err != nil || m.PromptCache != want {
			t.Errorf("%s: %q, %v; want %q", text, m.PromptCache, err, want)
		}
	}
	for _, text := range []string{`promptCache: off`, `promptCache: 1h`, `promptCache: false`, `promptCache: {ttl: 1h}`} {
		if _, err := modelWith(text); err == nil || !strings.Contains(err.Error(), "spec.promptCache") {
			t.Errorf("%s: %v, want it to name spec.promptCache", text, err)
		}
	}
}
