package trigger_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/trigger"
)

const callbackDocs = `
apiVersion: holdfast/v1
kind: Agent
metadata: {name: posting}
spec:
  model: claude
  instructions: Take anything.
  callback: {secrets: [{env: HOOK_SECRET}], hosts: [receiver.example, "*.example.com"]}
---
apiVersion: holdfast/v1
kind: Flow
metadata: {name: anywhere}
spec:
  callback: {secrets: [{env: HOOK_SECRET}]}
  steps:
    - {name: check, agent: anything}
`

func TestCallback_TravelsWithTheStart(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, callbackDocs)
	r := w.start(t)
	want := map[string]string{}
	for path, address := range map[string]string{
		"/v1/agents/posting/runs":  "https://Receiver.example:8443/in?a=1&b=%20",
		"/v1/flows/anywhere/runs":  "http://203.0.113.7/",
		"/v1/agents/anything/runs": "",
	} {
		body := `{"input":{}}`
		if address != "" {
			body = fmt.Sprintf(`{"input":{},"callback":{"url":%q}}`, address)
		}
		a := r.api(authn.Operator, "POST", path, body)
		accepted(t, a)
		want[a.RunID] = address
	}
	large := r.api(authn.Operator, "POST", "/v1/agents/posting/runs", `{"input":"`+strings.Repeat("x", 300<<10)+`","callback":{"url":"https://a.b.example.com/"}}`)
	accepted(t, large)
	want[large.RunID] = "https://a.b.example.com/"
	w.publish(t, "hf.in.orders", `{"agent":"posting","input":1,"callback":{"url":"https://receiver.example/in"}}`, "Nats-Msg-Id", "with")

	got := map[string]string{}
	for _, s := range w.collect(t, true).exactly(t, 5) {
		address := ""
		if s.Callback != nil {
			address = s.Callback.URL
		}
		if s.Trigger.Kind == "event" {
			want[string(s.RunID)] = "https://receiver.example/in"
		}
		got[string(s.RunID)] = address
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("callbacks by run (-want +got):\n%s", diff)
	}
	for run, address := range want {
		n := w.count(t, "trigger.v_callbacks WHERE run_id = '"+run+"' AND callback = '"+address+"' AND namespace = 'default'")
		if (address != "") != (n == 1) {
			t.Errorf("run %s with %q is shown %d times", run, address, n)
		}
	}
}

// Each refused address is a 422 that names the place; nothing is started.
func TestCallback_RefusedAddresses(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, callbackDocs)
	r := w.start(t)
	for name, tc := range map[string]struct{ path, callback, place, says string }{
		"the agent takes none":       {"/v1/agents/anything/runs", `{"url":"https://receiver.example/"}`, "callback", "add spec.callback"},
		"the flow takes none":        {"/v1/flows/night/runs", `{"url":"https://receiver.example/"}`, "callback", "add spec.callback"},
		"no address":                 {"/v1/agents/posting/runs", `{}`, "callback.url", "absolute http or https"},
		"an empty address":           {"/v1/agents/posting/runs", `{"url":""}`, "callback.url", "absolute http or https"},
		"a path":                     {"/v1/agents/posting/runs", `{"url":"/in"}`, "callback.url", "absolute http or https"},
		"another scheme":             {"/v1/agents/posting/runs", `{"url":"ftp://receiver.example/"}`, "callback.url", "absolute http or https"},
		"no host":                    {"/v1/agents/posting/runs", `{"url":"https:///in"}`, "callback.url", "absolute http or https"},
		"an opaque address":          {"/v1/agents/posting/runs", `{"url":"https:receiver.example"}`, "callback.url", "absolute http or https"},
		"a user":                     {"/v1/agents/posting/runs", `{"url":"https://me:secret@receiver.example/"}`, "callback.url", "no user"},
		"a fragment":                 {"/v1/agents/posting/runs", `{"url":"https://receiver.example/#a"}`, "callback.url", "no fragment"},
		"an empty fragment":          {"/v1/agents/posting/runs", `{"url":"https://receiver.example/#"}`, "callback.url", "no fragment"},
		"too long":                   {"/v1/agents/posting/runs", `{"url":"https://receiver.example/` + strings.Repeat("a", 2<<10) + `"}`, "callback.url", "at most 2048"},
		"a line break":               {"/v1/agents/posting/runs", `{"url":"https://receiver.example/\r\nX: 1"}`, "callback.url", "printable ASCII"},
		"letters of other alphabets": {"/v1/agents/posting/runs", `{"url":"https://réceiver.example/"}`, "callback.url", "printable ASCII"},
		"another host":               {"/v1/agents/posting/runs", `{"url":"https://evil.example/"}`, "callback.url", `"evil.example" is not among`},
		"a host above the pattern":   {"/v1/agents/posting/runs", `{"url":"https://example.com/"}`, "callback.url", "is not among"},
		"a host that ends alike":     {"/v1/agents/posting/runs", `{"url":"https://evilexample.com/"}`, "callback.url", "is not among"},
		"a host in the path":         {"/v1/agents/posting/runs", `{"url":"https://evil.example/receiver.example"}`, "callback.url", "is not among"},
		"a host behind a user":       {"/v1/agents/posting/runs", `{"url":"https://receiver.example@evil.example/"}`, "callback.url", "no user"},
		"a backslash":                {"/v1/agents/posting/runs", `{"url":"https://evil.example\\.receiver.example/"}`, "callback.url", "not"},
	} {
		a := r.api(authn.Operator, "POST", tc.path, `{"input":{},"callback":`+tc.callback+`}`)
		if a.status != http.StatusUnprocessableEntity || a.Code != trigger.CodeInvalidCallback || len(a.Errors) != 1 || a.Errors[0].Field != tc.place || !strings.Contains(a.Errors[0].Message, tc.says) {
			t.Errorf("%s: %d %s, want 422 at %s that says %q", name, a.status, a.body, tc.place, tc.says)
		}
		if strings.Contains(string(a.body), "secret@") {
			t.Errorf("%s: the answer repeats the password: %s", name, a.body)
		}
	}
	for name, callback := range map[string]string{"text": `"https://receiver.example/"`, "an unknown field": `{"url":"https://receiver.example/","secret":"x"}`} {
		if a := r.api(authn.Operator, "POST", "/v1/agents/posting/runs", `{"callback":`+callback+`}`); a.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	w.publish(t, "hf.in.orders", `{"agent":"posting","input":1,"callback":{"url":"https://evil.example/"}}`, "Nats-Msg-Id", "bad")
	until(t, "the message to be rejected", func() bool { return w.count(t, "trigger.rejected WHERE code = 'invalid_callback'") == 1 })
	if n := w.count(t, "trigger.v_deliveries"); n != 0 {
		t.Errorf("%d deliveries", n)
	}
}

// The callback is part of the request that an Idempotency-Key names.
func TestCallback_IsComparedUnderAKey(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, callbackDocs)
	r := w.start(t)
	start := func(address string) answer {
		return r.api(authn.Operator, "POST", "/v1/agents/posting/runs", fmt.Sprintf(`{"callback":{"url":%q}}`, address), "Idempotency-Key", "k1")
	}
	first := start("https://receiver.example/a")
	accepted(t, first)
	if again := start("https://receiver.example/a"); again.RunID != first.RunID || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("a repeat: %d %s", again.status, again.body)
	}
	if other := start("https://receiver.example/b"); other.status != http.StatusUnprocessableEntity || other.Code != trigger.CodeKeyReused {
		t.Errorf("another address: %d %s", other.status, other.body)
	}
	got := w.collect(t, true).exactly(t, 1)[0]
	if diff := cmp.Diff(&events.Callback{URL: "https://receiver.example/a"}, got.Callback); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
