package kind_test

import (
	"crypto/hmac"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/tools"
)

const laterTool = `  effect: write
  http:
    url: "${env.HOLDFAST_TOOL_URL}"
    headers: {Authorization: "Bearer ${secret.key}"}
    body: {report: "${args.report}", to: "${callback.url}"}
    secrets: {key: {env: HOLDFAST_SECRET_CANARY}}
    callback:
      accepted: status == 200 && body.state == "queued"
`

// The address is in the request, and in nothing that is kept of the exchange.
func TestHTTPCallback_Accepted(t *testing.T) {
	t.Parallel()
	const token = "tok-0123456789abcdef"
	answer := `{"state":"queued"}`
	var got string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got = string(b)
		_, _ = io.WriteString(w, strings.ReplaceAll(answer, "ECHO", got))
	}))
	defer srv.Close()
	env := map[string]string{"HOLDFAST_TOOL_URL": srv.URL, "HOLDFAST_SECRET_CANARY": canary}
	def := tool(t, laterTool)
	try := func(url string) tools.Outcome {
		for _, k := range kinds(t, env) {
			if k.Runs(def) {
				return k.Act(t.Context(), tools.Request{Tool: def, Class: tools.ClassWrite, Args: json.RawMessage(`{"report":7}`), Key: "k", ReplyURL: url})
			}
		}
		return tools.Outcome{}
	}
	url := "https://here.test/v1/callbacks/" + token
	if out := try(url); out.Verdict != tools.Accepted || got != `{"report":7,"to":"`+url+`"}` {
		t.Errorf("%s %+v; sent %s", out.Verdict, out.Error, got)
	}
	answer = `{"state":"done","echo":ECHO}`
	if out := try(url); out.Verdict != tools.Happened || strings.Contains(string(out.Result), token) {
		t.Errorf("an answer at once: %s %s", out.Verdict, out.Result)
	}
	answer = `no JSON`
	if out := try(url); out.Verdict != tools.Ambiguous || out.Error.Code != "accepted_unknown" {
		t.Errorf("nobody knows: %s %+v", out.Verdict, out.Error)
	}
	got = ""
	if out := try(""); out.Verdict != tools.NotSent || got != "" {
		t.Errorf("without an address: %s, sent %q", out.Verdict, got)
	}
}

func TestHTTPCallback_Signature(t *testing.T) {
	t.Parallel()
	body := []byte(`{"done":true}`)
	sign := func(secret string) string {
		mac := hmac.New(sha512.New, []byte(secret))
		mac.Write(body)
		return "v=" + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	def := tool(t, laterTool+`      secrets: [{env: HOLDFAST_SECRET_OLD}, {env: HOLDFAST_SECRET_NEW}]
      signature: {header: X-Sum, prefix: "v=", encoding: base64, algorithm: sha512}
`)
	env := map[string]string{"HOLDFAST_SECRET_OLD": "one", "HOLDFAST_SECRET_NEW": "two", "HOLDFAST_SECRET_CANARY": canary}
	for value, want := range map[string]error{
		sign("one"): nil, sign("two"): nil, sign("three"): tools.ErrReplySignature, "": tools.ErrReplySignature,
		"v=": tools.ErrReplySignature, strings.TrimPrefix(sign("one"), "v="): tools.ErrReplySignature,
	} {
		out, err := reply(t, env, def, value, body)
		if !errors.Is(err, want) || err == nil && out.Verdict != tools.Happened {
			t.Errorf("signed %q: %s, %v, want %v", value, out.Verdict, err, want)
		}
	}
	delete(env, "HOLDFAST_SECRET_NEW")
	if _, err := reply(t, env, def, sign("one"), body); err == nil || errors.Is(err, tools.ErrReplySignature) {
		t.Errorf("a secret that is not there: %v", err)
	}
	out, err := reply(t, env, tool(t, laterTool), "", []byte(`{"echo":"`+canary+` tok"}`))
	if err != nil {
		t.Fatal(err)
	}
	checkOutcome(t, out)
}

func reply(t *testing.T, env map[string]string, def *spec.Tool, signature string, body []byte) (tools.Outcome, error) {
	t.Helper()
	for _, k := range kinds(t, env) {
		if r, ok := k.(tools.Replier); ok && k.Runs(def) {
			return r.Reply(t.Context(), tools.Request{Tool: def}, tools.Reply{Token: "tok", Header: http.Header{"X-Sum": {signature}}, Body: body})
		}
	}
	t.Fatal("no kind takes the reply")
	return tools.Outcome{}, nil
}
