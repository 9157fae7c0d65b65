package httpapi_test

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// order sends the bar below the list as a browser does.
func (r *rig) order(role authn.Role, form url.Values) (int, string) {
	r.t.Helper()
	status, _, raw := r.do("POST", "/ui/runs/order", doortest.Token(role), form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
	return status, raw
}

var hidden = regexp.MustCompile(`<input type="hidden" name="([a-z]+)" value="([^"]*)">`)

// sure is the form of the page that asks.
func sure(page string) url.Values {
	form := url.Values{"sure": {"yes"}, "reason": {"wrong feed"}}
	for _, m := range hidden.FindAllStringSubmatch(page, -1) {
		form.Add(m[1], m[2])
	}
	return form
}

func (r *rig) commands(where string, args ...any) (n int) {
	r.t.Helper()
	if err := r.db.QueryRow(r.t.Context(), `SELECT count(*) FROM console.commands WHERE `+where, args...).Scan(&n); err != nil {
		r.t.Fatal(err)
	}
	return n
}

func TestBulkPage_AsksListsAndOrdersEachOnce(t *testing.T) {
	t.Parallel()
	r := setup(t)
	ids := map[string]events.RunID{}
	for _, status := range []string{"running", "waiting", "paused", "needs_attention", "failed", "completed", "cancelling"} {
		ids[status] = events.NewRunID()
		r.take("default", ids[status], "pricing", `{"shop":"b"}`)
		r.exec(`UPDATE runner.runs SET status = $2, ended_at = CASE WHEN $2 IN ('failed', 'completed') THEN clock_timestamp() END WHERE run_id = $1`, ids[status], status)
	}
	foreign := events.NewRunID()
	r.take("elsewhere", foreign, "pricing", `{"shop":"b"}`)
	all := url.Values{"id": {string(foreign)}}
	for _, id := range ids {
		all.Add("id", string(id))
	}
	for order, want := range map[string]string{"cancel": "needs_attention paused running waiting", "pause": "running waiting", "resume": "needs_attention paused", "retry": "failed"} {
		form := url.Values{"do": {order}, "id": all["id"]}
		status, asked := r.order(authn.Operator, form)
		if status != 200 {
			t.Fatalf("%s: %d %s", order, status, asked)
		}
		if n := r.commands("true"); n != 0 {
			t.Fatalf("%s: the question has ordered %d", order, n)
		}
		again := sure(asked)
		unsure, keyless := maps.Clone(again), maps.Clone(again)
		delete(unsure, "sure")
		delete(keyless, "key")
		for what, form := range map[string]url.Values{"a form that says nothing of being sure": unsure, "a form without its key": keyless} {
			if status, raw := r.order(authn.Operator, form); status != 200 || !strings.Contains(raw, `name="sure"`) || r.commands("true") != 0 {
				t.Fatalf("%s: %s: %d, %d commands", order, what, status, r.commands("true"))
			}
		}
		for state, id := range ids {
			goes := strings.Contains(" "+want+" ", " "+state+" ")
			if goes != strings.Contains(strings.Join(again["id"], " "), string(id)) {
				t.Errorf("%s of a run that is %s: goes %v, want %v", order, state, !goes, goes)
			}
			if !strings.Contains(asked, string(id)) {
				t.Errorf("%s: the page does not name the run that is %s", order, state)
			}
		}
		if strings.Contains(asked, string(foreign)) || !strings.Contains(asked, "left alone") {
			t.Errorf("%s: the page names a run of another namespace, or not what stays", order)
		}
		for range 2 { // the button is pressed twice
			status, done := r.order(authn.Operator, again)
			if n := len(strings.Fields(want)); status != 200 || !strings.Contains(done, fmt.Sprintf("%d of %d run", n, n)) {
				t.Errorf("%s: %d, want %d in\n%s", order, status, n, done)
			}
		}
		kind := map[string]string{"retry": "fork"}[order]
		if kind == "" {
			kind = order
		}
		if n, all := r.commands("kind = $1 AND principal = 'operator' AND body->>'reason' = 'wrong feed'", kind), r.commands("true"); n != len(strings.Fields(want)) || all != n {
			t.Errorf("%s: %d commands of %d, want %d", order, n, all, len(strings.Fields(want)))
		}
		if order == "pause" { // a form of the same key with another order is none of ours
			other := maps.Clone(again)
			other["do"] = []string{"cancel"}
			if status, raw := r.order(authn.Operator, other); status != 409 || !strings.Contains(raw, "sent before with another order") || r.commands("kind = 'cancel'") != 0 {
				t.Errorf("a key that was used for another order: %d, %d commands\n%s", status, r.commands("kind = 'cancel'"), raw)
			}
		}
		r.exec(`DELETE FROM console.commands`)
	}
	if status, _ := r.order(authn.Viewer, url.Values{"do": {"cancel"}, "id": all["id"]}); status != 403 {
		t.Errorf("a viewer: %d", status)
	}
	many := make([]string, 1001)
	for i := range many {
		many[i] = string(events.NewRunID())
	}
	for want, form := range map[string]url.Values{
		"choose 1,000 at most":    {"do": {"cancel"}, "id": many},
		"key of this form":        {"do": {"cancel"}, "id": all["id"], "sure": {"yes"}, "key": {strings.Repeat("k", 101)}},
		"No run is chosen":        {"do": {"cancel"}},
		"say what is to be done":  {"do": {"explode"}, "id": all["id"]},
		"is not the id of a run":  {"do": {"cancel"}, "id": {"x"}},
		"reason has 1001 bytes":   {"do": {"cancel"}, "id": all["id"], "sure": {"yes"}, "key": {"k"}, "reason": {strings.Repeat("x", 1001)}},
		"No run that could be":    {"do": {"retry"}, "all": {"yes"}, "agent": {"nobody"}},
		"use an amount in dollar": {"do": {"cancel"}, "all": {"yes"}, "cost": {"much"}},
	} {
		if status, raw := r.order(authn.Operator, form); status < 400 || status >= 500 || !strings.Contains(raw, want) {
			t.Errorf("%v: %d, want %q in %s", form, status, want, raw)
		}
	}
	if n := r.commands("true"); n != 0 {
		t.Errorf("%d commands of forms that are not clear", n)
	}
}

// All that match are those of the list, open ones unless it says otherwise, and the page
// that asks holds exactly them: what comes later is not touched.
func TestBulkPage_AllThatMatch(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.exec(`INSERT INTO runner.runs (run_id, namespace, kind, name, digest, status, seq, input, trigger, labels, accepted_at, ended_at)
		SELECT gen_random_uuid(), 'default', 'agent', CASE WHEN i % 2 = 0 THEN 'pricing' ELSE 'triage' END, 'd', CASE WHEN i <= 1200 THEN 'running' ELSE 'failed' END, 1, '{}', '{"kind":"api"}', '{}', clock_timestamp(), CASE WHEN i > 1200 THEN clock_timestamp() END
		FROM generate_series(1, 1210) i`)
	status, asked := r.order(authn.Operator, url.Values{"do": {"cancel"}, "all": {"yes"}, "agent": {"pricing"}, "text": {"PRICING"}})
	form := sure(asked)
	if status != 200 || len(form["id"]) != 600 || strings.Contains(asked, "left alone") {
		t.Fatalf("%d, %d runs", status, len(form["id"]))
	}
	late := events.NewRunID()
	r.take("default", late, "pricing", `{}`)
	if status, done := r.order(authn.Operator, form); status != 200 || !strings.Contains(done, "600 of 600 runs") || r.commands("run_id = $1", late) != 0 {
		t.Errorf("%d, the late run has %d commands", status, r.commands("run_id = $1", late))
	}
	if status, raw := r.order(authn.Operator, url.Values{"do": {"cancel"}, "all": {"yes"}}); status != 422 || !strings.Contains(raw, "More than 1,000 runs match") {
		t.Errorf("too many: %d", status)
	}
	if _, raw := r.order(authn.Operator, url.Values{"do": {"retry"}, "all": {"yes"}}); len(sure(raw)["id"]) != 10 {
		t.Errorf("%d runs are to be tried again, want 10", len(sure(raw)["id"]))
	}
}
