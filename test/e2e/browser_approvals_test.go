package e2e

import (
	"testing"

	"github.com/holdfast-run/holdfast/internal/browsertest"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// A person finds in a real browser what waits, at a desk and on a phone, light and dark,
// looks closer, ticks it and approves it.
func personDecides(t *testing.T, d *deployment) {
	j := job{Job: "approved-in-a-browser", Do: []string{"order"}}
	id := d.startJob(t, j)
	question := d.approval(t, id, events.ApprovalAction)

	b := browsertest.New(t)
	b.Open(d.edge + "/ui/sign-in")
	b.Type("#token", d.newToken(t, "decider", "approver"))
	b.Click("button[type=submit]")
	b.Sees("h1", "Runs")
	b.Click(`nav a[href="/ui/approvals"]`)
	b.Sees("h1", "Approvals")
	fits := func(where string) {
		t.Helper()
		b.Size(380, 800)
		if wide := browsertest.Eval[int](b, "document.documentElement.scrollWidth"); wide > 380 {
			t.Errorf("%s: at phone width the page is %d points wide", where, wide)
		}
		b.Dark(true)
		b.Picture(where + "-phone-dark")
		b.Dark(false)
		b.Size(1280, 900)
	}
	b.Open(d.edge + "/ui/approvals/" + string(question.ApprovalID))
	b.Sees(".head-run", "waits for a person")
	b.Sees("#h-x", "Exactly this will run")
	fits("approval")
	b.Open(d.edge + "/ui/approvals?group=agent:clerk")
	fits("approvals")
	tick := `input.tick[value^="` + string(question.ApprovalID) + ` "]`
	if n := b.Count(tick); n != 1 {
		t.Fatalf("%d ticks of the request", n)
	}
	if n := browsertest.Eval[int](b, "[...document.querySelectorAll('input:checked')].length"); n != 0 {
		t.Errorf("%d are ticked before anybody ticked", n)
	}
	if n := browsertest.Eval[int](b, "[...document.querySelectorAll('a, input, button, select, summary')].filter(e => e.tabIndex < 0).length"); n != 0 {
		t.Errorf("%d controls are out of a keyboard's reach", n)
	}
	b.Click(tick)
	b.Picture("approvals")
	b.Click(".bulk button[value=approved]")
	b.Sees("ul[role=status]", "approved by decider")
	d.finished(t, id, j, 0)
	if got, err := d.approver.Approval(t.Context(), question.ApprovalID); err != nil || got.Door != "console" || got.DecidedBy != "decider" {
		t.Errorf("%+v, %v", got, err)
	}
}
