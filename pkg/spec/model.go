package spec

import "time"

// ProviderAnthropic is Anthropic's Messages API.
const ProviderAnthropic = "anthropic"

// Model says which model answers and how it is reached.
type Model struct {
	Metadata `json:"-"`
	Provider string `json:"provider"`
	Model    string `json:"model"` // the provider's name of the model
	// BaseURL overrides the provider's address. An environment variable that is
	// not set means the provider's own.
	BaseURL Setting   `json:"baseURL,omitzero"`
	APIKey  SecretRef `json:"apiKey"`
	// MaxTokens bounds one answer unless the agent says otherwise; default 1024.
	MaxTokens int64 `json:"maxTokens"`
	// Timeout bounds one request; default 120 s.
	Timeout Duration `json:"timeout"`
	// AllowHosts and TLS are as in Tool.
	AllowHosts []string `json:"allowHosts,omitempty"`
	TLS        *TLS     `json:"tls,omitempty"`
}

func (m *Model) fill() {
	if m.MaxTokens == 0 {
		m.MaxTokens = 1024
	}
	if m.Timeout == 0 {
		m.Timeout = Duration(120 * time.Second)
	}
}

func (m *Model) check(d *decoder, s spot) {
	d.require(s.at("provider"), m.Provider != "", "\"anthropic\"")
	d.require(s.at("model"), m.Model != "", "the provider's name of the model")
	d.require(s.at("apiKey"), !m.APIKey.IsZero(), "{env: NAME} or {file: PATH}")
	if m.Provider != "" {
		d.oneOf(s.at("provider"), m.Provider, ProviderAnthropic)
	}
	d.text(s.at("model"), m.Model, 200)
	if m.BaseURL.Value != "" {
		if _, err := checkURL(m.BaseURL.Value); err != nil {
			d.fail(s.at("baseURL"), "%s", err)
		}
	}
	d.between(s.at("maxTokens"), m.MaxTokens, 1, 1_000_000)
	d.within(s.at("timeout"), m.Timeout, time.Second, time.Hour)
	m.TLS.check(d, s.at("tls"))
	d.allowHosts(s.at("allowHosts"), m.AllowHosts)
}

// References is empty: a model needs nothing beside it.
func (m *Model) References() []Reference { return nil }
