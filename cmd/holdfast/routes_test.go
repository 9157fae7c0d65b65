package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/web"
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

// publicChanges are the routes that change something and ask for no role, each with
// what keeps other sites from making a browser use it.
var publicChanges = map[string]map[string]string{
	"trigger":   {"POST /hooks/{name}": "signed by the sender", "POST /hooks/{namespace}/{name}": "signed by the sender"},
	"tools":     {"POST /v1/callbacks/{token}": "the path is the secret"},
	"approvals": {"POST /v1/approvals/slack": "signed by Slack", "POST /decide/{token}": "the path is the secret"},
	"console":   {"POST /ui/sign-in": "checks the origin itself: TestSignIn_OfAnotherSite", "POST /ui/sign-out": "checks the origin itself: TestSignIn_OfAnotherSite"},
}

// TestOrigins sends every route of every service that changes something what other
// sites can make the browser of somebody send who is signed in.
func TestOrigins(t *testing.T) {
	t.Parallel()
	for name, d := range emptyDoors(doortest.Verifier()) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doortest.Origins(t, d, publicChanges[name])
		})
	}
}

// TestAudits sends every route of every service requests and looks into the audit: a route
// that changes something cannot be forgotten.
func TestAudits(t *testing.T) {
	t.Parallel()
	a := map[string]*doortest.Auditor{}
	for name, d := range doorsWith(func(name string) door.Config {
		a[name] = &doortest.Auditor{}
		return door.Config{Title: name, Verifier: doortest.Verifier(), Audit: a[name]}
	}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doortest.Audits(t, d, a[name])
		})
	}
}

// TestWork pins what is left out of the audit: each leaves a row of its own with its sender.
func TestWork(t *testing.T) {
	t.Parallel()
	var got []string
	for _, d := range emptyDoors(nil) {
		for _, r := range d.Routes() {
			if r.Work {
				got = append(got, r.Method+" "+r.Pattern)
			}
		}
	}
	slices.Sort(got)
	want := []string{
		"POST /v1/agents/{name}/runs", "POST /v1/effects", "POST /v1/effects/{id}/renew", "POST /v1/flows/{name}/runs", "POST /v1/runs",
		"PUT /v1/effects/{id}", "PUT /v1/runs/{id}/checkpoint",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q is left out of the audit, want %q", got, want)
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
	if page := ask(t, srv.URL, "", forBrowsers, door.Route{Method: http.MethodGet, Pattern: "/ui/triggers"}); page.status != http.StatusServiceUnavailable ||
		page.header.Get("Retry-After") == "" || page.header.Get("Content-Security-Policy") != web.CSP || page.header.Get("X-Frame-Options") != "DENY" || !strings.Contains(page.body, "the service trigger is not answering") {
		t.Errorf("people get %d %v %s", page.status, page.header, page.body)
	}
	if got := send(t, http.MethodGet, srv.URL+"/v1/approvals", "").Header.Get("X-Service"); got != "approvals" {
		t.Errorf("approvals is answered by %q while trigger is away", got)
	}
}

func TestOpenAPI_CoversAllDoors(t *testing.T) {
	t.Parallel()
	resp := send(t, http.MethodGet, edge(t, nil).URL+openAPIPath, "")
	text := read(t, resp.Body)
	type operation struct {
		OperationID string `json:"operationId"`
		Summary     string
		Role        string `json:"x-holdfast-role"`
		Security    []map[string][]string
		Parameters  []struct {
			Name, In string
			Required bool
		}
		Responses map[string]struct{ Content map[string]any }
	}
	var doc struct {
		OpenAPI    string
		Paths      map[string]map[string]operation
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1") {
		t.Errorf("openapi %q", doc.OpenAPI)
	}
	// Every route of every service but pages and the document itself: streams and
	// signed doors, too.
	described := 0
	ids := map[string]string{}
	for name, d := range emptyDoors(nil) {
		for _, r := range d.Routes() {
			if r.Pattern == openAPIPath || r.Pattern == "/{$}" || strings.HasPrefix(r.Pattern, "/ui/") {
				continue
			}
			op := doc.Paths[r.Pattern][strings.ToLower(r.Method)]
			if op.OperationID == "" || op.Summary == "" || len(op.Responses) < 2 {
				t.Errorf("%s %s of %s is described as %+v", r.Method, r.Pattern, name, op)
				continue
			}
			described++
			if other, twice := ids[op.OperationID]; twice {
				t.Errorf("%s and %s %s are both named %s", other, r.Method, r.Pattern, op.OperationID)
			}
			ids[op.OperationID] = r.Method + " " + r.Pattern
			if public := r.Role == door.Public; public == (op.Role != "") || public == (len(op.Security) > 0) {
				t.Errorf("%s %s is for %s and described for %q with %v", r.Method, r.Pattern, r.Role, op.Role, op.Security)
			}
			var inPath []string
			for _, p := range op.Parameters {
				if p.In == "path" && p.Required {
					inPath = append(inPath, "{"+p.Name+"}")
				}
			}
			want := parameter.FindAllString(r.Pattern, -1)
			slices.Sort(inPath)
			slices.Sort(want)
			if !slices.Equal(want, inPath) {
				t.Errorf("%s %s has the parameters %v, described are %v", r.Method, r.Pattern, want, inPath)
			}
		}
	}
	if described < 30 {
		t.Errorf("only %d routes", described)
	}
	for _, stream := range []string{"/v1/runs/{id}/events", "/v1/events"} {
		if _, ok := doc.Paths[stream]["get"].Responses["200"].Content["text/event-stream"]; !ok {
			t.Errorf("%s is not described as a stream", stream)
		}
	}
	start := doc.Paths["/v1/agents/{name}/runs"]["post"]
	for status, kinds := range map[string][]string{"200": {"application/json", "text/event-stream"}, "202": {"application/json"}, "default": {"application/problem+json"}} {
		for _, kind := range kinds {
			if _, ok := start.Responses[status].Content[kind]; !ok {
				t.Errorf("a start's %s is not described as %s", status, kind)
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
