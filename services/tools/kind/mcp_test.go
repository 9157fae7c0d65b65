package kind_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
	"github.com/holdfast-run/holdfast/services/tools/kind"
)

// httpFake serves the fake over streamable HTTP.
func httpFake(t *testing.T, wrap func(http.Handler) http.Handler) string {
	t.Helper()
	s := fakeServer()
	var h http.Handler = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)
	if wrap != nil {
		h = wrap(h)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return fmt.Sprintf("  http: {url: %q, headers: {Authorization: 'Bearer ${secret.token}'}, secrets: {token: {env: FAKE_TOKEN}}}\n", srv.URL+"/mcp")
}

// TestMCP_Outcomes is the contract of the kind over both transports.
func TestMCP_Outcomes(t *testing.T) {
	t.Parallel()
	for name, definition := range map[string]string{"stdio": stdioFake(t, ""), "http": httpFake(t, nil)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, definition)
			out := b.once("two", "read", `{}`)
			wantOutcome(t, out, tools.Happened, "")
			if string(out.Result) != `"first\nsecond"` {
				t.Errorf("result %s, want the texts joined", out.Result)
			}
			out = b.once("digits", "read", `{}`)
			if want := `{"amount":` + bigNumber + `}`; string(out.Result) != want {
				t.Errorf("result %s, want %s with every digit", out.Result, want)
			}
			// What the server declares of its results goes along; the definition's own
			// schema counts before it.
			if out = b.once("shaped", "write", `{"amount":`+bigNumber+`}`); out.Declared == nil || len(out.Declared.Validate(out.Whole)) != 1 || len(out.Declared.Validate([]byte(`{"id":1}`))) != 0 {
				t.Errorf("declared %s, whole %s", out.Declared.JSON(), out.Whole)
			}
			out = b.once("refuse", "write", `{}`)
			wantOutcome(t, out, tools.Refused, "tool_error")
			if !strings.Contains(out.Error.Message, "no such account") {
				t.Errorf("the model reads %q, want the tool's text", out.Error.Message)
			}
			out = b.once("picture", "read", `{}`)
			for _, want := range []string{"a picture", `"image/png"`, `"bytes":8`, "file:///notes.txt", `"bytes":12`, "file:///big.bin"} {
				if !strings.Contains(string(out.Result), want) {
					t.Errorf("result %s does not hold %s", out.Result, want)
				}
			}
			if strings.Contains(string(out.Result), "secret notes") || strings.Contains(string(out.Result), "iVBOR") {
				t.Errorf("result %s holds what placeholders stand for", out.Result)
			}
			if a := out.Artifacts; len(a) != 3 || string(a[0].Data) != "\x89PNG\r\n\x1a\n" || a[0].ContentType != "image/png" || string(a[1].Data) != "secret notes" ||
				a[1].Name != "notes.txt" || a[2].URI != "file:///big.bin" || a[2].Kind != "resource" || a[2].Title != "big" || a[2].Data != nil {
				t.Errorf("artifacts %+v", a)
			} else if !strings.Contains(string(out.Result), `"artifact":"`+a[0].ID+`"`) {
				t.Errorf("result %s does not name %s", out.Result, a[0].ID)
			}
			out = b.once("huge", "read", `{}`)
			wantOutcome(t, out, tools.Happened, "")
			kept(t, out, []byte(strings.Repeat("ü", 400_000)), false)
			if len(out.Result) > 600_000 || !strings.Contains(string(out.Result), "cut off after") {
				t.Errorf("a result of %d bytes is not cut off", len(out.Result))
			}
		})
	}
}

func TestMCP_SendsKeyCallAndArguments(t *testing.T) {
	t.Parallel()
	b := newBench(t, stdioFake(t, ""))
	args := `{"amount":` + bigNumber + `}`
	for effect, key := range map[string]bool{"write": true, "idempotent": true, "read": false} {
		var text string
		if err := json.Unmarshal(b.once("echo", effect, args).Result, &text); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(text, args) || !strings.Contains(text, `"`+kind.MetaCallID+`":"call-1"`) || !strings.Contains(text, `"`+kind.MetaRunID+`":"run-1"`) {
			t.Errorf("%s: the server got %s", effect, text)
		}
		if got := strings.Contains(text, `"`+kind.MetaIdempotencyKey+`":"run/3/0/t"`); got != key {
			t.Errorf("%s: the key was sent: %v, want %v (%s)", effect, got, key, text)
		}
	}
}

// A server's program sees PATH, HOME and what its definition names.
func TestMCP_StdioEnvironmentIsClean(t *testing.T) {
	t.Parallel()
	b := newBench(t, stdioFake(t, ""))
	var text string
	if err := json.Unmarshal(b.once("env", "read", `{}`).Result, &text); err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for line := range strings.SplitSeq(text, "\n") {
		name, value, _ := strings.Cut(line, "=")
		names[name] = value
	}
	for _, name := range []string{"PATH", "HOME", envFake, "PLAIN", "TOKEN"} {
		if names[name] == "" {
			t.Errorf("%s is missing in %v", name, names)
		}
		delete(names, name)
	}
	if len(names) > 0 {
		t.Errorf("the program also sees %v", names)
	}
	// checkOutcome has looked for the secret itself; its place is marked.
	if !strings.Contains(text, "TOKEN=[redacted]") {
		t.Errorf("the secret that the server showed is not marked: %s", text)
	}
}

func TestMCP_RefusesAChangedTool(t *testing.T) {
	t.Parallel()
	for name, definition := range map[string]string{"stdio": stdioFake(t, ""), "http": httpFake(t, nil)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, definition)
			echo, two := b.imported("echo", "write"), b.imported("two", "read")
			wantOutcome(t, b.call(echo, `{}`, 20*time.Second), tools.Happened, "")
			wantOutcome(t, b.once("change", "write", `{}`), tools.Happened, "")
			out := b.call(echo, `{}`, 20*time.Second)
			wantOutcome(t, out, tools.Refused, "tool_changed")
			if out.Error == nil || !strings.Contains(out.Error.Message, "mport and apply again") {
				t.Errorf("the refusal %q does not say what to do", out.Error.Message)
			}
			wantOutcome(t, b.call(two, `{}`, 20*time.Second), tools.Refused, "tool_changed")
			out = b.once("echo", "write", `{}`) // imported again
			wantOutcome(t, out, tools.Happened, "")
			if string(out.Result) != `"acted"` {
				t.Errorf("result %s", out.Result)
			}
		})
	}
}

func TestMCP_DiesHangsAndComesBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, stdioFake(t, ""))
	echo := b.imported("echo", "read")
	wantOutcome(t, b.call(echo, `{}`, 20*time.Second), tools.Happened, "")
	wantOutcome(t, b.once("die", "write", `{}`), tools.Ambiguous, "no_answer")
	wantOutcome(t, b.call(echo, `{}`, 20*time.Second), tools.Happened, "") // in a new process
	wantOutcome(t, b.call(b.imported("hang", "write"), `{}`, 300*time.Millisecond), tools.Ambiguous, "timeout")
	wantOutcome(t, b.call(echo, `{}`, 20*time.Second), tools.Happened, "")
	endless, readsEndless := b.imported("endless", "write"), b.imported("endless", "read")
	wantOutcome(t, b.call(endless, `{}`, 20*time.Second), tools.Ambiguous, "answer_too_large")
	wantOutcome(t, b.call(readsEndless, `{}`, 20*time.Second), tools.Refused, "answer_too_large")
	wantOutcome(t, b.call(echo, `{}`, 20*time.Second), tools.Happened, "")
	wantOutcome(t, b.once("broken", "write", `{}`), tools.Ambiguous, "tool_error")
}

// A server that ends before it has served is not started again at once.
func TestMCP_ReconnectsWithAPause(t *testing.T) {
	t.Parallel()
	b := newBench(t, "  stdio: {command: 'false'}\n")
	def := tool(t, "  effect: read\n  mcp: {server: s, tool: x, schema: '"+string(events.DigestOf(nil))+"'}\n")
	wantOutcome(t, b.call(def, `{}`, 20*time.Second), tools.NotSent, "unreachable")
	out := b.call(def, `{}`, 20*time.Second)
	wantOutcome(t, out, tools.NotSent, "unreachable")
	if !strings.Contains(out.Error.Message, "next attempt is in") {
		t.Errorf("the second attempt says %q, want that it waits", out.Error.Message)
	}
}

func TestMCP_NotSent(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := ln.Addr().String()
	_ = ln.Close()
	digest := string(events.DigestOf(nil))
	for name, tc := range map[string]struct {
		definition, server string
		verdict            tools.Verdict
		code               string
	}{
		"nobody listens":        {"  http: {url: 'http://" + dead + "/mcp'}\n", "s", tools.NotSent, "unreachable"},
		"no such server":        {"  http: {url: 'http://" + dead + "/mcp'}\n", "other", tools.NotSent, "server_missing"},
		"no such program":       {"  stdio: {command: no-such-program-here}\n", "s", tools.NotSent, "unreachable"},
		"a secret is missing":   {"  stdio: {command: cat, env: {A: {env: NOT_THERE}}}\n", "s", tools.NotSent, "tool_misconfigured"},
		"a server says nothing": {"  stdio: {command: cat}\n  connectTimeout: 200ms\n", "s", tools.NotSent, "unreachable"},
		"an inner address":      {"  http: {url: 'http://169.254.169.254/mcp'}\n", "s", tools.NotSent, "unreachable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tc.definition)
			def := tool(t, "  effect: write\n  mcp: {server: "+tc.server+", tool: x, schema: '"+digest+"'}\n")
			wantOutcome(t, b.call(def, `{}`, 20*time.Second), tc.verdict, tc.code)
		})
	}
}

// The operator says which programs may run, not who writes definitions.
func TestMCP_StartsOnlyAllowedPrograms(t *testing.T) {
	t.Parallel()
	b := newBench(t, stdioFake(t, ""))
	servers := kind.NewMCPServers(kind.MCPConfig{Servers: b, Commands: []string{"/usr/bin/other"}, LookupEnv: func(string) (string, bool) { return "", false }})
	_, _, err := (&kind.Offers{Servers: servers}).MCP(t.Context(), "default", "s")
	u, ok := errors.AsType[*tools.Unready](err)
	if !ok || u.Code != "tool_misconfigured" || !strings.Contains(err.Error(), "--tools-mcp-commands") {
		t.Errorf("error is %v, want that the operator must allow the program", err)
	}
}

func TestMCP_AllowAndDeny(t *testing.T) {
	t.Parallel()
	b := newBench(t, stdioFake(t, ""))
	echo, two := b.imported("echo", "read"), b.imported("two", "read")
	b.define(stdioFake(t, "  allow: [echo, two]\n  deny: [two]\n"))
	wantOutcome(t, b.call(echo, `{}`, 20*time.Second), tools.Happened, "")
	wantOutcome(t, b.call(two, `{}`, 20*time.Second), tools.Refused, "tool_denied")
	_, offers, err := b.offers.MCP(t.Context(), "default", "s")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range offers {
		if o.Denied == (o.Name == "echo") {
			t.Errorf("%s is denied: %v", o.Name, o.Denied)
		}
	}
}

// Calls share one session, which is in force until the definition changes.
func TestMCP_OneSessionForAllCalls(t *testing.T) {
	t.Parallel()
	b := newBench(t, stdioFake(t, ""))
	def := b.imported("children", "read")
	pids := make(chan string, 16)
	var wg sync.WaitGroup
	for range cap(pids) {
		wg.Go(func() {
			var text string
			if err := json.Unmarshal(b.call(def, `{}`, 20*time.Second).Result, &text); err != nil {
				t.Error(err)
			}
			pids <- text
		})
	}
	wg.Wait()
	close(pids)
	seen := map[int]bool{}
	var sleepers []int
	for text := range pids {
		var server, sleeper int
		if _, err := fmt.Sscan(text, &server, &sleeper); err != nil {
			t.Fatal(err)
		}
		seen[server] = true
		sleepers = append(sleepers, sleeper)
	}
	if len(seen) != 1 {
		t.Errorf("%d programs serve %d calls, want 1", len(seen), len(sleepers))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := b.servers.Close(ctx); err != nil {
		t.Fatal(err)
	}
	for pid := range seen {
		until(t, "the server has ended", func() bool { return !alive(pid) })
	}
	for _, pid := range sleepers {
		until(t, "the server's children have ended", func() bool { return !alive(pid) })
	}
	wantOutcome(t, b.call(def, `{}`, time.Second), tools.NotSent, "unreachable")
}

func TestMCP_HTTPStatuses(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]struct {
		verdict tools.Verdict
		code    string
	}{
		401: {tools.Refused, "http_401"},
		403: {tools.Refused, "http_403"},
		404: {tools.NotSent, "unreachable"},
		429: {tools.NotSent, "http_429"},
		500: {tools.Ambiguous, "no_answer"},
		503: {tools.Ambiguous, "no_answer"},
		0:   {tools.Ambiguous, "no_answer"}, // the connection breaks
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			b := newBench(t, httpFake(t, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get("Authorization") != "Bearer "+canary {
						http.Error(w, "no token", http.StatusUnauthorized)
						return
					}
					var m struct{ Method string }
					body := copyBody(t, r)
					if err := json.Unmarshal(body, &m); err == nil && m.Method == "tools/call" {
						calls.Add(1)
						if status == 0 {
							panic(http.ErrAbortHandler)
						}
						w.Header().Set("Retry-After", "7")
						http.Error(w, "not now", status)
						return
					}
					next.ServeHTTP(w, r)
				})
			}))
			out := b.once("echo", "write", `{}`)
			wantOutcome(t, out, want.verdict, want.code)
			if calls.Load() != 1 {
				t.Errorf("the call arrived %d times", calls.Load())
			}
			if status == 429 && out.RetryAfter != 7*time.Second {
				t.Errorf("Retry-After became %s", out.RetryAfter)
			}
		})
	}
}

// A worker that is killed leaves no program behind, and no program's child.
func TestMCP_NoOrphansAfterKill(t *testing.T) {
	t.Parallel()
	worker := startWorker(t)
	server, sleeper := worker.pids()
	if !alive(server) || !alive(sleeper) {
		t.Fatalf("server %d and its child %d do not run", server, sleeper)
	}
	if err := worker.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = worker.cmd.Wait()
	until(t, "the server has ended", func() bool { return !alive(server) })
	until(t, "the server's child has ended", func() bool { return !alive(sleeper) })
}
