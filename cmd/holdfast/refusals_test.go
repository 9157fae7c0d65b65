package main

import (
	"encoding/json"
	"html"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/linetest"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/web"
)

// forBrowsers is what a browser sends as Accept when somebody opens an address.
const forBrowsers = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

// isPage reports whether a route is for people: of the console and no file of its own.
func isPage(r door.Route) bool {
	path := strings.TrimSuffix(r.Pattern, "{$}")
	file := strings.HasSuffix(path, ".css") || strings.HasSuffix(path, ".js") || strings.HasSuffix(path, ".svg")
	return (path == "/" || strings.HasPrefix(path, "/ui/")) && !file && path != "/ui/live"
}

// refusal is an answer, read to its end.
type refusal struct {
	status int
	header http.Header
	body   string
}

func ask(t *testing.T, server, token, accept string, r door.Route) refusal {
	t.Helper()
	path := parameter.ReplaceAllString(strings.TrimSuffix(r.Pattern, "{$}"), "0198c2a4-0000-7000-8000-000000000000")
	req, err := http.NewRequestWithContext(t.Context(), r.Method, server+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	req.Header.Set("Accept", accept)
	res, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("read %s %s: %v", r.Method, path, err)
	}
	return refusal{res.StatusCode, res.Header, string(raw)}
}

// sayTheSame demands that people read on a page what programs read in the document.
func sayTheSame(t *testing.T, name string, page, document refusal) {
	t.Helper()
	var p door.Problem
	if err := json.Unmarshal([]byte(document.body), &p); err != nil || document.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s: programs get %s %.200s", name, document.header.Get("Content-Type"), document.body)
		return
	}
	text := html.UnescapeString(page.body)
	if page.status != document.status || !strings.HasPrefix(page.header.Get("Content-Type"), "text/html") || page.header.Get("Content-Security-Policy") != web.CSP ||
		page.header.Get("X-Frame-Options") != "DENY" || page.header.Get("X-Content-Type-Options") != "nosniff" || page.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s: people get %d with %v, programs %d", name, page.status, page.header, document.status)
	}
	for _, want := range []string{"<h1>" + p.Title + "</h1>", p.Detail, page.header.Get("X-Request-Id"), ">Back to "} {
		if want == "" || !strings.Contains(text, want) {
			t.Errorf("%s: the page of %d does not say %q:\n%s", name, page.status, want, text[max(0, strings.Index(text, "<main")):])
		}
	}
	if page.header.Get("Retry-After") != document.header.Get("Retry-After") {
		t.Errorf("%s: Retry-After %q on the page, %q of the document", name, page.header.Get("Retry-After"), document.header.Get("Retry-After"))
	}
}

// TestRefusals_ArePagesForPeople sends each address of the console that a browser opens
// what is refused: as nobody, with too small a role, with an id that nothing has, and
// while the database is away. It ranges over what is registered.
func TestRefusals_ArePagesForPeople(t *testing.T) {
	t.Parallel()
	line, url := linetest.Postgres(t, pgtest.New(t).URL.Reveal())
	nats, front := free(t), free(t)
	env := []string{"HOLDFAST_DATABASE_URL=" + url, "HOLDFAST_NATS_URL=nats://" + nats, "HOLDFAST_ADMIN_TOKEN=" + adminToken}
	if text, code := output(t, env, "migrate"); code != exitOK {
		t.Fatalf("migrate: exit %d\n%s", code, text)
	}
	start(t, env, "msg=ready", "serve", "nats", "--nats-listen", nats, "--nats-dir", t.TempDir(), "--health-listen", free(t))
	start(t, env, "msg=ready", append([]string{"serve", "--listen", front, "--health-listen", free(t)}, doorServices...)...)
	server := "http://" + front
	tokens := map[authn.Role]string{}
	for _, role := range authn.Roles() {
		made, err := remote(t, server, adminToken).CreateToken(t.Context(), client.TokenRequest{Name: role.String(), Role: role.String()})
		if err != nil {
			t.Fatal(err)
		}
		tokens[role] = made.Secret
	}
	var pages []door.Route
	for _, d := range emptyDoors(nil) {
		for _, r := range d.Routes() {
			if isPage(r) && r.Role != door.Public {
				pages = append(pages, r)
			}
		}
	}
	if len(pages) < 40 {
		t.Fatalf("%d pages", len(pages))
	}
	for _, r := range pages {
		name := r.Method + " " + r.Pattern
		nobody := ask(t, server, "", forBrowsers, r)
		if to := nobody.header.Get("Location"); r.Method == http.MethodGet && (nobody.status != http.StatusSeeOther || !strings.HasPrefix(to, "/ui/sign-in")) {
			t.Errorf("%s as nobody: %d to %q", name, nobody.status, to)
		} else if r.Method != http.MethodGet {
			sayTheSame(t, name+" as nobody", nobody, ask(t, server, "", "application/json", r))
			if nobody.status != http.StatusUnauthorized || !strings.Contains(nobody.body, `href="/ui/sign-in`) {
				t.Errorf("%s as nobody: %d without a way to sign in", name, nobody.status)
			}
		}
		for _, role := range authn.Roles() {
			if role.Allows(r.Role) {
				continue
			}
			got := ask(t, server, tokens[role], forBrowsers, r)
			sayTheSame(t, name+" as "+role.String(), got, ask(t, server, tokens[role], "application/json", r))
			if got.status != http.StatusForbidden || !strings.Contains(got.body, `<nav class="nav"`) {
				t.Errorf("%s as %s: %d, want 403 with the menu", name, role, got.status)
			}
		}
		if got := ask(t, server, tokens[authn.Admin], forBrowsers, r); strings.Contains(r.Pattern, "{id}") || strings.Contains(r.Pattern, "{name}") {
			if got.status < 400 || r.Method == http.MethodGet && got.status != http.StatusNotFound {
				t.Errorf("%s of what is not there: %d", name, got.status)
			}
			if strings.Contains(got.header.Get("Content-Type"), "json") || got.status >= 500 {
				t.Errorf("%s of what is not there: %d %s", name, got.status, got.body)
			}
			if r.Method == http.MethodGet {
				sayTheSame(t, name+" of what is not there", got, ask(t, server, tokens[authn.Admin], "application/json", r))
			}
		}
	}
	for _, r := range []door.Route{{Method: http.MethodGet, Pattern: "/ui/nothing"}, {Method: http.MethodDelete, Pattern: "/ui/system"}, {Method: http.MethodPost, Pattern: "/"}} {
		got := ask(t, server, tokens[authn.Viewer], forBrowsers, r)
		sayTheSame(t, r.Method+" "+r.Pattern, got, ask(t, server, tokens[authn.Viewer], "application/json", r))
		if got.status != http.StatusNotFound && got.status != http.StatusMethodNotAllowed || !strings.Contains(got.body, `<nav class="nav"`) {
			t.Errorf("%s %s: %d", r.Method, r.Pattern, got.status)
		}
	}
	if got := ask(t, server, tokens[authn.Viewer], forBrowsers, door.Route{Method: http.MethodGet, Pattern: "/v1/runs/{id}"}); got.status != http.StatusNotFound || got.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("the API answers a browser %d %s", got.status, got.header.Get("Content-Type"))
	}

	line.Close()
	for _, r := range pages {
		name := r.Method + " " + r.Pattern + " without the database"
		got := ask(t, server, tokens[authn.Admin], forBrowsers, r)
		if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
			t.Errorf("%s: %d, Retry-After %q", name, got.status, got.header.Get("Retry-After"))
			continue
		}
		sayTheSame(t, name, got, ask(t, server, tokens[authn.Admin], "application/json", r))
		if again := strings.Contains(got.body, ">Try again<"); again != (r.Method == http.MethodGet) {
			t.Errorf("%s offers to try again: %v", name, again)
		}
	}
}
