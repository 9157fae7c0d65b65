package httpapi_test

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

// page reads or posts a page; a redirect is an answer, not followed.
func (l *ledger) page(method, path string, form url.Values) (status int, body, location string) {
	l.t.Helper()
	req, err := http.NewRequestWithContext(l.t.Context(), method, l.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		l.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html")
	req.Header.Set("Authorization", "Bearer "+l.token)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		l.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	return resp.StatusCode, string(b), resp.Header.Get("Location")
}

func (l *ledger) sees(what, path string, status int, texts ...string) string {
	l.t.Helper()
	got, body, _ := l.page(http.MethodGet, path, nil)
	l.says(what, got, body, status, texts...)
	return body
}

func (l *ledger) says(what string, got int, body string, status int, texts ...string) {
	l.t.Helper()
	if got != status || status != http.StatusSeeOther && status != http.StatusForbidden && !main.MatchString(body) {
		l.t.Errorf("%s: %d, want %d: %.300s", what, got, status, body)
	}
	for _, text := range texts {
		if !strings.Contains(body, text) {
			l.t.Errorf("%s does not say %q:\n%s", what, text, main.FindString(body))
		}
	}
	if bad := evil.FindString(main.FindString(body)); bad != "" {
		l.t.Errorf("%s has %s", what, bad)
	}
}

var (
	main = regexp.MustCompile(`(?s)<main.*</main>`)
	evil = regexp.MustCompile(`<script|<img|\son[a-z]+="|\sstyle="`)
)

// run makes a run of the runner.
func (l *ledger) run(name, status string) events.RunID {
	l.t.Helper()
	id := events.NewRunID()
	l.exec(`INSERT INTO runner.runs (run_id, namespace, kind, name, digest, status, seq, input, labels, trigger, principal, accepted_at, ended_at)
		VALUES ($1, 'default', 'agent', $2, 'sha256:x', $3, 2, '{}', '{}', '{}', 'test', clock_timestamp(), CASE WHEN $3 IN ('completed', 'cancelled') THEN clock_timestamp() END)`, string(id), name, status)
	return id
}

var calls atomic.Int64

// act lets a call of a run act under a key, with that outcome.
func (l *ledger) act(run events.RunID, tool, key, args, state string, change ...func(*tools.Call)) (events.CallID, string) {
	l.t.Helper()
	c := tools.Call{ID: events.NewCallID(run, calls.Add(1), 0), RunID: run, Namespace: "default", Tool: tool, ToolDigest: "sha256:x", Pool: "default",
		Args: []byte(args), ArgsDigest: events.DigestOf([]byte(args)), MintedKey: key, Key: key}
	for _, f := range change {
		f(&c)
	}
	a := tools.Attempt{CallID: c.ID, EffectID: tools.EffectID("default", tool, key), ID: "t-" + key, Epoch: 1}
	if _, err := l.store.Begin(l.t.Context(), tools.Begin{Call: c, EffectID: a.EffectID, AttemptID: a.ID, Worker: "w-1", Lease: time.Second}); err != nil {
		l.t.Fatal(err)
	}
	con := tools.Conclusion{State: state}
	receipt := tools.Receipt{Kind: "http", Status: 200, Verdict: "happened", StartedAt: time.Now(), DurationMs: 120}
	if state == tools.EffectUnknown {
		con.InDoubt, con.Error = tools.DoubtAsk, &events.Problem{Code: tools.CodeUnknownOutcome, Message: "no answer within 10 s"}
		receipt.Status, receipt.Verdict, receipt.Error = 0, "ambiguous", "no answer within 10 s"
	}
	if _, mine, err := l.store.Finish(l.t.Context(), tools.Finish{Attempt: a, Worker: "w-1", Acted: true, Conclusion: con, Result: []byte(`{"receipt":98765432109876543210}`), Receipt: receipt}); err != nil || !mine {
		l.t.Fatal(mine, err)
	}
	return c.ID, a.EffectID
}

const hostile = `"><script>alert(1)</script><img src=x onerror=alert(1)>`

// The ledger's page has what is in doubt first and in full, and the rest filtered
// and in pages; hostile text is text, and a filter that makes no sense is said.
func TestPageEffects_LedgerFilterAndPages(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.sees("an empty ledger", "/ui/effects", 200, "Nothing was changed yet")
	run := l.run("pricing", "waiting")
	_, doubt := l.act(run, "set_price", "price:oak", `{"sku":"BOARD-OAK","price":31.50,"note":`+fmt.Sprintf("%q", hostile)+`}`, tools.EffectUnknown)
	_, done := l.act(l.run("refunds", "completed"), "refund", "refund:1", `{"charge":"ch_1","amount":98765432109876543210.10}`, tools.EffectSucceeded)
	l.exec(`INSERT INTO tools.receipts (effect_id, attempt_id, epoch, worker, late, body) VALUES ($1, 'late', 0, 'w-0', true, '{"verdict":"happened","status":200,"duration_ms":9}')`, done)
	page := l.sees("the ledger", "/ui/effects", 200, "Did set_price happen: sku BOARD-OAK, price 31.50", "No clear answer, so it may have happened: no answer within 10 s",
		"amount 98765432109876543210.10", "receipt 98765432109876543210", "may have happened twice", `id="effects-tally" data-live="effects"`, `data-rows`, "Look closer and settle")
	if strings.Index(page, "Did set_price happen") > strings.Index(page, "amount 98765432109876543210.10") || strings.Contains(page, `id="e-`+doubt) {
		t.Error("what is in doubt does not stand first and once")
	}
	for i := range 60 {
		l.act(run, "count", fmt.Sprintf("count:%d", i), fmt.Sprintf(`{"n":%d}`, i), tools.EffectSucceeded)
	}
	row := regexp.MustCompile(`<tr role="row" id="e-`)
	next := regexp.MustCompile(`href="(/ui/effects\?[^"]*cursor=[^"]*)"`)
	seen, path := 0, "/ui/effects?tool=count&from=2020-01-01T00:00"
	for range 3 {
		body := l.sees("a page of the ledger", path, 200)
		seen += len(row.FindAllString(body, -1))
		m := next.FindStringSubmatch(body)
		if m == nil {
			break
		}
		path = strings.ReplaceAll(m[1], "&amp;", "&")
	}
	if seen != 60 {
		t.Errorf("the pages have %d rows, want 60", seen)
	}
	for query, want := range map[string]int{
		"state=in_doubt": 1, "state=succeeded&tool=refund": 1, "key=refund%3A1": 1, "key=refund": 0, "text=board-oak": 1, "text=n%22%3A59": 1, "text=nowhere": 0, "twice=1": 1,
		"run=" + string(run) + "&tool=set_price": 1, "run=" + string(events.NewRunID()): 0, "to=2020-01-01T00:00": 0, "state=held": 0,
	} {
		body := l.sees(query, "/ui/effects?"+query, 200)
		if n := len(row.FindAllString(body, -1)); n != want {
			t.Errorf("%s lists %d, want %d", query, n, want)
		}
		if want == 0 && !strings.Contains(body, "No effect matches") {
			t.Errorf("%s says nothing", query)
		}
	}
	for query, text := range map[string]string{
		"state=nonsense": "there is no state", "run=nonsense": "is not the id of a run", "from=yesterday": "From is not a time", "to=1": "To is not a time",
		"from=2026-01-02&to=2026-01-01": "From is not before To", "key=a%00b": "zero byte",
		"text=" + strings.Repeat("x", 201): "longer than anything", "key=" + strings.Repeat("x", 1001): "longer than anything", "tool=" + strings.Repeat("x", 201): "longer than anything",
	} {
		body := l.sees(query, "/ui/effects?"+query, 422, `role="alert"`, text)
		for name, typed := range map[string]string{"run=nonsense": `value="nonsense"`, "from=yesterday": `value="yesterday"`} {
			if name == query && !strings.Contains(body, typed) {
				t.Errorf("%s: what was typed is gone", query)
			}
		}
	}
	l.sees("a cursor of somebody else", "/ui/effects?cursor=abc", 400, "cursor", `role="alert"`)
	l.sees("an effect that is not there", "/ui/effects/e-nothing", 404, "there is no effect", `role="alert"`)
	l.token = doortest.TokenIn("other", authn.Admin)
	if body := l.sees("another namespace", "/ui/effects", 200, "Nothing was changed yet"); strings.Contains(body, "oak") {
		t.Error("another namespace sees it")
	}
	l.sees("another namespace", "/ui/effects/"+doubt, 404)
}

// Who may settles a doubt on a page that says first what will follow; nothing is
// done before it is confirmed, and what changed meanwhile is not settled unseen.
func TestPageEffects_Settle(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	run := l.run("pricing", "waiting")
	yes := func(c *tools.Call) {
		c.Approval = &events.Approved{ID: "apr-1", By: "maria", At: time.Now(), ValidUntil: time.Now().Add(time.Hour)}
	}
	_, id := l.act(run, "set_price", "price:oak", `{"price":31.50}`, tools.EffectUnknown, yes)
	// A second call of another run, which has ended, shares the key.
	ended := l.run("twin", "cancelled")
	l.exec(`INSERT INTO tools.calls (call_id, run_id, namespace, tool, tool_digest, pool, args, args_digest, minted_key, key, effect_id, status)
		VALUES ($1, $2, 'default', 'set_price', 'sha256:x', 'default', '{}', 'd', 'k', 'k', $3, 'unknown')`, string(events.NewCallID(ended, 1, 0)), string(ended), id)
	path := "/ui/effects/" + id
	l.sees("one effect", path, 200, "Did set_price happen: price 31.50?", "What happened?", "opened it and acts", `href="/ui/approvals/apr-1"`, "maria", "twin", "sha256:", "No clear answer", `name="verdict"`)
	for _, role := range []authn.Role{authn.Viewer, authn.Operator, authn.Approver} {
		l.token = doortest.Token(role)
		if body := l.sees("one effect as "+role.String(), path, 200, "needs the role admin"); strings.Contains(body, "<form") {
			t.Errorf("%s sees a form", role)
		}
		if status, _, _ := l.page(http.MethodPost, path, url.Values{"verdict": {"happened"}, "epoch": {"1"}, "evidence": {"x"}, "sure": {"yes"}}); status != 403 {
			t.Errorf("%s settles: %d", role, status)
		}
	}
	l.token = doortest.Token(authn.Admin)
	post := func(what string, status int, form url.Values, texts ...string) string {
		t.Helper()
		got, body, to := l.page(http.MethodPost, path, form)
		l.says(what, got, body, status, texts...)
		return to
	}
	with := func(more ...string) url.Values {
		form := url.Values{"epoch": {"1"}, "verdict": {"happened"}, "evidence": {"seen in the shop"}}
		for i := 0; i < len(more); i += 2 {
			form.Set(more[i], more[i+1])
		}
		return form
	}
	post("no verdict", 422, with("verdict", ""), "Choose what happened", "seen in the shop")
	post("no evidence", 422, with("evidence", " "), "Say how you know")
	post("a result that is no JSON", 422, with("result", "p-17"), "not JSON", ">p-17<")
	post("a result that is too long", 422, with("result", `"`+strings.Repeat("x", 65536)+`"`), "more than 65,536 bytes")
	post("too much of how", 422, with("evidence", strings.Repeat("x", 4001)), "4,000 bytes")
	post("a result of nothing", 422, with("verdict", "not_happened", "result", "1"), "Only what happened has a result")
	post("without an epoch", 422, with("epoch", ""), "not the one of this page")
	post("another epoch", 409, with("epoch", "7", "sure", "yes"), "look again", "Your answer was not used")
	post("what follows from not", 200, with("verdict", "not_happened"), "It is sent now, under the same key, as epoch 3", "must still be valid", "wants the same", "waits for that act", "did not happen")
	post("what follows from yes", 200, with("result", `{"id":12345678901234567890.10}`), "goes on as if the other side had answered", "has ended (cancelled)", "12345678901234567890.10", `name="sure"`)
	if e := l.send(http.MethodGet, "/v1/effects/"+id, ""); e.State != "unknown" || strings.Contains(e.body, "settled_by") {
		t.Fatalf("it was settled before anybody was sure: %s", e.body)
	}
	if to := post("the verdict", 303, with("result", `{"id":12345678901234567890.10}`, "sure", "yes")); to != path+"?done=settled" {
		t.Errorf("it leads to %q", to)
	}
	l.sees("what was settled", path+"?done=settled", 200, "Settled by admin", "12345678901234567890.10", "seen in the shop", "admin says so")
	shown := l.send(http.MethodGet, "/v1/effects/"+id, "")
	for _, text := range []string{`"verdict":"happened"`, `"comment":"seen in the shop"`, `"opened":true`, `"approved_by":"maria"`, `"run":"twin"`} {
		if !strings.Contains(shown.body, text) {
			t.Errorf("the door does not say %s: %s", text, shown.body)
		}
	}
	post("a second verdict", 409, with("verdict", "give_up", "sure", "yes"), "was resolved by admin", "Your answer was not used")
	if _, totals, _ := l.page(http.MethodGet, "/v1/effects/totals", nil); !strings.Contains(totals, `"in_doubt":0,`) || !strings.Contains(totals, `"duplicates_prevented":1,`) || !strings.Contains(totals, `"happened":1,`) {
		t.Errorf("totals %s", totals)
	}
}

// A stop says what it means before it counts, is listed with who and why, and is
// lifted from a page of its own; all is for administrators, and viewers see no form.
func TestPageStops_StopAndLift(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	run := l.run("pricing", "waiting")
	l.sees("without stops", "/ui/stops", 200, "Nothing is stopped", "No stop was ever lifted", `value="all"`)
	post := func(what, path string, status int, form url.Values, texts ...string) string {
		t.Helper()
		got, body, to := l.page(http.MethodPost, path, form)
		l.says(what, got, body, status, texts...)
		return to
	}
	stop := func(scope, name, note string, more ...string) url.Values {
		form := url.Values{"scope": {scope}, "name": {name}, "note": {note}}
		if len(more) > 0 {
			form.Set("sure", more[0])
		}
		return form
	}
	post("no reason", "/ui/stops", 422, stop("tool", "set_price", ""), "say why", "Nothing was stopped", `value="set_price"`)
	post("no scope", "/ui/stops", 422, stop("", "x", "y"), "want all, agent or tool")
	post("what all means", "/ui/stops", 200, stop("all", "", hostile), "1 run has not ended", "cannot be called back", "Stop all writes of everything?")
	post("a name that nothing has", "/ui/stops", 200, stop("tool", "set_prize", "y"), "never seen that tool")
	post("an agent without runs", "/ui/stops", 200, stop("agent", "prizing", "y"), "No run of that name")
	if body := l.sees("nothing is stopped yet", "/ui/stops", 200, "Nothing is stopped"); strings.Contains(body, "Lift<") {
		t.Error("it was stopped before anybody was sure")
	}
	l.token = doortest.Token(authn.Operator)
	if body := l.sees("an operator", "/ui/stops", 200, "needs the role admin"); strings.Contains(body, `value="all"`) {
		t.Error("an operator is offered everything")
	}
	post("all by an operator", "/ui/stops", 403, stop("all", "", "y", "yes"), "needs the role admin", "Nothing was stopped")
	if to := post("a tool by an operator", "/ui/stops", 303, stop("tool", "set_price", hostile, "yes")); to != "/ui/stops?done=stopped" {
		t.Errorf("it leads to %q", to)
	}
	// What the tool wants now is held.
	c := tools.Call{ID: events.NewCallID(run, 900, 0), RunID: run, Namespace: "default", Tool: "set_price", ToolDigest: "sha256:x", Pool: "default",
		Args: []byte(`{"sku":"OAK"}`), ArgsDigest: events.DigestOf([]byte(`{"sku":"OAK"}`)), MintedKey: "price:oak", Key: "price:oak"}
	if began, err := l.store.Begin(t.Context(), tools.Begin{Call: c, EffectID: tools.EffectID("default", "set_price", "price:oak"), AttemptID: "a", Worker: "w", Lease: time.Second}); err != nil || began.Held == "" {
		t.Fatal(began, err)
	}
	body := l.sees("what is stopped", "/ui/stops?done=stopped", 200, "tool set_price", "operator", ">1<", "Stopped. No process begins", "Lift")
	path := regexp.MustCompile(`/ui/stops/stop-[0-9a-f]+`).FindString(body)
	l.sees("the stop", path, 200, "Lift the stop of tool set_price?", "1 held effect goes on by itself", "sku OAK", "price:oak")
	l.sees("the ledger", "/ui/effects?state=held", 200, "Waits until the stop is lifted")
	l.token = doortest.Token(authn.Viewer)
	if body := l.sees("a viewer", path, 200, "sku OAK"); strings.Contains(body, "<form") {
		t.Error("a viewer is offered to lift")
	}
	if body := l.sees("a viewer", "/ui/stops", 200, "needs the role operator"); strings.Contains(body, "<form") {
		t.Error("a viewer is offered to stop")
	}
	post("a viewer lifts", path, 403, url.Values{"sure": {"yes"}})
	l.token = doortest.TokenIn("other", authn.Admin)
	l.sees("another namespace", path, 404, "there is no stop")
	post("another namespace lifts", path, 404, url.Values{"sure": {"yes"}})
	l.sees("another namespace", "/ui/stops", 200, "Nothing is stopped")
	l.token = doortest.Token(authn.Admin)
	post("everything", "/ui/stops", 303, stop("all", "", "y", "yes"))
	for _, found := range regexp.MustCompile(`/ui/stops/stop-[0-9a-f]+`).FindAllString(l.sees("both", "/ui/stops", 200, "everything"), -1) {
		l.token = doortest.Token(authn.Operator)
		if found == path {
			continue
		}
		post("an operator lifts what only an admin stops", found, 403, url.Values{"sure": {"yes"}}, "needs the role admin", "Nothing was lifted")
		if body := l.sees("an operator", found, 200); strings.Contains(body, "<form") {
			t.Error("an operator is offered to lift what only an admin stops")
		}
		l.token = doortest.Token(authn.Admin)
		post("a note that is too long", found, 422, url.Values{"sure": {"yes"}, "note": {strings.Repeat("x", tools.MaxStopNote+1)}}, "Nothing was lifted")
		post("an admin lifts it", found, 303, url.Values{"sure": {"yes"}})
		break
	}
	l.token = doortest.Token(authn.Operator)
	post("lift unsure", path, 422, url.Values{}, "Nothing was lifted")
	if to := post("lift", path, 303, url.Values{"sure": {"yes"}, "note": {"prices are right"}}); to != "/ui/stops?done=lifted" {
		t.Errorf("it leads to %q", to)
	}
	post("lift again", path, 409, url.Values{"sure": {"yes"}}, "operator lifted it already")
	l.sees("afterwards", "/ui/stops?done=lifted", 200, "Nothing is stopped", "prices are right", "Lifted. What was held")
	l.sees("a cursor of somebody else", "/ui/stops?cursor=abc", 400, "cursor")
}

// TestPageStops_EndedOnesAreReadInParts: what was lifted is listed thirty at a time, the
// newest first, each once, and a stop that stands is not among them.
func TestPageStops_EndedOnesAreReadInParts(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	_, err := l.db.Pool.Exec(t.Context(), `INSERT INTO tools.stops (stop_id, namespace, scope, name, principal, note, since, ended_at, ended_by)
		SELECT 'stop-' || lpad(n::text, 4, '0'), CASE WHEN n > 80 THEN 'other' ELSE 'default' END, 'tool', 't-' || n, 'maria', 'n', '2026-01-01T00:00:00Z'::timestamptz + n * interval '1 min', CASE WHEN n <> 40 THEN '2026-02-01T00:00:00Z'::timestamptz END, CASE WHEN n <> 40 THEN 'ben' END
		  FROM generate_series(1, 85) n`)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	pages := 0
	for path := "/ui/stops"; path != ""; pages++ {
		body := l.sees("a part", path, 200)
		_, ended, ok := strings.Cut(body, "Stops that were lifted, the newest first")
		if !ok {
			t.Fatalf("no list of what was lifted:\n%s", body)
		}
		for _, m := range regexp.MustCompile(`tool (t-[0-9]+)`).FindAllStringSubmatch(ended, -1) {
			got = append(got, m[1])
		}
		next := regexp.MustCompile(`href="(/ui/stops\?cursor=[^"]*)"`).FindStringSubmatch(body)
		if path = ""; next != nil && pages < 9 {
			path = html.UnescapeString(next[1])
		}
	}
	var want []string
	for n := 80; n > 0; n-- {
		if n != 40 {
			want = append(want, fmt.Sprintf("t-%d", n))
		}
	}
	if pages != 3 || !slices.Equal(got, want) {
		t.Errorf("%d parts list %v, want 3 with %v", pages, got, want)
	}
}
