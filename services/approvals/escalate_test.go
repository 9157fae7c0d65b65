package approvals_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

var climbing = ruled(events.DecisionRule{
	Deciders: []events.Deciders{{Users: []string{"ann"}}},
	Escalate: []events.Escalation{{AfterMs: 3600_000, Channel: "bosses"}, {AfterMs: 7200_000, Deciders: &events.Deciders{Groups: []string{"finance"}}, Channel: "bosses"}},
})

// stepDue makes the next step of all requests due now.
func (b *bench) stepDue() {
	b.t.Helper()
	b.exec(`UPDATE approvals.requests SET escalate_at = clock_timestamp() WHERE escalate_at IS NOT NULL`)
}

func (b *bench) bosses(o *outside) {
	b.t.Helper()
	b.book.apply(b.t, "bosses", fmt.Sprintf("  slack: {token: {env: BOT}, channel: C0987654321, signingSecret: {env: SIGN}, baseURL: %q}\n"+
		"  people: [{name: max, slack: U0MAX, groups: [finance]}]\n", o.URL), map[string]string{"BOT": "xoxb-very-secret", "SIGN": slackSecret})
}

// Step by step the next channel is told and more people may decide, in it too; what
// was put off is shown again. Who may decide only later may do nothing before.
func TestEscalate_StepByStep(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := newOutside(t)
	b.financed(o)
	b.bosses(o)
	a := b.ask(in("reviewers"), climbing)
	eventually(t, "the first channel is told", func() bool { return b.noticesOf(a, "-ask", "delivered") == 1 })
	if got := b.show(a.ApprovalID); got.Escalated != 0 || got.EscalateAt.Sub(got.CreatedAt) != time.Hour || len(got.Rule.Escalate) != 2 {
		t.Errorf("%d steps have come, the next at %s of %+v", got.Escalated, got.EscalateAt, got.Rule)
	}
	bossClick := []byte(strings.ReplaceAll(string(click(o, a, "U0MAX", "approved", "")), "reviewers", "bosses"))
	b.fromSlack(bossClick, time.Now())
	eventually(t, "the click is refused", func() bool { return len(o.at("/actions/U0MAX")) == 1 })
	if told := string(o.at("/actions/U0MAX")[0].body); !strings.Contains(told, "no such request in this channel") {
		t.Errorf("a channel whose step has not come is told %s", told)
	}
	if _, err := b.as("ann").DeferApproval(t.Context(), a.ApprovalID, client.Deferral{For: "10h"}); err != nil {
		t.Fatal(err)
	}
	b.stepDue()
	eventually(t, "the next channel is told", func() bool { return b.noticesOf(a, "-escalate-1", "delivered") == 1 })
	if got := b.show(a.ApprovalID); got.Escalated != 1 || !got.DeferredUntil.IsZero() || got.EscalateAt.Sub(got.CreatedAt) != 2*time.Hour || b.noticesOf(a, "-defer-1", "gone") != 1 {
		t.Errorf("%d steps have come, the next at %s, it is put off until %s", got.Escalated, got.EscalateAt, got.DeferredUntil)
	}
	b.fromSlack(bossClick, time.Now())
	eventually(t, "max may not decide yet", func() bool { return len(o.at("/actions/U0MAX")) == 2 })
	if _, err := b.as("max").Decide(t.Context(), a.ApprovalID, client.Decision{Decision: "approve", Digest: a.Digest}); err == nil || !strings.Contains(err.Error(), "decided by ann or, after 2h0m0s, group finance") {
		t.Errorf("before the step that names max: %v", err)
	}
	b.stepDue()
	eventually(t, "and again", func() bool { return b.noticesOf(a, "-escalate-2", "delivered") == 1 })
	if posts := o.at(chatPost); len(posts) != 3 || strings.Contains(string(posts[0].body), "Escalated: ") || !strings.Contains(string(posts[2].body), "Escalated: Shop A") || !strings.Contains(string(posts[2].body), "C0987654321") ||
		!strings.Contains(string(posts[2].body), `"value":"default bosses `+string(a.ApprovalID)+" ") {
		t.Errorf("%d messages: %s", len(posts), posts[len(posts)-1].body)
	}
	if got := b.show(a.ApprovalID); got.Escalated != 2 || !got.EscalateAt.IsZero() {
		t.Errorf("%d steps have come, the next at %s", got.Escalated, got.EscalateAt)
	}
	if got := b.fromSlack(bossClick, time.Now()); got != 200 {
		t.Errorf("max clicks: %d", got)
	}
	eventually(t, "max has decided", func() bool { return b.show(a.ApprovalID).State == events.Approve })
	if got := b.show(a.ApprovalID); got.DecidedBy != "max" || got.Door != "slack" {
		t.Errorf("decided by %s through %s", got.DecidedBy, got.Door)
	}
	if n := b.count(`SELECT count(*) FROM approvals.audit WHERE kind = 'escalated' AND door = 'bosses' AND approval_id = $1`, string(a.ApprovalID)); n != 2 {
		t.Errorf("the audit has %d steps, want 2", n)
	}
}

// Each step is taken once, whoever looks, and none of what has ended or has no time left.
func TestEscalate_EachStepOnce(t *testing.T) {
	t.Parallel()
	b := setup(t) // sweeps too
	var asked []events.AskApproval
	for range 10 {
		asked = append(asked, b.ask(in("reviewers"), climbing))
	}
	decided, over, kept := b.ask(climbing), b.ask(climbing), b.ask(climbing)
	if _, err := b.as("ann").Decide(t.Context(), decided.ApprovalID, client.Decision{Decision: "reject"}); err != nil {
		t.Fatal(err)
	}
	b.exec(`UPDATE approvals.requests SET expires_at = clock_timestamp(), keeps = approval_id = $2 WHERE approval_id = ANY ($1)`, []string{string(over.ApprovalID), string(kept.ApprovalID)}, string(kept.ApprovalID))
	for range 2 {
		b.stepDue()
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if err := b.service.Escalate(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	want := 2 * (len(asked) + 1)
	for what, query := range map[string]string{
		"rows":    `SELECT count(*) FROM approvals.notices WHERE notice_id LIKE '%-escalate-%'`,
		"audited": `SELECT count(*) FROM approvals.audit WHERE kind = 'escalated'`,
		"counted": `SELECT sum(escalated) FROM approvals.requests`,
	} {
		eventually(t, what, func() bool { return b.count(query) >= want })
		if n := b.count(query); n != want {
			t.Errorf("%s: %d, want %d", what, n, want)
		}
	}
	for _, a := range []events.AskApproval{decided, over} {
		if got := b.show(a.ApprovalID); got.Escalated != 0 || got.State == approvals.StatePending && a.ApprovalID == decided.ApprovalID {
			t.Errorf("%s: %d steps", got.State, got.Escalated)
		}
	}
}
