package httpapi_test

import (
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/web"
)

func TestEventsPage_ShowsTheNewestOfItsNamespaceAsText(t *testing.T) {
	t.Parallel()
	r := setup(t)
	token := doortest.Token(authn.Viewer)
	look := func(token, query string) (int, string) {
		status, header, raw := r.do("GET", "/ui/events"+query, token, "")
		if header.Get("Content-Security-Policy") != web.CSP {
			t.Errorf("%s has the policy %q", query, header.Get("Content-Security-Policy"))
		}
		return status, raw
	}
	if status, raw := look(token, ""); status != 200 || !strings.Contains(raw, "Nothing has happened lately.") {
		t.Errorf("empty: %d", status)
	}
	mine, theirs := events.NewRunID(), events.NewRunID()
	r.take("default", mine, "shop", `{}`)
	r.take("other", theirs, "spy", `{}`)
	evil := `"><script>alert(1)</script>` + "\u202e"
	eventually(t, "the tail is reached", func() bool {
		_, _, raw := r.do("GET", "/v1/system", token, "")
		return strings.Contains(raw, `"event"`)
	})
	r.step(theirs, "running", true)
	r.step(mine, "running", true)
	e := r.step(mine, "completed", false)
	e.Kind, e.Data, e.Worker = "run_completed", []byte(`{"output":`+quotedText(t, evil)+`,"n":12345678901234567890.10}`), evil
	r.publish(e)
	eventually(t, "the page has them", func() bool { _, raw := look(token, ""); return strings.Contains(raw, "run completed") })
	_, raw := look(token, "")
	for _, want := range []string{`href="/ui/runs/` + string(mine) + `?at=3#journal"`, ">shop</a>", `href="/ui/events" aria-current="page"`, `id="live" role="status"`, "12345678901234567890.10", "&lt;script&gt;alert(1)", "[U&#43;202E]", `data-live="events" data-rows="now"`} {
		if !strings.Contains(raw, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	for _, bad := range []string{"<script>", string(theirs), "spy", "\u202e"} {
		if strings.Contains(raw, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	for query, rows := range map[string]int{"?type=run_completed": 1, "?type=paused": 0, "?agent=shop": 2, "?agent=spy": 0, "?run=" + string(mine): 2, "?run=" + string(theirs): 0, "?text=ALERT": 1} {
		if status, raw := look(token, query); status != 200 || strings.Count(raw, `<tr role="row" id="ev`) != rows {
			t.Errorf("%s: %d with %d rows, want %d", query, status, strings.Count(raw, `<tr role="row" id="ev`), rows)
		}
	}
	for query, want := range map[string]string{"?type=nonsense": "no type of event", "?run=x": "not the id of a run", "?text=" + strings.Repeat("x", 201): "too long"} {
		if status, raw := look(token, query); status != 422 || !strings.Contains(raw, want) || !strings.Contains(raw, `aria-invalid="true"`) {
			t.Errorf("%s: %d", query, status)
		}
	}
	if status, _, _ := r.do("GET", "/ui/events", "", ""); status != 401 {
		t.Errorf("a stranger gets %d", status)
	}
	// Who comes later looks back too: what was there before it began is read once.
	later := start(t, r.db, r.db, r.bus)
	eventually(t, "another replica has them", func() bool {
		_, _, raw := later.do("GET", "/ui/events", token, "")
		return strings.Contains(raw, "run completed") && !strings.Contains(raw, string(theirs))
	})
}

func quotedText(t *testing.T, s string) string {
	t.Helper()
	b, err := events.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
