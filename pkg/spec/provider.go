package spec

import (
	"slices"
	"strings"
)

// Names of webhook providers that this package speaks of.
const (
	ProviderStandard = "standard"
	ProviderNone     = "none"
)

// provider says what a Webhook document with it may and must hold. How its
// deliveries are verified is known to the trigger service alone.
type provider struct {
	name string
	// secrets says what stands in "secrets"; empty: deliveries are not signed, and
	// none may be given.
	secrets string
	// time: deliveries carry a signed time, so tolerance means something.
	time bool
	// fields are those fields of the document that not every provider has:
	// "publicURL", "batch", and members of "signature". One with a ! in front is
	// required.
	fields []string
}

// providers is the list: one line for each file of services/trigger/webhook.
var providers = []provider{
	{name: ProviderStandard, secrets: "a key that begins with whsec_ or whpk_", time: true},
	{name: "github", secrets: "the webhook's secret"},
	{name: "stripe", secrets: "the endpoint's signing secret", time: true},
	{name: "slack", secrets: "the app's signing secret", time: true},
	{name: "shopify", secrets: "the app's client secret"},
	{name: "gitlab", secrets: "the secret token, or the signing token that begins with whsec_", time: true},
	{name: "linear", secrets: "the webhook's signing secret", time: true},
	{name: "zendesk", secrets: "the webhook's signing secret", time: true},
	{name: "hubspot", secrets: "the app's client secret", time: true, fields: []string{"!publicURL", "batch"}},
	{name: "twilio", secrets: "the account's auth token", fields: []string{"!publicURL"}},
	{name: "alertmanager", secrets: "the bearer token"},
	{name: "generic", secrets: "the key of the HMAC", time: true, fields: []string{
		"publicURL", "signature.header", "signature.prefix", "signature.encoding", "signature.algorithm", "signature.signed",
		"signature.timestampHeader", "signature.timestampUnit", "signature.idHeader"}},
	{name: "bearer", secrets: "the token", fields: []string{"signature.header", "signature.prefix"}},
	{name: "basic", secrets: "user:password"},
	{name: ProviderNone},
}

// Providers lists the names that a Webhook document may give as its provider.
func Providers() []string {
	list := make([]string, len(providers))
	for i, p := range providers {
		list[i] = p.name
	}
	return list
}

func providerNamed(name string) (provider, bool) {
	i := slices.IndexFunc(providers, func(p provider) bool { return p.name == name })
	if i < 0 {
		return provider{}, false
	}
	return providers[i], true
}

func (p provider) uses(field string) bool {
	return slices.Contains(p.fields, field) || slices.Contains(p.fields, "!"+field)
}

// usersOf lists the providers that use a field.
func usersOf(field string) string {
	var list []string
	for _, p := range providers {
		if p.uses(field) {
			list = append(list, p.name)
		}
	}
	return strings.Join(list, ", ")
}

// check holds w against what its provider uses.
func (p provider) check(d *decoder, s spot, w *Webhook) {
	switch {
	case p.secrets == "" && len(w.Secrets) > 0:
		d.fail(s.at("secrets"), "provider %s checks no signature; choose another provider or leave secrets out", p.name)
	case p.secrets != "" && len(w.Secrets) == 0:
		d.fail(s.at("secrets"), "is required: provider %s signs its deliveries", p.name)
	}
	if !p.time && w.Tolerance != defaultTolerance {
		d.fail(s.at("tolerance"), "provider %s signs no time, so its age cannot be checked", p.name)
	}
	for _, f := range []struct {
		path  []any
		given bool
	}{
		{[]any{"publicURL"}, w.PublicURL != ""},
		{[]any{"batch"}, w.Batch != ""},
	} {
		p.field(d, s, f.path, f.given)
	}
	for _, f := range w.Signature.given() {
		p.field(d, s, []any{"signature", f.name}, f.given)
	}
}

func (p provider) field(d *decoder, s spot, path []any, given bool) {
	names := make([]string, len(path))
	for i, step := range path {
		names[i] = step.(string)
	}
	name := strings.Join(names, ".")
	switch {
	case given && !p.uses(name):
		d.fail(s.at(path...), "provider %s does not use it; it is for %s", p.name, usersOf(name))
	case !given && slices.Contains(p.fields, "!"+name):
		d.fail(s.at(path...), "is required: provider %s needs it", p.name)
	}
}
