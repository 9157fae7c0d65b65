package trigger_test

import (
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
)

var (
	mainOf    = regexp.MustCompile(`(?s)<main.*</main>`)
	obeyed    = regexp.MustCompile(`<script|<img|\son[a-z]+="|\sstyle="`)
	keyOfForm = regexp.MustCompile(`name="key" value="([^"]+)"`)
)

// sees reads or posts a page and demands status and texts.
func (r *replica) sees(token, method, path string, form url.Values, status int, texts ...string) (page, to string) {
	r.t.Helper()
	got, to, body := r.form(token, method, path, form)
	page = mainOf.FindString(body)
	if got != status {
		r.t.Errorf("%s %s: %d, want %d: %.400s", method, path, got, status, body)
	}
	for _, text := range texts {
		if !strings.Contains(page, text) {
			r.t.Errorf("%s %s does not say %q:\n%s", method, path, text, page)
		}
	}
	if bad := obeyed.FindString(page); bad != "" {
		r.t.Errorf("%s %s has %s", method, path, bad)
	}
	return page, to
}

// The log of what came in has each request with its outcome, shows one without its
// secrets, and takes one or many again after asking.
func TestPageDeliveries_LogAndReplay(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.start(t)
	viewer, operator := doortest.Token(authn.Viewer), doortest.Token(authn.Operator)
	r.sees(viewer, "GET", "/ui/triggers", nil, 200, "Nothing came in yet")
	const body = `{"shop":"<script>alert(1)</script>","price":12345678901234567890.123}`
	first := r.post("/hooks/orders", body, signed("m1", body, time.Now())...)
	id := r.logged(first).ID
	r.post("/hooks/orders", body, signed("m1", body, time.Now())...)
	r.post("/hooks/orders", body, "Content-Type", "application/json") // not signed
	r.sees(viewer, "GET", "/ui/triggers", nil, 200, "accepted", "duplicate", "rejected", first.RunID)
	row := regexp.MustCompile(`<tr role="row" id="d-`)
	for query, want := range map[string]int{"": 3, "outcome=rejected": 1, "webhook=orders&outcome=accepted&from=2020-01-01T00:00": 1, "webhook=nobody": 0, "to=2020-01-01T00:00": 0} {
		page, _ := r.sees(viewer, "GET", "/ui/triggers/deliveries?"+query, nil, 200)
		if n := len(row.FindAllString(page, -1)); n != want {
			t.Errorf("%q lists %d, want %d", query, n, want)
		}
	}
	for query, text := range map[string]string{"outcome=lost": "there is no outcome", "from=soon": "From is not a time", "from=2026-01-02&to=2026-01-01": "From is not before To", "webhook=" + strings.Repeat("x", 63): "is not the name of a webhook", "webhook=a%00b": "is not the name of a webhook"} {
		r.sees(viewer, "GET", "/ui/triggers/deliveries?"+query, nil, 422, `role="alert"`, text)
	}
	r.sees(viewer, "GET", "/ui/triggers/deliveries?cursor=x", nil, 400, `role="alert"`)
	path := "/ui/triggers/deliveries/" + id
	page, _ := r.sees(viewer, "GET", path, nil, 200, "12345678901234567890.123", "[redacted]", first.RunID, "&lt;script&gt;alert(1)")
	if strings.Contains(page, "<form") {
		t.Error("a viewer is offered a replay")
	}
	if status, _, _ := r.form(viewer, "POST", path, url.Values{"sure": {"yes"}}); status != 403 {
		t.Errorf("a viewer replays: %d", status)
	}
	r.sees(viewer, "GET", "/ui/triggers/deliveries/nothing", nil, 404, "there is no delivery")
	r.sees(doortest.TokenIn("other", authn.Admin), "GET", path, nil, 404, "there is no delivery")

	r.sees(operator, "POST", path, url.Values{"key": {"k1"}}, 200, "Take this request again?")
	r.sees(operator, "POST", path, url.Values{"key": {"k1"}, "force": {"yes"}}, 200, "A new run is started although")
	if n := w.count(t, "trigger.deliveries"); n != 1 {
		t.Fatalf("%d deliveries before anybody was sure", n)
	}
	r.sees(operator, "POST", path, url.Values{"key": {"k1"}, "sure": {"yes"}}, 200, "It has its run already", first.RunID)
	for range 2 { // a form that is sent twice is one replay
		r.sees(operator, "POST", path, url.Values{"key": {"k1"}, "force": {"yes"}, "sure": {"yes"}}, 200, "run")
	}
	if n := w.count(t, "trigger.deliveries"); n != 2 {
		t.Errorf("%d deliveries after one forced replay, want 2", n)
	}
	many := url.Values{"webhook": {"orders"}, "outcome": {"accepted"}, "from": {"2020-01-01T00:00"}}
	page, _ = r.sees(operator, "POST", "/ui/triggers/deliveries", many, 200, "Take 1 request of orders again?", "Replay these")
	to := regexp.MustCompile(`name="to" value="([^"]+)"`).FindStringSubmatch(page)
	key := keyOfForm.FindStringSubmatch(page)
	if to == nil || key == nil {
		t.Fatal("what is confirmed is not bounded: " + page)
	}
	many.Set("to", to[1])
	many.Set("key", key[1])
	many.Set("sure", "yes")
	r.sees(operator, "POST", "/ui/triggers/deliveries", many, 200, "1 request was taken again", "It has its run already")
	r.sees(operator, "POST", "/ui/triggers/deliveries", url.Values{"webhook": {"orders"}}, 422, "nothing was replayed")
	many.Set("after", "nowhere")
	r.sees(operator, "POST", "/ui/triggers/deliveries", many, 422, "nothing was replayed")
	if status, _, _ := r.form(viewer, "POST", "/ui/triggers/deliveries", many); status != 403 {
		t.Errorf("a viewer replays many: %d", status)
	}
}

// A schedule is shown with its next fires on its clock and in UTC, is paused and goes
// on, and starts a run at once; what starts something asks first.
func TestPageSchedules_PauseResumeNow(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, `
apiVersion: holdfast/v1
kind: Schedule
metadata: {name: new-york}
spec: {cron: "30 2 * * *", timeZone: America/New_York, agent: check, input: {shop: A, price: 1}}
`)
	r := w.pair(t)
	until(t, "its hand", func() bool { return w.count(t, "trigger.schedules WHERE name = 'new-york'") == 1 })
	viewer, operator := doortest.Token(authn.Viewer), doortest.Token(authn.Operator)
	r.sees(viewer, "GET", "/ui/triggers", nil, 200, "new-york", "30 2 * * *", "America/New_York", "Next fires", "02:30")
	const path = "/ui/triggers/schedules/new-york"
	if page, _ := r.sees(viewer, "GET", path, nil, 200, "02:30 E", "It has not fired yet"); strings.Contains(page, "<form") {
		t.Error("a viewer is offered a pause")
	}
	if status, _, _ := r.form(viewer, "POST", path, url.Values{"do": {"pause"}}); status != 403 {
		t.Errorf("a viewer pauses: %d", status)
	}
	r.sees(viewer, "GET", "/ui/triggers/schedules/nobody", nil, 404, "there is no schedule")
	r.sees(doortest.TokenIn("other", authn.Admin), "GET", path, nil, 404)
	r.sees(operator, "POST", path, url.Values{"do": {"resume"}}, 409, "is not paused", "Nothing was done")
	r.sees(operator, "POST", path, url.Values{"do": {"dance"}}, 422, "Nothing was done")
	if _, to := r.sees(operator, "POST", path, url.Values{"do": {"pause"}, "note": {`<script>audit`}}, 303); to != path+"?done=paused" {
		t.Errorf("it leads to %q", to)
	}
	r.sees(viewer, "GET", path+"?done=paused", nil, 200, "Paused by operator", "&lt;script&gt;audit", "As if nobody had paused it")
	if page, _ := r.sees(viewer, "GET", "/ui/triggers", nil, 200, "Paused by operator"); strings.Contains(page, "02:30") {
		t.Error("what is paused has a next fire")
	}
	page, _ := r.sees(operator, "POST", path, url.Values{"do": {"now"}, "key": {"k1"}}, 200, "Start a run of new-york now?", "although the schedule is paused")
	if key := keyOfForm.FindStringSubmatch(page); key == nil || key[1] != "k1" || w.count(t, "trigger.deliveries") != 0 {
		t.Error("the form has lost its key, or a run was started before anybody was sure")
	}
	for range 2 { // a form that is sent twice starts one run
		if _, to := r.sees(operator, "POST", path, url.Values{"do": {"now"}, "key": {"k1"}, "sure": {"yes"}}, 303); !strings.HasPrefix(to, "/ui/runs/") {
			t.Errorf("it leads to %q", to)
		}
	}
	if n := w.count(t, "trigger.deliveries"); n != 1 {
		t.Errorf("%d runs, want 1", n)
	}
	r.sees(operator, "POST", path, url.Values{"do": {"resume"}}, 200, "Let new-york fire again?", "0 fires passed")
	if _, to := r.sees(operator, "POST", path, url.Values{"do": {"resume"}, "sure": {"yes"}}, 303); to != path+"?done=resumed" {
		t.Errorf("it leads to %q", to)
	}
	r.sees(viewer, "GET", path, nil, 200, "active", "started", "operator, now")
}
