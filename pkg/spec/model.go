package spec

import (
	"fmt"
	"time"
)

// The APIs that models are reached through.
const (
	// ProviderAnthropic is Anthropic's Messages API.
	ProviderAnthropic = "anthropic"
	// ProviderOpenAIChat is OpenAI's Chat Completions API, and whatever speaks it
	// at a base URL of its own: vLLM, Ollama, gateways.
	ProviderOpenAIChat = "openai-chat"
	// ProviderOpenAIResponses is OpenAI's Responses API, without its memory.
	ProviderOpenAIResponses = "openai-responses"
)

// Values of Model.PromptCache.
const (
	PromptCacheAuto = "auto"
	PromptCacheNone = "none"
)

var modelProviders = []string{ProviderAnthropic, ProviderOpenAIChat, ProviderOpenAIResponses}

// Model says which model answers and how it is reached.
type Model struct {
	Metadata `json:"-"`
	Provider string `json:"provider"` // anthropic, openai-chat or openai-responses
	Model    string `json:"model"`    // the provider's name of the model
	// BaseURL overrides the provider's address, as Endpoint reads it. An environment
	// variable that is not set means the provider's own.
	BaseURL Setting   `json:"baseURL,omitzero"`
	APIKey  SecretRef `json:"apiKey"` // where the key is; the runner reads it
	// MaxTokens bounds one answer unless the agent says otherwise; default 1024.
	MaxTokens int64 `json:"maxTokens"`
	// Timeout bounds one request; default 120 s.
	Timeout Duration `json:"timeout"`
	// AllowHosts and TLS are as in Tool.
	AllowHosts []string `json:"allowHosts,omitempty"`
	TLS        *TLS     `json:"tls,omitempty"` // of the connection; absent: the system's authorities
	// PromptCache is "auto", the default, which lets the provider keep the beginning
	// of a conversation for its next request, or "none", which does not ask for it.
	PromptCache string `json:"promptCache,omitempty"`
	// Prices are of a million tokens; without them no cost is known.
	Prices *Prices `json:"prices,omitempty"`
	// Fallback names the Models that may go on with a run when this one fails, in
	// order.
	Fallback []string `json:"fallback,omitempty"`
	// Limits hold for all runs and runners of a namespace together.
	Limits *ModelLimits `json:"limits,omitempty"`
}

func (m *Model) fill() {
	if m.MaxTokens == 0 {
		m.MaxTokens = 1024
	}
	if m.Timeout == 0 {
		m.Timeout = Duration(120 * time.Second)
	}
	if m.PromptCache == PromptCacheAuto {
		m.PromptCache = "" // one version, said or not
	}
}

func (m *Model) check(d *decoder, s spot) {
	d.require(s.at("provider"), m.Provider != "", "\"anthropic\", \"openai-chat\" or \"openai-responses\"")
	d.require(s.at("model"), m.Model != "", "the provider's name of the model")
	d.require(s.at("apiKey"), !m.APIKey.IsZero(), "{env: NAME} or {file: PATH}")
	if m.Provider != "" {
		d.oneOf(s.at("provider"), m.Provider, modelProviders...)
	}
	d.text(s.at("model"), m.Model, 200)
	if m.BaseURL.Value != "" {
		if _, err := m.Endpoint(m.BaseURL.Value); err != nil {
			d.fail(s.at("baseURL"), "%s", err)
		}
	}
	d.between(s.at("maxTokens"), m.MaxTokens, 1, 1_000_000)
	d.within(s.at("timeout"), m.Timeout, time.Second, time.Hour)
	if m.PromptCache != "" {
		d.oneOf(s.at("promptCache"), m.PromptCache, PromptCacheAuto, PromptCacheNone)
	}
	m.TLS.check(d, s.at("tls"))
	d.allowHosts(s.at("allowHosts"), m.AllowHosts)
	m.Prices.check(d, s.at("prices"))
	m.Limits.check(d, s.at("limits"))
	d.nameList(s.at("fallback"), m.Fallback, 8)
	for i, name := range m.Fallback {
		if name == m.Name {
			d.fail(s.at("fallback", i), "a model cannot be its own fallback")
		}
	}
}

// References are the models that it falls back to.
func (m *Model) References() []Reference {
	var refs []Reference
	for i, name := range m.Fallback {
		refs = append(refs, Reference{Kind: KindModel, Name: name, Field: fmt.Sprintf("spec.fallback[%d]", i)})
	}
	return refs
}
