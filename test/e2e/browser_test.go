package e2e

import (
	"net/http"
	"testing"

	"github.com/holdfast-run/holdfast/internal/browsertest"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// A person signs in with a token in a real browser, finds a run that waits, reads why,
// stops it and sees that it has stopped. The pictures are kept with -artifacts.
func personFollowsARun(t *testing.T, d *deployment) {
	id := d.startJob(t, job{Job: "looked-at", Do: []string{"read", "order"}})
	d.approval(t, id, events.ApprovalAction)

	b := browsertest.New(t)
	b.Open(d.edge + "/")
	b.Sees("h1", "Sign in")
	b.Picture("sign-in")
	b.Type("#token", "hf_not-a-token")
	b.Click("button[type=submit]")
	b.Sees("[role=alert]", "token")
	b.Forgive("401") // the browser logs the answer to a wrong token as an error
	b.Type("#token", d.newToken(t, "browser", "operator"))
	b.Click("button[type=submit]")
	b.Sees("h1", "Runs")
	b.Picture("runs")
	personOrdersManyRuns(t, b, d)

	b.Click(`a.name[href="/ui/runs/` + string(id) + `"]`)
	b.Sees("h1", "clerk")
	b.Sees(".say", "to approve")
	b.Picture("run")
	personReadsARun(t, b, d, id)
	b.Size(380, 800)
	if wide := browsertest.Eval[int](b, "document.documentElement.scrollWidth"); wide > 380 {
		t.Errorf("at phone width the page is %d points wide", wide)
	}
	b.Dark(true)
	b.Picture("run-phone-dark")
	b.Size(1280, 900)
	b.Click(`.acts a[href$="/cancel"]`)
	b.Sees("h1", "Cancel the run")
	b.Sees(".ask", "to approve")
	b.Picture("run-cancel")
	b.Click(`form[action$="/cancel"] button`)
	b.Sees("[role=status]", "asked to stop")
	d.runOf(t, id, events.StatusCancelled)
	b.Open(d.edge + "/ui/runs/" + string(id))
	b.Sees(".chip", "cancelled")
	if n := b.Count(`[href$="/cancel"]`); n != 0 {
		t.Error("a run that has ended can be cancelled")
	}
	if a := d.send(t, http.MethodGet, "/v1/runs/"+string(id), d.token, nil, nil); a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.body)
	}
}
