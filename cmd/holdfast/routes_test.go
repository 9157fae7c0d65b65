package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/internal/telemetry"
)

// TestRoles sends every route of every service a request as each role. It
// ranges over what is registered: a new route cannot be forgotten. The services
// behind the doors are absent, so what is let in fails, with another status.
func TestRoles(t *testing.T) {
	t.Parallel()
	for name, d := range emptyDoors(doortest.Verifier()) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doortest.Matrix(t, d)
		})
	}
}

var parameter = regexp.MustCompile(`\{[^}]*\}`)

// edge returns the edge before upstreams that answer with their own name.
func edge(t *testing.T, change func(e *EdgeSettings)) *httptest.Server {
	t.Helper()
	urls := map[string]string{}
	for _, name := range doorServices {
		up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Service", name)
			w.Header().Set("X-Host", r.Host)
			w.Header().Set("X-For", r.Header.Get("X-Forwarded-For"))
			if r.URL.Path == "/v1/events" {
				for i := range 3 {
					fmt.Fprintf(w, "id: %d\n\n", i)
					w.(http.Flusher).Flush()
					if i == 0 {
						<-r.Context().Done() // nothing more is needed to see that the first one passed
						return
					}
				}
			}
			_, _ = io.Copy(w, r.Body)
		}))
		t.Cleanup(up.Close)
		urls[name] = up.URL
	}
	e := EdgeSettings{EdgeTriggerURL: urls["trigger"], EdgeToolsURL: urls["tools"], EdgeApprovalsURL: urls["approvals"], EdgeConsoleURL: urls["console"]}
	if change != nil {
		change(&e)
	}
	p := &process{log: telemetry.NewLogger(t.Output(), "info", "text")}
	handler, err := p.edgeHandler(e)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	return srv
}

func send(t *testing.T, method, url, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func TestEdge_EveryRouteReachesItsService(t *testing.T) {
	t.Parallel()
	srv := edge(t, nil)
	n := 0
	for name, d := range emptyDoors(nil) {
		for _, r := range d.Routes() {
			if r.Pattern == openAPIPath || r.Pattern == "/v1/events" {
				continue
			}
			n++
			path := parameter.ReplaceAllString(strings.TrimSuffix(r.Pattern, "{$}"), "x")
			resp := send(t, r.Method, srv.URL+path, "body of "+path)
			if got := resp.Header.Get("X-Service"); got != name {
				t.Errorf("%s %s went to %q, want %s (%s)", r.Method, path, got, name, resp.Status)
				continue
			}
			if r.Method == http.MethodPost {
				if got := read(t, resp.Body); got != "body of "+path {
					t.Errorf("%s: the body arrived as %q", path, got)
				}
			}
			if host := strings.TrimPrefix(srv.URL, "http://"); resp.Header.Get("X-Host") != host || resp.Header.Get("X-For") != "127.0.0.1" {
				t.Errorf("%s: host %q for %q, want %s for 127.0.0.1", path, resp.Header.Get("X-Host"), resp.Header.Get("X-For"), host)
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d routes", n)
	}
}

func TestEdge_StreamsAsItComes(t *testing.T) {
	t.Parallel()
	resp := send(t, http.MethodGet, edge(t, nil).URL+"/v1/events", "")
	got := make(chan string, 1)
	go func() {
		b := make([]byte, 7)
		_, _ = io.ReadFull(resp.Body, b)
		got <- string(b)
	}()
	select {
	case text := <-got:
		if text != "id: 0\n\n" {
			t.Errorf("first event %q", text)
		}
	case <-time.After(10 * time.Second):
		t.Error("the first event waits for the second")
	}
}

func TestEdge_ServiceAway(t *testing.T) {
	t.Parallel()
	srv := edge(t, func(e *EdgeSettings) { e.EdgeTriggerURL = "http://" + free(t) })
	resp := send(t, http.MethodPost, srv.URL+"/v1/agents/x/runs", "{}")
	var problem struct{ Code, Detail string }
	if err := json.Unmarshal([]byte(read(t, resp.Body)), &problem); err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || !strings.Contains(problem.Detail, "trigger") {
		t.Errorf("%s, Retry-After %q, %+v; want 503 that names the service", resp.Status, resp.Header.Get("Retry-After"), problem)
	}
	if got := send(t, http.MethodGet, srv.URL+"/v1/approvals", "").Header.Get("X-Service"); got != "approvals" {
		t.Errorf("approvals is answered by %q while trigger is away", got)
	}
}

func TestOpenAPI_CoversAllDoors(t *testing.T) {
	t.Parallel()
	resp := send(t, http.MethodGet, edge(t, nil).URL+openAPIPath, "")
	text := read(t, resp.Body)
	var doc struct {
		OpenAPI    string
		Paths      map[string]map[string]any
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1") {
		t.Errorf("openapi %q", doc.OpenAPI)
	}
	for name, d := range emptyDoors(nil) {
		for path := range d.OpenAPI().Paths {
			if doc.Paths[path] == nil {
				t.Errorf("path %s of %s is missing", path, name)
			}
		}
	}
	for _, m := range regexp.MustCompile(`"#/components/schemas/([^"]+)"`).FindAllStringSubmatch(text, -1) {
		if doc.Components.Schemas[m[1]] == nil {
			t.Errorf("schema %s is referred to and missing", m[1])
		}
	}
}

func TestJoin_TwoServicesOnOnePath(t *testing.T) {
	t.Parallel()
	one, two := door.New(door.Config{Title: "one"}), door.New(door.Config{Title: "two"})
	for _, d := range []*door.Door{one, two} {
		d.Raw("GET /v1/same", door.Public, http.NotFoundHandler())
	}
	defer func() {
		if recover() == nil {
			t.Error("two services share a path and nothing says so")
		}
	}()
	_, _ = joinDoors([]*door.Door{one, two})
}
