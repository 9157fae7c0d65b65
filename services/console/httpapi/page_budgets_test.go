package httpapi_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console/httpapi"
)

const budgetYAML = `apiVersion: holdfast/v1
kind: Budget
metadata: {name: night}
spec: {unit: usd, limit: 18, window: {timeZone: Europe/Berlin, startHour: 2}, alertAt: [80]}
---
apiVersion: holdfast/v1
kind: Budget
metadata: {name: unused}
spec: {limit: 1000}
`

func (r *rig) says(t *testing.T, path, token string, want ...string) string {
	t.Helper()
	status, _, raw := r.do("GET", path, token, "")
	if status != 200 {
		t.Fatalf("%s: %d %s", path, status, raw)
	}
	for _, w := range want {
		if !strings.Contains(raw, w) {
			t.Errorf("%s does not say %q", path, w)
		}
	}
	if strings.Contains(raw, "<script>alert") {
		t.Errorf("%s obeys what it shows", path)
	}
	return raw
}

func TestBudgetsPage_GaugesRaiseAndCost(t *testing.T) {
	t.Parallel()
	r := setup(t)
	viewer, admin := doortest.Token(authn.Viewer), doortest.Token(authn.Admin)
	const path, evil = "/ui/budgets", `"><script>alert(1)</script>`
	r.says(t, path, viewer, "No shared budget is defined", "No model was called in this time")
	get[[]httpapi.Applied](r, "POST", "/v1/resources", authn.Admin, documents(t, budgetYAML))
	id := events.NewRunID()
	r.take("default", id, "checker", `{}`)
	r.exec(`UPDATE runner.runs SET status = 'paused', paused_for = 'pool:night' WHERE run_id = $1`, id)
	r.exec(`INSERT INTO runner.pools (namespace, pool, window_start, unit, ceiling, used, reserved) VALUES ('default', 'night', '2026-03-05', 'micro_usd', 18000000, 9007199, 8992801), ('default', $1, 'all', 'tokens', 10, 10, 0), ('other', 'theirs', 'all', 'tokens', 10, 10, 0), ('default', 'calm', 'all', 'tokens', 10, 7, 9), ('default', 'late', 'all', 'tokens', 10, 10, 0)`, evil)
	waiting := events.NewRunID()
	r.take("default", waiting, "checker", `{}`)
	r.exec(`UPDATE runner.runs SET status = 'paused', paused_for = 'pool:late' WHERE run_id = $1`, waiting)
	r.spend("default", id, id, "checker", "claude", 0, 12, 54301, 301)
	r.spend("default", waiting, waiting, "../../ui/no name", "claude", 0, 12, 1000, 0)
	shown := r.says(t, path, viewer, "$9.007199 of $18; $8.992801 reserved", `width="50.0%"`, "by the day of Europe/Berlin and starts anew at", "1 run waits", "No run has drawn on it yet", "0 of 1000",
		"used up", "&lt;script&gt;alert(1)", `href="/ui/definitions/agent/checker"`, "$0.054301", "$0.000301")
	if strings.Contains(shown, `href="/ui/definitions/agent/..`) {
		t.Error("a name that can be no path is a link")
	}
	if strings.Contains(shown, "/raise") || strings.Contains(shown, "theirs") {
		t.Error("a viewer is offered a raise, or sees the budget of another namespace")
	}
	if shown := r.says(t, path, admin, `action="/ui/budgets/night/raise"`); strings.Contains(shown, "/ui/budgets/calm/raise") {
		t.Error("a raise is offered where no run waits that could carry it")
	}
	r.says(t, path+"?by=model&since=1d", viewer, `href="/ui/definitions/model/claude"`)
	if status, _, raw := r.do("GET", path+"?by=label&label="+url.QueryEscape(evil), viewer, ""); status != 422 || !strings.Contains(raw, "is not the key of a label") || strings.Contains(raw, "<script>alert") {
		t.Errorf("a label that is none: %d", status)
	}

	raise := func(token, name, to string) (int, string, string) {
		status, header, raw := r.do("POST", path+"/"+name+"/raise", token, url.Values{"to": {to}}.Encode(), "Content-Type", "application/x-www-form-urlencoded")
		return status, header.Get("Location"), raw
	}
	for to, want := range map[string]string{"lots": "is not an amount in dollars like 2.50", "17.5": "is not more than the limit of now, $18"} {
		if status, _, raw := raise(admin, "night", to); status != 422 || !strings.Contains(raw, want) || !strings.Contains(raw, `value="`+to+`"`) {
			t.Errorf("a raise to %s: %d, or it does not say %q", to, status, want)
		}
	}
	for _, to := range []string{"25.5", "-3", "0", "", "99999999999999999999"} {
		if status, _, raw := raise(admin, "late", to); status != 422 || !strings.Contains(raw, "is not a whole number over 0") {
			t.Errorf("tokens raised to %q: %d\n%s", to, status, raw)
		}
	}
	if status, _, raw := raise(admin, "calm", "20"); status != 422 || !strings.Contains(raw, "no run waits for it any more") {
		t.Errorf("a raise that no run could carry: %d\n%s", status, raw)
	}
	if status, _, _ := raise(admin, "nobodys", "20"); status != 404 {
		t.Errorf("a raise of what nobody has drawn on: %d", status)
	}
	if shown := r.says(t, path+"?raised="+url.QueryEscape("no name"), admin); strings.Contains(shown, "is on its way") {
		t.Error("it says that what has no name was raised")
	}
	r.says(t, path, viewer, "7 of 10; 9 reserved", `x="70.0%" width="30.0%"`) // the bar ends at the limit
	if status, _, _ := raise(doortest.Token(authn.Operator), "night", "25"); status != 403 {
		t.Errorf("an operator raises: %d", status)
	}
	if status, _, _ := raise(doortest.TokenIn("other", authn.Admin), "night", "25"); status != 404 {
		t.Errorf("another namespace raises: %d", status)
	}
	if status, where, raw := raise(admin, "night", "$25.000001"); status != 303 || where != path+"?raised=night" {
		t.Fatalf("a raise: %d %s", status, raw)
	}
	r.says(t, path+"?raised=night", admin, "The raise of night is on its way")
	var body string
	if err := r.db.QueryRow(t.Context(), `SELECT run_id || ' ' || body::text FROM console.commands WHERE kind = 'raise_budget'`).Scan(&body); err != nil || !strings.Contains(body, string(id)) || !strings.Contains(body, "25000001") || !strings.Contains(body, "pool:night") {
		t.Errorf("order %s, %v", body, err)
	}
}

// TestBudgetsPage_SaysWhatIsNearlyUsed pins the words at four fifths, at the limit and at
// an alert of the definition's own, on the page of budgets.
func TestBudgetsPage_SaysWhatIsNearlyUsed(t *testing.T) {
	t.Parallel()
	r := setup(t)
	get[[]httpapi.Applied](r, "POST", "/v1/resources", authn.Admin, documents(t, strings.Replace(budgetYAML, "alertAt: [80]", "alertAt: [50]", 1)))
	r.exec(`INSERT INTO runner.pools (namespace, pool, window_start, unit, ceiling) VALUES ('default', 'night', '2026-03-05', 'micro_usd', 1000)`)
	for used, want := range map[int]string{0: "", 499: "", 500: "past an alert", 799: "past an alert", 800: "over 80 %", 999: "over 80 %", 1000: "used up", 1200: "used up"} {
		r.exec(`UPDATE runner.pools SET used = $1 WHERE pool = 'night'`, used)
		_, raw := r.page("/ui/budgets", authn.Viewer)
		for _, word := range []string{"past an alert", "over 80 %", "used up"} {
			if has := strings.Contains(raw, "</svg>"+word+"</span>"); has != (word == want) {
				t.Errorf("%d of 1000 used: it says %q: %t, want %q", used, word, has, want)
			}
		}
	}
}

func TestSystemPage_SaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	r := setup(t)
	viewer := doortest.Token(authn.Viewer)
	const evil = `"><script>alert(1)</script>`
	r.says(t, "/ui/system", viewer, "No worker has written a heartbeat", "no process of runner is alive", "No run is parked", "All notices arrived", "No service has rejected a message", "runner-step")
	id := events.NewRunID()
	r.take("default", id, "checker", `{}`)
	r.exec(`UPDATE runner.runs SET status = 'needs_attention', error = json_build_object('code', $2::text) WHERE run_id = $1`, id, evil)
	r.exec(`INSERT INTO runner.workers (name, beat, fresh_since) VALUES ($1, clock_timestamp(), clock_timestamp() - interval '1 min'), ('gone', clock_timestamp() - interval '20 s', clock_timestamp() - interval '1 min')`, evil)
	r.exec(`INSERT INTO runner.rejected (subject, cause, code, detail, body) VALUES ('hf.run.secret', 'c', $1, 'd', '')`, evil)
	shown := r.says(t, "/ui/system", viewer, "1 run needs attention (", "<b>1</b> run needs attention", "alive", "silent", "A start, signal or order", `href="/?status=needs_attention"`)
	if strings.Contains(shown, "hf.run.secret") || strings.Count(shown, "&lt;script&gt;alert(1)") < 3 {
		t.Error("a subject of another namespace is shown, or what is wrong is not")
	}
	// A worker says which release it is; one of an older release does not.
	r.exec(`UPDATE runner.workers SET release = 'v9.8.7<b>' WHERE name = 'gone'`)
	r.says(t, "/ui/system", viewer, `data-l="Release" class="mono">v9.8.7&lt;b&gt;<`, `<span class="mute">not said</span>`)
	for _, w := range get[httpapi.System](r, "GET", "/v1/system", authn.Viewer, "").Workers {
		if (w.Release == "v9.8.7<b>") != (w.Name == "gone") {
			t.Errorf("worker %s is of release %q", w.Name, w.Release)
		}
	}
	// What failed can be sent again, by who may; what may have arrived only knowingly.
	r.exec(`INSERT INTO approvals.notices (notice_id, namespace, channel, reason, body, state, problem, next_at) VALUES ('n-failed', 'default', 'ops', 'failed', '{}', 'failed', $1, NULL), ('n-unknown', 'default', 'ops', 'failed', '{}', 'unknown', '', NULL), ('n-theirs', 'other', 'ops', 'failed', '{}', 'failed', '', NULL)`, evil)
	r.exec(`INSERT INTO approvals.notices (notice_id, namespace, channel, reason, body, state, next_at, created_at) VALUES ('n-old', 'default', 'ops', 'failed', '{}', 'failed', NULL, clock_timestamp() - interval '8 days')`)
	if shown := r.says(t, "/ui/system", viewer, "holdfast notices resend n-failed"); strings.Contains(shown, "/resend") {
		t.Error("a viewer is offered to send a notice again")
	}
	shown = r.says(t, "/ui/system", doortest.Token(authn.Operator), `action="/ui/notices/n-failed/resend"><button`, `action="/ui/notices/n-unknown/resend"><input type="hidden" name="may_double" value="yes">`, "though people may read it twice")
	if strings.Contains(shown, "is sent again") {
		t.Error("it says that a notice was sent before one was")
	}
	if strings.Contains(shown, "n-theirs") || strings.Contains(shown, "n-old") {
		t.Error("a notice of another namespace is listed, or one of more than a week ago")
	}
	r.says(t, "/ui/system?resent=yes", viewer, "The notice is sent again.")
	if other := r.says(t, "/ui/system", doortest.TokenIn("other", authn.Viewer)); strings.Contains(other, "run needs attention") {
		t.Error("another namespace sees the parked run")
	}
}
