package e2e

import (
	"os"
	"testing"

	"github.com/holdfast-run/holdfast/internal/browsertest"
	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// signedIn is a browser of a person with a role.
func signedIn(t *testing.T, d *deployment, name, role string) *browsertest.Tab {
	t.Helper()
	b := browsertest.New(t)
	b.Open(d.edge + "/ui/sign-in")
	b.Type("#token", d.newToken(t, name, role))
	b.Click("button[type=submit]")
	b.Sees("h1", "Runs")
	b.Sees("#live", "Live")
	return b
}

// Pages that are open follow a run that starts, asks and ends, and nobody reloads them.
// The list is that of a label, so that what else starts meanwhile moves nothing on it.
func pagesFollow(t *testing.T, d *deployment) {
	list, one := signedIn(t, d, "list", "viewer"), signedIn(t, d, "one", "viewer")
	followed := func(j job) events.RunID {
		t.Helper()
		request := j.request()
		request.Labels = map[string]string{"shown": "followed"}
		s, err := d.operator.Start(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		return s.RunID
	}
	before := followed(job{Job: "before", Do: []string{"read"}})
	d.runOf(t, before, events.StatusCompleted)
	list.Open(d.edge + "/?label=shown:followed")
	list.Sees("#run-"+string(before)+" .chip", "completed")
	list.Sees("#live", "Live")
	browsertest.Eval[int](list, "window.same = 1")
	id := followed(job{Job: "followed", Do: []string{"order"}})
	question := d.approval(t, id, events.ApprovalAction)
	list.Sees("#runs-new", "Show 1 new")
	list.Sees("#n-approvals", "wait for a person")
	list.Picture("runs-live")
	list.Click("#runs-new")
	list.Sees("#run-"+string(id)+" .chip", "waiting")

	one.Open(d.edge + "/ui/runs/" + string(id))
	one.Sees("#live", "Live")
	browsertest.Eval[int](one, "window.same = 1")
	if _, err := d.approver.Decide(t.Context(), question.ApprovalID, client.Decision{Decision: "approve"}); err != nil {
		t.Fatal(err)
	}
	one.Sees(".head-run .chip", "completed")
	one.Sees("#rows", "run_completed")
	one.Picture("run-live")
	list.Sees("#run-"+string(id)+" .chip", "completed")
	for name, b := range map[string]*browsertest.Tab{"the list": list, "the run": one} {
		if browsertest.Eval[string](b, "typeof window.same") != "number" {
			t.Errorf("%s was loaded anew", name)
		}
	}

	list.Open(d.edge + "/ui/events?run=" + string(id))
	list.Sees("#events", "run completed")
	list.Picture("events")
	list.Size(380, 800)
	if wide := browsertest.Eval[int](list, "document.documentElement.scrollWidth"); wide > 380 {
		t.Errorf("at phone width the events are %d points wide", wide)
	}
	list.Dark(true)
	list.Picture("events-phone-dark")
	list.Size(1280, 900)
	list.Open(d.edge + "/")
	list.Picture("runs-dark")
	if os.Getenv("HOLDFAST_BROWSER") == "full" {
		pagesComeBack(t)
	}
}

// A page outlives its server: it says since when it is stale, resumes at the new
// process and shows what happened meanwhile.
func pagesComeBack(t *testing.T) {
	d := deploy(t, fresh(t)).runners(1)
	b := signedIn(t, d, "outlives", "viewer")
	browsertest.Eval[int](b, "window.same = 1")
	d.process("console").kill(t)
	b.Sees("#live.lost", "Reconnecting. What you see is from ")
	b.Picture("reconnecting")
	id := d.startJob(t, job{Job: "meanwhile", Do: []string{"read"}})
	until(t, "the run to end while no console is there", func() bool {
		return d.count(t, `SELECT count(*) FROM runner.v_runs WHERE run_id = $1 AND status = $2`, string(id), events.StatusCompleted) == 1
	})
	d.start("console")
	b.Sees("#runs", "clerk")
	if n := b.Count("#live.lost"); n != 0 {
		t.Error("a page that is back says that it is stale")
	}
	b.Picture("caught-up")
	if browsertest.Eval[string](b, "typeof window.same") != "number" {
		t.Error("the page was loaded anew")
	}
	b.Open("about:blank") // the new console goes before the tab does
	for _, provoked := range []string{"503", "502", "net::ERR", "Failed to load resource"} {
		b.Forgive(provoked)
	}
}
