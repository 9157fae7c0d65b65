package spec

import (
	"fmt"
	"strings"
	"time"
)

// Providers of signed webhooks.
const (
	ProviderStandard = "standard" // Standard Webhooks
	ProviderGitHub   = "github"
	ProviderStripe   = "stripe"
	ProviderSlack    = "slack"
	ProviderGeneric  = "generic" // HMAC-SHA256 of the body
	ProviderNone     = "none"    // not signed: anyone who knows the URL can start runs
)

// MaxLabels bounds the labels of one run.
const MaxLabels = 16

// Webhook starts a run for each delivery that another system posts.
type Webhook struct {
	Metadata `json:"-"`
	Provider string `json:"provider"`
	// Secrets sign deliveries; any of them may have signed, so one can be
	// replaced without a gap.
	Secrets []SecretRef `json:"secrets,omitempty"`
	// Tolerance bounds the age of a signed timestamp; default 5 m.
	Tolerance Duration `json:"tolerance"`
	Agent     string   `json:"agent,omitempty"` // exactly one of Agent and Flow
	Flow      string   `json:"flow,omitempty"`
	// Input, Labels and Dedupe are over ${body...}, ${headers...} (names in
	// lower case) and ${query...}. Input defaults to "${body}", Dedupe to the
	// provider's own delivery id.
	Input  *Template            `json:"input"`
	Labels map[string]*Template `json:"labels,omitempty"`
	Dedupe *Template            `json:"dedupe,omitempty"`
	Paused bool                 `json:"paused"`
}

func (w *Webhook) fill() {
	if w.Tolerance == 0 {
		w.Tolerance = Duration(5 * time.Minute)
	}
	if w.Input == nil {
		w.Input = mustTemplate(`"${body}"`)
	}
}

func (w *Webhook) check(d *decoder, s spot) {
	providers := []string{ProviderStandard, ProviderGitHub, ProviderStripe, ProviderSlack, ProviderGeneric, ProviderNone}
	d.require(s.at("provider"), w.Provider != "", "one of "+strings.Join(providers, ", "))
	if w.Provider != "" && d.oneOf(s.at("provider"), w.Provider, providers...) {
		switch {
		case w.Provider == ProviderNone && len(w.Secrets) > 0:
			d.fail(s.at("secrets"), "provider none checks no signature; choose another provider or leave secrets out")
		case w.Provider != ProviderNone && len(w.Secrets) == 0:
			d.fail(s.at("secrets"), "is required: provider %s signs its deliveries", w.Provider)
		}
	}
	for i, secret := range w.Secrets {
		if secret.IsZero() {
			d.fail(s.at("secrets", i), "exactly one of env, file is required")
		}
	}
	d.within(s.at("tolerance"), w.Tolerance, time.Second, 24*time.Hour)
	d.target(s, w.Agent, w.Flow)
	roots := []string{"body", "headers", "query"}
	d.roots(w.Input, roots...)
	if len(w.Labels) > MaxLabels {
		d.fail(s.at("labels"), "has %d labels; at most %d are allowed", len(w.Labels), MaxLabels)
	}
	for _, key := range names(w.Labels) {
		at := s.at("labels", key)
		d.labelKey(at, key)
		if w.Labels[key] != nil {
			d.textTemplate(at, w.Labels[key])
			d.roots(w.Labels[key], roots...)
		}
	}
	if w.Dedupe != nil {
		d.textTemplate(s.at("dedupe"), w.Dedupe)
		d.roots(w.Dedupe, roots...)
		if len(w.Dedupe.Paths()) == 0 && w.Dedupe.isText() {
			d.fail(s.at("dedupe"), "inserts no value: every delivery would count as a repeat of the first")
		}
	}
}

// References names what the webhook starts.
func (w *Webhook) References() []Reference { return target(w.Agent, w.Flow) }

// textTemplate checks that a template is text.
func (d *decoder) textTemplate(s spot, t *Template) {
	if t.root != nil && !t.root.isText {
		d.fail(s, "expected text, found %s", describe(s.n))
	}
}

func mustTemplate(source string) *Template {
	t, err := ParseTemplate([]byte(source))
	if err != nil {
		panic(fmt.Sprintf("template %s: %v", source, err))
	}
	return t
}
