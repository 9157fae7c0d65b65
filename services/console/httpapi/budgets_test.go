package httpapi_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/services/console/httpapi"
)

// The newest window of each budget, or every one of a name; never of others'
// namespaces.
func TestBudgets_WindowsOfANamespace(t *testing.T) {
	r := setup(t)
	r.exec(`INSERT INTO runner.pools (namespace, pool, window_start, unit, ceiling, used, reserved) VALUES
		('default', 'night', '2026-11-27', 'tokens', 1000, 900, 0), ('default', 'night', '2026-11-28', 'tokens', 1000, 20, 5),
		('default', 'dollars', 'all', 'micro_usd', 2500000, 1, 0), ('elsewhere', 'theirs', 'all', 'tokens', 1, 1, 0)`)
	r.exec(`INSERT INTO runner.alerts (alert_id, namespace, pool, window_start, percent, ceiling, used, unit) VALUES ('a', 'default', 'night', '2026-11-27', 80, 1000, 900, 'tokens')`)
	type list struct{ Items []httpapi.Budget }
	short := func(path string) (out []string) {
		for _, b := range get[list](r, "GET", path, authn.Viewer, "").Items {
			text := b.Name + " " + b.Window + " " + b.Unit
			if len(b.Alerts) > 0 && b.Alerts[0].Percent == 80 && b.Alerts[0].Limit == 1000 && !b.Alerts[0].At.IsZero() {
				text += " alerted"
			}
			out = append(out, text)
		}
		return out
	}
	if diff := cmp.Diff([]string{"dollars all micro_usd", "night 2026-11-28 tokens"}, short("/v1/budgets")); diff != "" {
		t.Errorf("newest windows (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"night 2026-11-28 tokens", "night 2026-11-27 tokens alerted"}, short("/v1/budgets?name=night")); diff != "" {
		t.Errorf("windows of one (-want +got):\n%s", diff)
	}
	if got := short("/v1/budgets?name=theirs"); len(got) != 0 {
		t.Errorf("of another namespace: %v", got)
	}
}
