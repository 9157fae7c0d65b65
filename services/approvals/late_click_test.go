package approvals_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// A message of an incoming webhook keeps its buttons when its request is decided
// elsewhere: who clicks then is told who was first, and the buttons go.
func TestSlack_ALateClickWithoutABotToken(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := newOutside(t)
	b.book.apply(t, "reviewers", fmt.Sprintf("  slack: {webhook: {env: HOOKED}, signingSecret: {env: SIGN}, baseURL: %q}\n  allowHosts: [127.0.0.1]\n  people: [{name: ann, slack: U0ANN}]\n", o.URL),
		map[string]string{"HOOKED": o.URL + "/services/T0/B0/x", "SIGN": slackSecret})
	a := b.ask(in("reviewers"))
	if _, err := b.as("ben").Decide(t.Context(), a.ApprovalID, no); err != nil {
		t.Fatal(err)
	}
	if got := b.fromSlack(click(o, a, "U0ANN", "approved", ""), time.Now()); got != 200 {
		t.Errorf("late: %d", got)
	}
	eventually(t, "ann is told and the message changed", func() bool { return len(o.at("/actions/U0ANN")) == 2 })
	alone, instead := 0, 0
	for _, h := range o.at("/actions/U0ANN") {
		m := string(h.body)
		if !strings.Contains(m, "rejected by ben at ") || strings.Contains(m, `"type":"button"`) {
			t.Errorf("told %s", m)
		}
		if strings.Contains(m, `"replace_original":true`) {
			instead++
		} else if strings.Contains(m, "Too late") {
			alone++
		}
	}
	if alone != 1 || instead != 1 {
		t.Errorf("told %d times, changed %d times, want once each", alone, instead)
	}
	if s := b.show(a.ApprovalID).State; s != events.Reject {
		t.Errorf("it is %s", s)
	}
}
