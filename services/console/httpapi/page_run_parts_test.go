package httpapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// What was said in a run reads as a talk, with results at their calls, thoughts folded,
// hostile text as text, and what is long behind a link.
func TestRunPage_MessagesAreAChat(t *testing.T) {
	t.Parallel()
	r := setup(t)
	id := events.NewRunID()
	r.take("default", id, "shop", `{}`)
	evil := `<script>alert(1)</script>`
	digest := r.define("agent", "shop", `{"model":"m","instructions":"Be careful.","prompt":"Look at ${input.id}."}`)
	r.exec(`UPDATE runner.runs SET digest = $2 WHERE run_id = $1`, id, digest)
	call := func(n string) string { return fmt.Sprintf("%s-%s", id, n) }
	r.fact(id, "model_answered", `{"model_name":"careful","text":"I look `+evil+`","raw":"{\"content\":[{\"type\":\"thinking\",\"thinking\":\"deep `+evil+`\"}]}","calls":[{"call_id":"`+call("2-0")+`","tool":"read","route":"send","args":{"n":12345678901234567890}}]}`)
	r.fact(id, "tool_completed", `{"call_id":"`+call("2-0")+`","tool":"read","status":"succeeded","result":"`+evil+strings.Repeat("y", 100_000)+`"}`)
	r.fact(id, "message_received", `{"text":"Try\nthe other.","principal":"ada `+evil+`"}`)
	_, raw := r.page("/ui/runs/"+string(id), authn.Operator)
	for _, want := range []string{
		"Look at 9007199254740993.", "<summary>Instructions</summary>", "Be careful.", "I look &lt;script&gt;", "<summary>What it thought</summary>", "deep &lt;script&gt;", "&#34;n&#34;: 12345678901234567890",
		"&lt;script&gt;alert(1)&lt;/script&gt;yyy", "Try\nthe other.", "ada &lt;script&gt;", `href="/ui/runs/` + string(id) + `/rows/3"`, "The whole result", "/fork?at=3&amp;call=" + call("2-0"),
		`<div class="msg tokens" id="tokens" data-tokens="` + string(id) + `">`, `id="chat" data-live="run:` + string(id) + `"`, "asks for read",
	} {
		if !strings.Contains(raw, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if len(raw) > 80_000 || strings.Contains(raw, "<script>") || strings.Contains(raw, "<details open") {
		t.Errorf("%d bytes\n%s", len(raw), raw[:min(len(raw), 40_000)])
	}
	if _, raw := r.page("/ui/runs/"+string(id), authn.Viewer); strings.Contains(raw, "Fork with another result") {
		t.Error("a viewer is offered a fork")
	}
	r.exec(`UPDATE runner.runs SET status = 'completed', ended_at = clock_timestamp() WHERE run_id = $1`, id)
	if _, raw := r.page("/ui/runs/"+string(id), authn.Viewer); strings.Contains(raw, "data-tokens") {
		t.Error("nothing is written any more, and the page waits for it")
	}
}

// What belongs to a run stands beside it: what is in doubt first, ceilings as bars with
// exact figures, what people were asked, what it left.
func TestRunPage_Parts(t *testing.T) {
	t.Parallel()
	r := setup(t)
	id := events.NewRunID()
	r.take("default", id, "shop", `{}`)
	if _, raw := r.page("/ui/runs/"+string(id), authn.Viewer); !strings.Contains(raw, "No budget, plan, approval or effect yet.") {
		t.Error("nothing says that there is nothing")
	}
	for i, state := range []string{"succeeded", "unknown"} {
		call := string(events.NewCallID(id, int64(i+2), 0))
		r.exec(`INSERT INTO tools.effects (effect_id, namespace, tool, key, state, epoch, call_id, run_id, args, args_digest, in_doubt) VALUES ($1, 'default', $4, $1, $5, 1, $2, $3, '{}', 'd', CASE WHEN $5 = 'unknown' THEN 'ask' END)`, fmt.Sprint("e", i), call, string(id), "pay-"+state, state)
		r.exec(`INSERT INTO tools.calls (call_id, run_id, namespace, tool, tool_digest, pool, args, args_digest, minted_key, key, traceparent, effect_id, acting, status, epoch) VALUES ($2, $3, 'default', $4, 'd', 'default', '{}', 'd', 'k', $1, '', $1, false, $5, 1)`, fmt.Sprint("e", i), call, string(id), "pay-"+state, state)
	}
	r.exec(`INSERT INTO tools.artifacts (artifact_id, namespace, run_id, call_id, tool, name, content_type, title, bytes, digest) VALUES ('a-1', 'default', $1, 'c', 'look', 'summary.md', 'text/markdown', '', 6246, 'd')`, id)
	r.fact(id, "plan_changed", `{"call_id":"c","replace":true,"items":[{"id":"1","title":"Read reports","state":"done"},{"id":"2","title":"Compare","state":"in_progress"}]}`)
	digest := r.define("agent", "shop", `{"model":"m","instructions":"i","budget":{"tokens":1000,"toolCalls":10}}`)
	r.exec(`UPDATE runner.runs SET digest = $2, tokens = 974, tool_calls = 10 WHERE run_id = $1`, id, digest)
	_, raw := r.page("/ui/runs/"+string(id), authn.Viewer)
	for _, want := range []string{"pay-unknown</a>", `href="/ui/effects/e1"`, "unknown</span>", `href="/v1/artifacts/a-1" download>summary.md, text/markdown`, "6.0 KiB",
		"974 of 1000", `class="g-used hot" width="97.40%"`, `class="g-used full" width="100.00%"`, `<b class="g-word">over 80 %</b>`, `<b class="g-word bad">used up</b>`, `<li class="done">`, "Compare", `href="/ui/effects?run=` + string(id)} {
		if !strings.Contains(raw, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Index(raw, "pay-unknown") > strings.Index(raw, "pay-succeeded") {
		t.Error("what is in doubt does not stand first")
	}
	if t.Failed() {
		t.Log(raw)
	}
}

// A flow shows its steps with what each is at, and its runs: the first hundred with their
// names, the rest as a number.
func TestRunPage_FlowWithChildren(t *testing.T) {
	t.Parallel()
	r := setup(t)
	id := events.NewRunID()
	r.take("default", id, "night", `{}`)
	digest := r.define("flow", "night", `{"steps":[{"name":"check","agent":"shop","forEach":"${input.shops}","limit":50},{"name":"ask","approval":{"text":"Go on?"},"needs":["check"]},{"name":"publish","agent":"press","needs":["ask"]}]}`)
	r.exec(`UPDATE runner.runs SET kind = 'flow', digest = $2, status = 'waiting' WHERE run_id = $1`, id, digest)
	r.exec(`INSERT INTO runner.runs (run_id, namespace, kind, name, digest, status, seq, input, trigger, accepted_at, parent_run_id, parent_item, tool_calls, ended_at)
		SELECT gen_random_uuid()::text, 'default', 'agent', 'shop', 'sha256:x', CASE WHEN g < 20 THEN 'completed' WHEN g = 20 THEN 'failed' ELSE 'running' END, 1, json_build_object('shop', 'Birch & Pail <' || g || '>'), '{"kind":"child"}', clock_timestamp(), $1, 'check/' || g, g,
		       CASE WHEN g <= 20 THEN clock_timestamp() END FROM generate_series(0, 119) g`, id)
	r.fact(id, "children_started", `{"step":"check","total":120,"children":[`+strings.TrimSuffix(strings.Repeat(`{"item":"check/1","run_id":"x"},`, 120), ",")+`]}`)
	_, raw := r.page("/ui/runs/"+string(id), authn.Viewer)
	for _, want := range []string{"20 completed", "1 failed", "99 running", "Birch &amp; Pail &lt;", `class="tile k-ok"`, "20 more, 120 in all", `class="fb k-run"`, "20 done, 99 open, 1 not completed", "not begun", `<b>publish</b>`, "through the API"} {
		if !strings.Contains(raw, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if n := strings.Count(raw, `<a class="tile`); n != 100 || strings.Contains(raw, `id="messages"`) {
		t.Errorf("%d tiles", n)
	}
	if t.Failed() {
		t.Log(raw)
	}
	// When all have ended and a person is asked, the step that asks waits for that person.
	r.exec(`UPDATE runner.runs SET status = 'completed', ended_at = clock_timestamp() WHERE parent_run_id = $1 AND status = 'running'`, id)
	r.fact(id, "items_started", `{"step":"ask","total":1,"items":[{"item":"ask/0","call":{"call_id":"`+string(events.NewCallID(id, 3, 0))+`","tool":"ask","route":"ask"}}]}`)
	r.exec(`INSERT INTO runner.pending (run_id, namespace, item, kind, detail) VALUES ($1, 'default', 'approval/' || $2, 'approval', 'ask')`, id, string(events.NewCallID(id, 3, 0))+"-a3")
	if _, raw := r.page("/ui/runs/"+string(id), authn.Viewer); !strings.Contains(raw, `class="fb k-you"`) || !strings.Contains(raw, "119 done, 1 not completed") {
		t.Errorf("the step that asks does not wait\n%s", raw)
	}
}

// Runs that are not as others have pages that say so.
func TestRunPage_OddRuns(t *testing.T) {
	t.Parallel()
	r := setup(t)
	queued := r.accept("default", "shop", `{}`)
	if status, raw := r.page("/ui/runs/"+string(queued), authn.Viewer); status != 200 || !strings.Contains(raw, "no runner has taken the run") || !strings.Contains(raw, ">queued<") {
		t.Errorf("a queued run: %d\n%s", status, raw)
	}
	program := get[struct {
		RunID  events.RunID `json:"run_id"`
		Status string       `json:"status"`
		URL    string       `json:"status_url"`
	}](r, "POST", "/v1/runs", authn.Operator, `{"name":"crawler","input":{"a":1}}`)
	if status, raw := r.page("/ui/runs/"+string(program.RunID), authn.Admin); status != 200 || !strings.Contains(raw, "Its own program drives this run") || offered(raw) != "" || !strings.Contains(raw, "program_started") {
		t.Errorf("a program's run: %d offers %q\n%s", status, offered(raw), raw)
	}
	for _, order := range []string{"fork", "cancel", "message"} {
		if status, raw := r.page("/ui/runs/"+string(program.RunID)+"/"+order, authn.Operator); status != 200 || strings.Contains(raw, "<form") {
			t.Errorf("%s of a program's run: %d\n%s", order, status, raw)
		}
	}
	damaged := events.NewRunID()
	r.take("default", damaged, "shop", `{}`)
	r.fact(damaged, "plan_changed", `{"items":"x"}`)
	if status, raw := r.page("/ui/runs/"+string(damaged), authn.Operator); status != 200 || !strings.Contains(raw, "cannot be read") || !strings.Contains(raw, `id="f2"`) {
		t.Errorf("a damaged run: %d\n%s", status, raw)
	}
	gone := r.ended(1, "completed", 0)
	if status, _, raw := r.do("DELETE", "/v1/runs/"+gone, doortest.Token(authn.Operator), ""); status != 202 {
		t.Fatalf("delete: %d %s", status, raw)
	}
	r.deleted()
	status, raw := r.page("/ui/runs/"+gone, authn.Viewer)
	if status != 410 || !strings.Contains(raw, "was deleted at") || !strings.Contains(raw, "by operator") || !strings.Contains(raw, "<h1>") {
		t.Errorf("a deleted run: %d\n%s", status, raw)
	}
	if status, raw := r.page("/ui/runs/"+string(damaged)+"?at=x", authn.Viewer); status != 422 || !strings.Contains(raw, "numbered from 1") || !strings.Contains(raw, "<h1>") {
		t.Errorf("a bad question: %d\n%s", status, raw)
	}
	if status, _, raw := r.do("GET", "/ui/runs/"+gone, doortest.Token(authn.Viewer), ""); status != 410 || !strings.Contains(raw, `"code"`) {
		t.Errorf("for a program that asks: %d\n%s", status, raw)
	}
}
