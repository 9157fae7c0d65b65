package webhook

import "github.com/holdfast-run/holdfast/services/trigger"

// All lists every provider. What its documents may hold stands under the same
// name in pkg/spec/provider.go.
func All() []trigger.Provider {
	return []trigger.Provider{
		Standard{},
		GitHub{},
		Stripe{},
		Slack{},
		Shopify{},
		GitLab{},
		Linear{},
		Zendesk{},
		HubSpot{},
		Twilio{},
		Alertmanager{},
		Generic{},
		Bearer{},
		Basic{},
		None{},
	}
}
