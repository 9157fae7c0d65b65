package webhook

import "github.com/holdfast-run/holdfast/services/trigger"

// All lists every provider.
func All() []trigger.Provider {
	return []trigger.Provider{
		Standard{},
		GitHub{},
		Stripe{},
		Slack{},
		Generic{},
		None{},
	}
}
