package tools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/bustest"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/tools"
	"github.com/holdfast-run/holdfast/services/tools/httpapi"
	"github.com/holdfast-run/holdfast/services/tools/kind"
	"github.com/holdfast-run/holdfast/services/tools/postgres"
)

// spoken is a secret with what programs spell in several ways, and its heart,
// which none of them changes.
const (
	spoken = "sk/9f+e2&" + heart
	heart  = "canary5d0b7c21aa"
)

// parrot says again, in as many ways as it knows, what a request carried.
func parrot(rw http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // else the server does not see that the client has left
	secret := r.Header.Get("Authorization")
	quoted, _ := json.Marshal(secret)
	var escaped strings.Builder
	for _, c := range secret {
		fmt.Fprintf(&escaped, `\u%04x`, c)
	}
	all := fmt.Sprintf(`{"raw":%q,"json":%s,"php":"%s","escaped":"%s","query":%q,"path":%q}`, secret, quoted,
		strings.ReplaceAll(secret, "/", `\/`), escaped.String(), url.QueryEscape(secret), url.PathEscape(secret))
	rw.Header().Set("X-Request-Id", strings.Repeat("x", 190)+" "+secret) // is cut in the middle
	rw.Header().Set("X-"+heart, secret)
	rw.Header().Set("Retry-After", secret)
	status := 200
	switch path := r.URL.Path; path {
	case "/500", "/422":
		_, _ = fmt.Sscan(path[1:], &status)
		rw.Header().Set("Content-Type", "application/json; note="+secret)
	case "/text":
		status = 503
		all = strings.Repeat("x", 2<<10-60) + " " + secret // is cut in the middle
	case "/binary":
		rw.Header().Set("Content-Type", "application/octet-stream")
		all = "\x00\xff" + secret
	case "/long":
		rw.Header().Set("Content-Type", "text/plain")
		all = strings.Repeat("x", 256<<10-20) + secret + strings.Repeat("y", 1<<10)
	case "/broken":
		rw.Header().Set("Content-Type", "text/plain")
		rw.Header().Set("Content-Length", "10000")
		all = "some " + secret[:len(secret)-3]
	case "/slow":
		rw.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(rw, all)
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done()
		return
	case "/moved":
		status = http.StatusFound
		rw.Header().Set("Location", "http://%zz/"+secret)
	case "/away":
		status = http.StatusFound
		rw.Header().Set("Location", "http://10.1.2.3/?t="+url.QueryEscape(secret))
	case "/later":
		status = http.StatusAccepted
		all = r.Header.Get("X-Callback") + " " + secret
	default:
		rw.Header().Set("Content-Type", "application/json")
	}
	rw.WriteHeader(status)
	_, _ = io.WriteString(rw, all)
}

// secretTools has a tool that reads and one that acts for each way to fail.
func secretTools(parrot, tls string) (yaml string, names []string) {
	var b strings.Builder
	add := func(name, effect, where, more string) {
		names = append(names, name)
		fmt.Fprintf(&b, `
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: %s}
spec:
  description: carries a secret
  input: {type: object}
  effect: %s
  timeout: 700ms
  http:
    method: POST
    url: %q
    headers: {Authorization: "${secret.token}"%s}
    body: '{"token":"${secret.token}"}'
    secrets: {token: {env: HOLDFAST_SECRET_CANARY}, lines: {env: HOLDFAST_SECRET_LINES}}
    retry: {attempts: 1}
`, name, effect, where, more)
	}
	for _, path := range []string{"500", "422", "200", "text", "binary", "long", "broken", "slow", "moved", "away"} {
		add("read_"+path, "read", parrot+"/"+path, "")
		add("act_"+path, "write\n  inDoubt: fail", parrot+"/"+path, "")
	}
	add("bad_tls", "read", tls, "")
	add("bad_header", "read", parrot+"/200", `, X: "${secret.lines}"`)
	add("refused", "read", "http://10.1.2.3/", "")
	add("gone", "read", "http://127.0.0.1:1/", "")
	add("bad_key", "read\n  tls: {cert: {env: HOLDFAST_SECRET_CANARY}, key: {env: HOLDFAST_SECRET_CANARY}}", tls, "")
	add("bad_condition", "write\n  inDoubt: fail", parrot+"/200", "}\n    success: body.raw > 3\n    output: {a: \"${body.php} ${headers.none}\"")
	add("mapped", "read", parrot+"/200", "}\n    output: {a: \"${body.escaped}\", b: \"${body.php}\", c: \"${headers.x-request-id}\"")
	add("shaped", "read\n  outputSchema: {properties: {raw: {const: no}, escaped: {const: no}, php: {maxLength: 1}}}", parrot+"/200", "")
	add("probed", `write
  inDoubt:
    probe:
      http: {url: "`+parrot+`/200", headers: {Authorization: "${secret.token}"}, secrets: {token: {env: HOLDFAST_SECRET_CANARY}}}
      happened: answer.body.raw > 3
      after: 100ms
      every: 100ms
      giveUpAfter: 400ms
      then: fail`, parrot+"/500", "")
	add("later", "write\n  inDoubt: fail", parrot+"/later", ", X-Callback: \"${callback.url}\"}\n    callback: {within: 1h, failed: \"!body.ok\"")
	names = append(names, "page", "mcp")
	fmt.Fprintf(&b, `
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: page}
spec: {description: d, input: {type: object}, effect: read, builtin: fetch_page}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: mcp}
spec: {description: d, input: {type: object}, effect: write, approval: never, inDoubt: fail, mcp: {server: s, tool: t, schema: %q}}
---
apiVersion: holdfast/v1
kind: MCPServer
metadata: {name: s}
spec:
  stdio:
    command: /bin/sh
    args: ["-c", "echo \"the log says $TOKEN\" >&2; read line; printf '{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32000,\"message\":\"bad token %%s\"}}\\n' \"$TOKEN\"; sleep 0.2; echo \"$TOKEN\"; exit 7"]
    env: {TOKEN: {env: HOLDFAST_SECRET_CANARY}}
`, events.DigestOf(nil))
	return b.String(), names
}

// oneServer is the catalog of a server.
type oneServer struct{ doc spec.Document }

func (o oneServer) MCPServer(context.Context, string, string) (*spec.MCPServer, events.Digest, error) {
	return o.doc.MCPServer, o.doc.Digest, nil
}

// However a call fails, and in whatever spelling the other side repeats what it
// was given: no secret, and no token of a callback, is in anything that is kept
// or emitted.
func TestSecrets_EveryWayToFail(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	posted := make(chan string, 1)
	other := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if to := r.Header.Get("X-Callback"); to != "" {
			posted <- to
		}
		parrot(rw, r)
	}))
	defer other.Close()
	quiet := httptest.NewUnstartedServer(http.HandlerFunc(parrot))
	quiet.Config.ErrorLog = log.New(io.Discard, "", 0)
	quiet.StartTLS() // by an authority that nobody knows
	defer quiet.Close()

	yaml, names := secretTools(other.URL, quiet.URL)
	docs, err := spec.Parse("secrets.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	d := definitions{map[events.Digest]*spec.Tool{}, map[string]events.Digest{}, nil}
	for _, doc := range docs {
		if doc.Tool != nil {
			d.byDigest[doc.Digest], d.byName[doc.Name] = doc.Tool, doc.Digest
		}
	}
	env := map[string]string{envToken: spoken, "HOLDFAST_SECRET_LINES": "one\n" + spoken + "\ntwo", "PATH": os.Getenv("PATH")}
	for name := range callbackEnv {
		env[name] = "whsec_" + spoken // which is no base64
	}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }

	said, spans := &bustest.Recording{}, tracetest.NewSpanRecorder()
	tel := telemetry.Discard()
	tel.TracerProvider = trace.NewTracerProvider(trace.WithSpanProcessor(spans))
	logger := telemetry.NewLogger(said, "debug", "text")
	pool, err := pg.Open(t.Context(), pg.Config{URL: w.db.URL, Role: "holdfast_tools", MaxConns: 8, Tracer: pg.NewTracer(tel.TracerProvider)})
	if err != nil {
		t.Fatal(err)
	}
	out := guarded(t, egress.Config{})
	servers := kind.NewMCPServers(kind.MCPConfig{Servers: oneServer{docs[len(docs)-1]}, Egress: out, Commands: []string{"*"}, LookupEnv: lookup, ReadFile: os.ReadFile, Log: logger})
	defer servers.Close(context.WithoutCancel(t.Context()))
	p, err := startOn(t.Context(), w.db.URL, pool, w.nats.Connect(t), logger, d, func(store *postgres.Store) []tools.Kind {
		return kind.All(kind.Config{Egress: out, Ends: store, LookupEnv: lookup, ReadFile: os.ReadFile, MCP: servers})
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.stop(); err != nil {
			t.Error(err)
		}
	}()
	doors := door.New(door.Config{Title: "tools", Version: "test", Verifier: doortest.Verifier(), Telemetry: tel, Log: logger})
	httpapi.Register(doors, p.service)
	api := httptest.NewServer(doors.Handler())
	defer api.Close()

	run := events.NewRunID()
	calls := map[string]events.CallTool{}
	for i, name := range names {
		args := `{}`
		if name == "page" {
			args = `{"url":"http://10.9.8.7/"}`
		}
		id := events.NewCallID(run, int64(i), 0)
		c := events.CallTool{CallID: id, RunID: run, Namespace: "default", Tool: name, ToolDigest: d.byName[name], Args: []byte(args),
			ArgsDigest: events.DigestOf([]byte(args)), Key: fmt.Sprintf("%s/%d/0/%s", run, i, name)}
		calls[name] = c
		w.send(c, "")
	}
	end := w.ended(other.URL+"/in", `"done"`, time.Second)
	w.post(end, "")

	// The result that is posted repeats it all, and the token of its address.
	address := <-posted
	w.until("the result is awaited", func() bool { return w.count(`SELECT count(*) FROM tools.v_awaited`) == 1 })
	token := address[strings.LastIndexByte(address, '/')+1:]
	answers := ""
	ask := func(method, path, body, as string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, api.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", as)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		got, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		answers += fmt.Sprintf("%s %s %d %v\n%s\n", method, path[:min(len(path), 20)], res.StatusCode, res.Header, got)
	}
	echo := strings.NewReplacer("/", `\/`).Replace(token + " " + address + " " + spoken)
	ask("POST", tools.ReplyPath+token, `{"neither":"`+echo+`"}`, "") // "failed" cannot be evaluated
	ask("POST", tools.ReplyPath+token, `{"ok":false,"why":"`+echo+`"}`, "")
	ask("POST", tools.ReplyPath+token, `{"ok":true,"other":"`+echo+`"}`, "")

	for _, name := range names {
		// A server of programs that cannot be reached is tried again.
		if name != "mcp" {
			w.until("an answer to "+name, func() bool { return len(w.answersOf(calls[name].CallID)) > 0 })
		}
	}
	w.until("what is tried again says why", func() bool {
		return w.count(`SELECT count(*) FROM tools.effects WHERE (tool = 'mcp' OR tool = $1) AND state = 'intent' AND attempts > 0 AND error IS NOT NULL`, events.CallbackTool) == 2
	})
	operator := "Bearer " + doortest.Token(authn.Admin)
	ask("GET", "/v1/effects?limit=200", "", operator)
	var ids []string
	rows, err := w.db.Pool.Query(t.Context(), `SELECT effect_id FROM tools.effects`)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	for _, id := range ids {
		ask("GET", "/v1/effects/"+id, "", operator)
	}
	ask("GET", "/v1/artifacts?limit=200", "", operator)
	if strings.Count(answers, " 200 ") < len(ids)+2 {
		t.Fatalf("the doors answer\n%.2000s", answers)
	}

	traced := ""
	for _, s := range spans.Ended() {
		traced += fmt.Sprintln(s.Name(), s.Attributes(), s.Events(), s.Status(), s.Links())
	}
	w.mu.Lock()
	heard, err := json.Marshal(w.answers)
	w.mu.Unlock()
	if err != nil || len(spans.Ended()) < 50 || len(said.String()) < 1000 {
		t.Fatalf("%d spans, %d bytes of log: %v", len(spans.Ended()), len(said.String()), err)
	}
	for _, secret := range []string{heart[:8], "sk/9f", `sk\/9f`, "sk%2F9f", token} {
		for place, text := range map[string]string{"the log": said.String(), "an answer of the doors": answers, "a span": traced, "an answer to a run": string(heard)} {
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("%q is in %s: …%s…", secret, place, text[max(0, i-200):min(len(text), i+60)])
			}
		}
		if found := w.db.Find(t, secret); len(found) > 0 {
			t.Errorf("%q is in %v", secret, found)
		}
		if found, _ := w.nats.Find(t, secret); len(found) > 0 { // those that were taken are gone: see heard
			t.Errorf("%q is in %v", secret, found)
		}
	}
	if !strings.Contains(string(heard), "[redacted]") || len(w.db.Find(t, "[redacted]")) < 3 {
		t.Error("nothing was taken out: the test shows nothing")
	}
}
