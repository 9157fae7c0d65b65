package e2e

import (
	"testing"

	"github.com/holdfast-run/holdfast/internal/browsertest"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// personOrdersManyRuns narrows the list of runs, sees a row change by itself, ticks a run
// and cancels it after the page that asks.
func personOrdersManyRuns(t *testing.T, b *browsertest.Tab, d *deployment) {
	t.Helper()
	first, second := d.startJob(t, job{Job: "listed-1", Do: []string{"read", "order"}}), d.startJob(t, job{Job: "listed-2", Do: []string{"read", "order"}})
	d.approval(t, first, events.ApprovalAction)
	d.approval(t, second, events.ApprovalAction)

	b.Open(d.edge + "/?agent=clerk&status=waiting")
	b.Sees("#run-"+string(first), "to approve order")
	b.Open(d.edge + "/?text=" + string(first)[28:])
	b.Sees("#run-"+string(first)+" .chip", "waiting")
	if _, err := d.operator.Cancel(t.Context(), first, "seen from afar"); err != nil {
		t.Fatal(err)
	}
	b.Sees("#run-"+string(first)+" .chip", "cancelled") // the row follows the run
	if n := b.Count("#runs tr"); n != 1 {
		t.Errorf("%d runs end like the one that is looked for", n)
	}

	b.Open(d.edge + "/?agent=clerk")
	b.Click("#pick-" + string(second))
	b.Sees(".bulk .hint", "lists each run")
	b.Picture("runs-ticked")
	b.Dark(true)
	b.Picture("runs-dark")
	b.Dark(false)
	b.Size(380, 800)
	if wide := browsertest.Eval[int](b, "document.documentElement.scrollWidth"); wide > 380 {
		t.Errorf("at phone width the list of runs is %d points wide", wide)
	}
	b.Picture("runs-phone")
	b.Size(1280, 900)
	b.Click(`.bulk button[value="cancel"]`)
	b.Sees("h1", "Cancel runs")
	b.Sees("#main", string(second))
	b.Type("#reason", "wrong feed")
	b.Picture("runs-cancel")
	b.Click(`button[name="sure"]`)
	b.Sees("[role=status]", "1 of 1 run")
	b.Picture("runs-cancelled")
	d.runOf(t, second, events.StatusCancelled)
	b.Open(d.edge + "/?cost=much&agent=clerk")
	b.Sees("[role=alert]", "use an amount in dollars")
	b.Forgive("422") // the browser logs the answer as an error
	b.Open(d.edge + "/")
}
