package spec

import (
	"fmt"
	"strings"
	"testing"
)

func TestModel_Endpoint(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ text, anthropic, openAI string }{
		{"https://h", "https://h/", "https://h/v1/"},
		{"https://h/", "https://h/", "https://h/v1/"},
		{"https://h/v1", "https://h/", "https://h/v1/"},
		{"https://h/v1/", "https://h/", "https://h/v1/"},
		{"http://h:8000//", "http://h:8000/", "http://h:8000/v1/"},
		{"https://h/team/a", "https://h/team/a/", "https://h/team/a/"},
		{"https://h/team/a/v1/", "https://h/team/a/", "https://h/team/a/v1/"},
		{"https://h/api/v2", "https://h/api/v2/", "https://h/api/v2/"},
		{"https://h/a%2Fb", "https://h/a%2Fb/", "https://h/a%2Fb/"},
		{"http://[::1]:9/v1", "http://[::1]:9/", "http://[::1]:9/v1/"},
	} {
		for provider, want := range map[string]string{ProviderAnthropic: tc.anthropic, ProviderOpenAIChat: tc.openAI, ProviderOpenAIResponses: tc.openAI} {
			if got, err := (&Model{Provider: provider}).Endpoint(tc.text); err != nil || got != want {
				t.Errorf("%s, %s: %q, %v; want %q", provider, tc.text, got, err, want)
			}
		}
	}
}

func TestModel_BaseURLThatMakesNoSense(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ provider, text, want string }{
		{ProviderAnthropic, "https://h/v1/messages", "must not end in /v1/messages"},
		{ProviderOpenAIChat, "https://h/v1/chat/completions/", "must not end in /chat/completions"},
		{ProviderOpenAIResponses, "https://h/v1/responses", "must not end in /responses"},
		{ProviderOpenAIChat, "https://h/v1?api-version=1", "a query or a fragment"},
		{ProviderOpenAIChat, "https://h/v1?", "a query or a fragment"},
		{ProviderAnthropic, "https://h/#x", "a query or a fragment"},
		{ProviderAnthropic, "https://h/#", "a query or a fragment"},
		{ProviderAnthropic, "https://h/a//b", "an empty segment"},
		{ProviderAnthropic, "https://h/a/../b", "must not hold the segment"},
		{ProviderAnthropic, "api.anthropic.com", "must begin with http:// or https://"},
		{ProviderAnthropic, "https://user:pw@h", "a user or password"},
		{ProviderAnthropic, "https://", "names no host"},
	} {
		_, err := Parse("m.yaml", fmt.Appendf(nil, "apiVersion: holdfast/v1\nkind: Model\nmetadata: {name: m}\nspec: {provider: %s, model: x, apiKey: {env: K}, baseURL: %q}\n", tc.provider, tc.text))
		if err == nil || !strings.Contains(err.Error(), "spec.baseURL") || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v; want spec.baseURL and %q", tc.text, err, tc.want)
		}
	}
}
