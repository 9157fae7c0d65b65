package httpapi_test

import (
	"encoding/json"
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// page opens a page as a person of that role.
func (r *rig) page(path string, role authn.Role) (status int, raw string) {
	r.t.Helper()
	status, _, raw = r.do("GET", path, "", "", "Cookie", door.SessionCookie+"="+doortest.Token(role), "Sec-Fetch-Site", "same-origin", "Accept", "text/html")
	return status, raw
}

// press sends a form of a page as a person of that role, and says where it leads to.
func (r *rig) press(path string, role authn.Role, fields url.Values) (status int, to, raw string) {
	r.t.Helper()
	status, h, raw := r.do("POST", path, "", fields.Encode(), "Cookie", door.SessionCookie+"="+doortest.Token(role), "Sec-Fetch-Site", "same-origin", "Content-Type", "application/x-www-form-urlencoded")
	return status, h.Get("Location"), raw
}

var ordered = regexp.MustCompile(`(?:action|class="btn[^"]*" href)="/ui/runs/[0-9a-f-]{36}/([a-z]+)"`)

// offered is what a page offers to order, in the order of its buttons.
func offered(raw string) (out string) {
	for _, m := range ordered.FindAllStringSubmatch(raw, -1) {
		out += m[1] + " "
	}
	return strings.TrimSpace(out)
}

// A page offers what the run could carry out and its reader may order, and nothing else.
func TestRunPage_OffersWhatCanWork(t *testing.T) {
	t.Parallel()
	r := setup(t)
	id := events.NewRunID()
	r.take("default", id, "shop", `{"night":"2026-11-28"}`)
	path := "/ui/runs/" + string(id)
	for name, tc := range map[string]struct {
		role         authn.Role
		status, kind string
		want         string
	}{
		"a viewer":              {authn.Viewer, "running", "agent", ""},
		"an approver":           {authn.Approver, "running", "agent", ""},
		"it runs":               {authn.Operator, "running", "agent", "pause message fork cancel"},
		"it runs, for an admin": {authn.Admin, "waiting", "agent", "pause message budget fork cancel"},
		"it stands still":       {authn.Operator, "paused", "agent", "resume message fork cancel"},
		"it is parked":          {authn.Operator, "needs_attention", "agent", "resume message fork cancel"},
		"it is being cancelled": {authn.Admin, "cancelling", "agent", "fork"},
		"it failed":             {authn.Operator, "failed", "agent", "retry fork"},
		"it completed":          {authn.Admin, "completed", "agent", "fork"},
		"it is a flow's":        {authn.Operator, "running", "flow", "pause cancel"},
		"a flow failed":         {authn.Operator, "failed", "flow", "retry"},
	} {
		r.exec(`UPDATE runner.runs SET status = $2, kind = $3, ended_at = CASE WHEN $2 IN ('failed', 'completed') THEN clock_timestamp() END WHERE run_id = $1`, id, tc.status, tc.kind)
		status, raw := r.page(path, tc.role)
		if cancel, _ := r.page(path+"/cancel", tc.role); (cancel == 200) != tc.role.Allows(authn.Operator) {
			t.Errorf("%s: the page that asks answers %d", name, cancel)
		}
		if got := offered(raw); status != 200 || got != tc.want {
			t.Errorf("%s: %d offers %q, want %q", name, status, got, tc.want)
		}
		if canDelete := strings.Contains(raw, `action="/ui/runs/delete"`); canDelete != (tc.role.Allows(authn.Operator) && (tc.status == "failed" || tc.status == "completed")) {
			t.Errorf("%s: deleting it is offered: %v", name, canDelete)
		}
	}

	// One that waits for a signal, one with another version, one that no runner has.
	r.exec(`UPDATE runner.runs SET status = 'waiting', kind = 'agent', ended_at = NULL WHERE run_id = $1`, id)
	r.exec(`INSERT INTO runner.pending (run_id, namespace, item, kind, detail) VALUES ($1, 'default', 'signal/x', 'signal', '{"Name":"stock"}')`, id)
	r.exec(`WITH v AS (INSERT INTO catalog.versions (namespace, kind, name, digest, body, created_by) VALUES ('default', 'agent', 'shop', 'sha256:' || repeat('a', 64), '{}', 'maria') RETURNING *)
		INSERT INTO catalog.current (namespace, kind, name, digest, version, updated_by) SELECT namespace, kind, name, digest, 1, 'maria' FROM v`)
	if _, raw := r.page(path, authn.Operator); offered(raw) != "pause message signal migrate fork cancel" || !strings.Contains(raw, "waiting for signal stock") {
		t.Errorf("it waits for a signal: %q", offered(raw))
	}
	queued := r.accept("default", "shop", `{}`)
	if status, raw := r.page("/ui/runs/"+string(queued), authn.Operator); status != 200 || offered(raw) != "pause message cancel" || !strings.Contains(raw, "no runner has taken it") {
		t.Errorf("a queued run: %d %q", status, offered(raw))
	}
	if status, _ := r.page("/ui/runs/"+string(events.NewRunID()), authn.Operator); status != 404 {
		t.Errorf("a run that is not there: %d", status)
	}
	r.exec(`UPDATE runner.runs SET namespace = 'elsewhere' WHERE run_id = $1`, id)
	for _, order := range []string{"", "/cancel", "/message", "/signal", "/migrate", "/fork", "/budget"} {
		if status, raw := r.page(path+order, authn.Admin); status != 404 || strings.Contains(raw, "stock") {
			t.Errorf("%s of another namespace: %d", order, status)
		}
	}
}

// What a form orders is what the API would order, once for each form, and what is wrong
// with it is said on the page with what was typed.
func TestRunPage_FormsOrderOnce(t *testing.T) {
	t.Parallel()
	r := setup(t)
	id := events.NewRunID()
	r.take("default", id, "shop", `{}`)
	path := "/ui/runs/" + string(id)
	key := "9b6f4f9e-0d5e-4d55-8f6a-3a9d2a1f6d10"
	commands := func(kind string) (n int64) {
		return r.number(`SELECT count(*) FROM console.commands WHERE kind = '` + kind + `'`)
	}
	last := func(kind string) (body map[string]any) {
		t.Helper()
		var raw []byte
		if err := r.db.QueryRow(t.Context(), `SELECT body FROM console.commands WHERE kind = $1 ORDER BY id DESC LIMIT 1`, kind).Scan(&raw); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, &body); err != nil {
			t.Fatal(err)
		}
		return body
	}
	for range 2 { // the second is the same form again
		if status, to, raw := r.press(path+"/pause", authn.Operator, url.Values{"key": {key}}); status != 303 || to != path+"?done=pause" {
			t.Fatalf("pause: %d %s %s", status, to, raw)
		}
	}
	if n := commands("pause"); n != 1 || last("pause")["principal"] != "operator" || last("pause")["reason"] != "from the console" {
		t.Errorf("%d pauses, the last %v", n, last("pause"))
	}
	if _, raw := r.page(path+"?done=pause", authn.Operator); !strings.Contains(raw, "asked to stand still") {
		t.Error("nobody is told what came of it")
	}
	if _, raw := r.page(path+"?done=%3Cscript%3E", authn.Operator); strings.Contains(raw, "<script>") {
		t.Error("the page shows what stood in its address")
	}
	r.exec(`UPDATE runner.runs SET status = 'paused' WHERE run_id = $1`, id)
	if status, _, _ := r.press(path+"/resume", authn.Operator, url.Values{"key": {"no key"}}); status != 303 || commands("resume") != 1 {
		t.Errorf("resume: %d, %d commands", status, commands("resume"))
	}
	r.exec(`UPDATE runner.runs SET status = 'running' WHERE run_id = $1`, id)

	// A text keeps its lines; what is wrong is said beside it.
	if status, _, _ := r.press(path+"/message", authn.Operator, url.Values{"text": {"one\r\ntwo <b>"}, "key": {key}}); status != 409 {
		t.Errorf("the key of another order: %d", status)
	}
	if status, to, _ := r.press(path+"/message", authn.Operator, url.Values{"text": {"one\r\ntwo <b>"}}); status != 303 || to != path+"?done=message" || last("message")["text"] != "one\ntwo <b>" {
		t.Errorf("a message: %d %s %v", status, to, last("message"))
	}
	for _, tc := range []struct {
		name, order string
		role        authn.Role
		form        url.Values
		status      int
		want        string
	}{
		{"a blank message", "message", authn.Operator, url.Values{"text": {" "}}, 422, "blank"},
		{"a signal without a name", "signal", authn.Operator, url.Values{"name": {"a b"}, "data": {"<i>1</i>"}}, 422, "signal name"},
		{"a signal with no JSON", "signal", authn.Operator, url.Values{"name": {"stock"}, "data": {"{"}}, 422, "data"},
		{"no number", "budget", authn.Admin, url.Values{"budget": {"tokens"}, "to": {"1e3"}}, 422, "no ceiling"},
		{"no budget", "budget", authn.Admin, url.Values{"budget": {"<x>"}, "to": {"10"}}, 422, "is unknown"},
		{"a viewer", "cancel", authn.Viewer, nil, 403, ""},
		{"an operator raises", "budget", authn.Operator, url.Values{"budget": {"tokens"}, "to": {"10"}}, 403, ""},
		{"a retry of what goes on", "retry", authn.Operator, nil, 409, "nothing to retry"},
		{"a fork at a row that is not there", "fork", authn.Operator, url.Values{"at": {"99"}, "message": {"<i>again</i>"}}, 422, "journal of"},
		{"a fork at no row", "fork", authn.Operator, url.Values{"at": {"x"}}, 422, "numbered from 1"},
		{"no version", "migrate", authn.Operator, url.Values{"to": {"sha256:1"}}, 422, "digest of a version"},
	} {
		status, _, raw := r.press(path+"/"+tc.order, tc.role, tc.form)
		if status != tc.status || !strings.Contains(html.UnescapeString(raw), tc.want) {
			t.Errorf("%s: %d, want %d with %q\n%s", tc.name, status, tc.status, tc.want, raw)
		}
		for _, typed := range tc.form {
			if tc.status == 422 && strings.Contains(raw, "<form") && typed[0] != " " && !strings.Contains(raw, html.EscapeString(typed[0])) && tc.order != "budget" {
				t.Errorf("%s: %q was typed and is gone", tc.name, typed[0])
			}
		}
	}
	if status, _, _ := r.press(path+"/signal", authn.Operator, url.Values{"name": {"stock"}, "waitkey": {"shop-4"}, "data": {"12345678901234567890"}}); status != 303 {
		t.Errorf("a signal: %d", status)
	}
	if n := r.number(`SELECT count(*) FROM console.commands WHERE kind = 'signal' AND body::text LIKE '%12345678901234567890%' AND body->>'key' = 'shop-4'`); n != 1 {
		t.Errorf("%d signals with every digit", n)
	}
	if status, to, _ := r.press(path+"/budget", authn.Admin, url.Values{"budget": {"cost"}, "to": {"9007199254740993"}, "reason": {"night"}}); status != 303 || to != path+"?done=budget" {
		t.Errorf("a budget: %d", status)
	}
	if n := r.number(`SELECT count(*) FROM console.commands WHERE kind = 'raise_budget' AND (body->>'to') = '9007199254740993' AND body->>'reason' = 'night'`); n != 1 {
		t.Errorf("%d raises", n)
	}
}

// A cancel asks first, with what it touches; it ends what runs below, and what was left
// alone only if that is ticked.
func TestRunPage_CancelAsksFirst(t *testing.T) {
	t.Parallel()
	r := setup(t)
	id, child, alone := events.NewRunID(), events.NewRunID(), events.NewRunID()
	for _, run := range []events.RunID{id, child, alone} {
		r.take("default", run, "shop", `{}`)
	}
	r.exec(`UPDATE runner.runs SET parent_run_id = $2, parent_item = 'call/2-0' WHERE run_id = ANY($1)`, []string{string(child), string(alone)}, id)
	r.exec(`INSERT INTO runner.pending (run_id, namespace, item, kind, detail) VALUES ($1, 'default', 'child/a', 'child', $2), ($1, 'default', 'child/b', 'started', $3), ($1, 'default', 'call/c', 'tool', 'set_price')`, id, child, alone)
	path := "/ui/runs/" + string(id)
	status, raw := r.page(path+"/cancel", authn.Operator)
	if status != 200 || !strings.Contains(raw, "waiting for tool set_price") || !strings.Contains(raw, `href="/ui/runs/`+string(child)+`"`) || strings.Contains(raw, string(alone)) ||
		!strings.Contains(raw, "Cancel the 1 runs too") || strings.Contains(raw, "checked") || !strings.Contains(raw, `action="`+path+`/pause"`) {
		t.Errorf("the question: %d\n%s", status, raw)
	}
	cancels := func() int64 { return r.number(`SELECT count(*) FROM console.commands WHERE kind = 'cancel'`) }
	if cancels() != 0 {
		t.Fatal("a GET has cancelled")
	}
	if status, to, _ := r.press(path+"/cancel", authn.Operator, url.Values{"reason": {"wrong shop"}}); status != 303 || to != path+"?done=cancel" || cancels() != 1 {
		t.Errorf("cancel: %d %s, %d commands", status, to, cancels())
	}
	if status, _, _ := r.press(path+"/cancel", authn.Operator, url.Values{"alone": {"yes"}}); status != 303 || cancels() != 3 {
		t.Errorf("with those that it left alone: %d, %d commands", status, cancels())
	}
	r.exec(`UPDATE runner.runs SET status = 'completed', ended_at = clock_timestamp() WHERE run_id = $1`, id)
	if _, raw := r.page(path+"/cancel", authn.Operator); !strings.Contains(raw, "nothing to cancel") || strings.Contains(raw, "<form") {
		t.Error("a run that has ended can be cancelled")
	}
	if status, _, _ := r.press(path+"/cancel", authn.Operator, nil); status != 303 {
		t.Errorf("its end came first: %d", status)
	}
}

// A fork begins where the page says, with what was changed there and nothing else.
func TestRunPage_Fork(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.takeForks()
	id := r.accept("default", "pricing", `{}`)
	r.take("default", id, "pricing", `{}`)
	call := string(events.NewCallID(id, 2, 0))
	r.fact(id, "model_answered", `{"text":"I look <b>first</b>","calls":[{"call_id":"`+call+`","tool":"read"}]}`)
	r.fact(id, "tool_completed", `{"call_id":"`+call+`","tool":"read","result":{"price":12345678901234567890}}`)
	r.fact(id, "model_answered", `{"text":"I know"}`)
	path := "/ui/runs/" + string(id) + "/fork"
	status, raw := r.page(path+"?at=3&call="+call, authn.Operator)
	if status != 200 || !strings.Contains(raw, `<option value="3" selected>before the answer in row 4: I know</option>`) || !strings.Contains(raw, "I look &lt;b&gt;first") ||
		!strings.Contains(raw, "12345678901234567890") || !strings.Contains(raw, "waits for a person") || !strings.Contains(raw, "9007199254740993") {
		t.Errorf("the page: %d\n%s", status, raw)
	}
	shown := url.Values{"at": {"3"}, "call": {call}, "input": {"{\r\n  \"id\": 9007199254740993\r\n}"}, "result": {`{"price": 12345678901234567890}`}, "message": {"Try the other shop."}}
	status, to, raw := r.press(path, authn.Operator, shown)
	if status != 303 || !strings.HasSuffix(to, "?done=fork") || strings.Contains(to, string(id)) {
		t.Fatalf("the fork: %d %s %s", status, to, raw)
	}
	var body string
	if err := r.db.QueryRow(t.Context(), `SELECT body->>'edits' FROM console.commands WHERE kind = 'fork'`).Scan(&body); err != nil || body != `{"message":"Try the other shop."}` {
		t.Errorf("what was left as it was counts as changed: %s, %v", body, err)
	}
	shown.Set("result", `{"price": 1}`)
	if status, _, _ := r.press(path, authn.Operator, shown); status != 303 {
		t.Fatalf("another result: %d", status)
	}
	if n := r.number(`SELECT count(*) FROM console.commands WHERE kind = 'fork' AND replace(body::text, ' ', '') LIKE '%"results":{"` + call + `":{"price":1}}%'`); n != 1 {
		t.Errorf("%d forks with the other result", n)
	}
	shown.Set("input", "{")
	if status, _, raw := r.press(path, authn.Operator, shown); status != 422 || !strings.Contains(raw, "Try the other shop.") || !strings.Contains(raw, `role="alert"`) {
		t.Errorf("a broken input: %d\n%s", status, raw)
	}
	if _, raw := r.page(to, authn.Viewer); !strings.Contains(raw, "Fork of") || !strings.Contains(raw, `href="/ui/runs/`+string(id)+`"`) {
		t.Error("the new run does not lead to the old one")
	}
	if _, raw := r.page("/ui/runs/"+string(id), authn.Viewer); !strings.Contains(raw, "Forked by") {
		t.Error("the old run does not lead to the new one")
	}
	r.exec(`UPDATE runner.runs SET kind = 'flow' WHERE run_id = $1`, id)
	if _, raw := r.page(path, authn.Operator); !strings.Contains(raw, "A flow has no turns") || strings.Contains(raw, "<form") {
		t.Error("a flow can be forked")
	}
}

// fact appends a row of a journal.
func (r *rig) fact(id events.RunID, kind, data string) {
	r.t.Helper()
	r.exec(`WITH run AS (UPDATE runner.runs SET seq = seq + 1 WHERE run_id = $1 RETURNING seq)
		INSERT INTO runner.journal (run_id, seq, kind, status, cause, inbound, worker, at, data)
		SELECT $1, seq, $2, 'running', 'c' || seq, true, 'runner-1', clock_timestamp(), $3::text::json FROM run`, id, kind, data)
}
