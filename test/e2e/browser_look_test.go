package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/browsertest"
	"github.com/holdfast-run/holdfast/pkg/client"
)

// look demands of a page that it fits a phone and that a keyboard reaches all of it, and
// with HOLDFAST_BROWSER=full keeps its pictures: light, dark, and both on a phone.
func look(t *testing.T, b *browsertest.Tab, where string) {
	t.Helper()
	full := os.Getenv("HOLDFAST_BROWSER") == "full"
	picture := func(name string) {
		if full {
			b.Picture(name)
		}
	}
	picture(where)
	if wide := browsertest.Eval[int](b, "document.documentElement.scrollWidth"); wide > 1280 {
		t.Errorf("%s: the page is %d points wide", where, wide)
	}
	b.Size(380, 800)
	if wide := browsertest.Eval[int](b, "document.documentElement.scrollWidth"); wide > 380 {
		t.Errorf("%s: at phone width the page is %d points wide", where, wide)
	}
	picture(where + "-phone")
	if full {
		b.Dark(true)
		picture(where + "-phone-dark")
		b.Dark(false)
	}
	b.Size(1280, 900)
	if n := browsertest.Eval[int](b, "[...document.querySelectorAll('main a, main input:not([type=hidden]), main button, main select, main summary')].filter(e => e.tabIndex < 0).length"); n != 0 {
		t.Errorf("%s: %d controls are out of a keyboard's reach", where, n)
	}
}

// personLooksAround reads every other page of the menu in a real browser, starts a run by
// the form of its agent, and compares two versions of a flow.
func personLooksAround(t *testing.T, d *deployment) {
	tour := func(limit int) {
		t.Helper()
		if _, err := d.admin.Apply(t.Context(), []client.Document{{File: "tour.yaml", Text: fmt.Sprintf(`
apiVersion: holdfast/v1
kind: Flow
metadata: {name: tour}
spec:
  input: {type: object, required: [jobs], properties: {jobs: {type: array}}}
  steps:
    - {name: each, agent: clerk, forEach: "${input.jobs}", limit: %d, input: {job: "${item.job}", do: "${item.do}"}}
    - {name: rest, sleep: {for: 1s}, needs: [each]}
    - {name: last, agent: clerk, needs: [rest], input: {job: last, do: []}}
`, limit)}}); err != nil {
			t.Fatal(err)
		}
	}
	tour(2)
	tour(3)
	b := browsertest.New(t)
	b.Open(d.edge + "/ui/sign-in")
	b.Type("#token", d.newToken(t, "tourist", "admin"))
	b.Click("button[type=submit]")
	b.Sees("h1", "Runs")

	b.Click(`nav a[href="/ui/agents"]`)
	b.Sees("h1", "Agents and flows")
	look(t, b, "agents")
	b.Open(d.edge + "/ui/definitions/flow/tour")
	b.Sees("h1", "tour")
	look(t, b, "definition")
	b.Click(`form[action$="/diff"] button`)
	b.Sees("#main", "limit")
	look(t, b, "diff")

	b.Open(d.edge + "/ui/start/agent/clerk")
	b.Sees("h1", "Start a run")
	look(t, b, "start")
	b.Type("form.start input.inp", "By Form")
	b.Type("form.start textarea.inp", "read")
	b.Click(`form.start button[type=submit]`)
	b.Sees("[role=alert]", "Nothing was started")
	b.Forgive("422") // the browser logs the answer as an error
	look(t, b, "start-refused")
	b.Fill("form.start input.inp", "by-form")
	b.Click(`form.start button[type=submit]`)
	b.Sees("h1", "clerk")
	if at := b.Location(); !strings.Contains(at, "/ui/runs/") {
		t.Errorf("the form leads to %s", at)
	}

	for path, title := range map[string]string{"/ui/budgets": "Budgets and cost", "/ui/system": "System", "/ui/events": "Events", "/ui/account": "", "/ui/audit": ""} {
		b.Open(d.edge + path)
		b.Sees("h1", title)
		look(t, b, strings.TrimPrefix(path, "/ui/"))
	}
}
