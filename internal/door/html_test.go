package door_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/web"
)

// TestFail_PagesForPeople pins what a refusal looks like in a browser, and that nothing
// of it is markup.
func TestFail_PagesForPeople(t *testing.T) {
	t.Parallel()
	d := door.New(door.Config{Title: "test", Version: "1", Verifier: doortest.Verifier(), SignIn: "/ui/sign-in"})
	gone := func(http.ResponseWriter, *http.Request) error {
		return door.Error(http.StatusGone, "gone", `it was deleted by <b onclick="x">`).At("body.a", "is <i>wrong</i>")
	}
	d.Page("GET /ui/effects/{id}", authn.Viewer, gone)
	d.Page("POST /ui/effects/{id}", authn.Admin, gone)
	d.Page("GET /ui/stops", authn.Viewer, func(http.ResponseWriter, *http.Request) error { panic("impossible") })
	d.Page("POST /ui/stops", authn.Viewer, func(http.ResponseWriter, *http.Request) error { panic("impossible") })
	d.Page("GET /ui/system", authn.Viewer, func(http.ResponseWriter, *http.Request) error {
		return door.Error(http.StatusServiceUnavailable, "x", "x").After(6200 * time.Millisecond)
	})
	d.Raw("GET /v1/effects", authn.Viewer, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { door.Fail(w, r, gone(w, r)) }))
	srv := httptest.NewServer(d.Handler())
	t.Cleanup(srv.Close)
	cases := map[string]struct {
		method, path, token, referer string
		status                       int
		want, not                    []string
	}{
		"what is gone": {"GET", "/ui/effects/1", doortest.Token(authn.Viewer), "", 410,
			[]string{"<h1>Gone</h1>", "it was deleted by &lt;b onclick=&#34;x&#34;&gt;", "is &lt;i&gt;wrong", "does not come back", `href="/ui/effects">Back to Effects`, `<nav class="nav"`, "410"}, []string{"<b onclick", "Try again<", "Sign in<"}},
		"back to where it came from":             {"GET", "/ui/effects/1", doortest.Token(authn.Viewer), srv.URL + "/?text=a", 410, []string{`href="/?text=a">Back to the page before`}, nil},
		"not back to another site":               {"GET", "/ui/effects/1", doortest.Token(authn.Viewer), "https://evil.example/x", 410, []string{`href="/ui/effects">Back`}, []string{"evil"}},
		"not back to itself":                     {"GET", "/ui/effects/1", doortest.Token(authn.Viewer), srv.URL + "/ui/effects/1", 410, []string{`href="/ui/effects">Back`}, nil},
		"a form without a session":               {"POST", "/ui/effects/1", "", srv.URL + "/ui/effects/1", 401, []string{"<h1>Unauthorized</h1>", `href="/ui/sign-in?return=%2Fui%2Feffects%2F1">Sign in`}, []string{`<nav class="nav"`}},
		"a form from nowhere, without a session": {"POST", "/ui/effects/1", "", "", 401, []string{`href="/ui/sign-in?return=%2Fui%2Feffects">Sign in`}, []string{"effects%2F1"}},
		"not back to the sign-in":                {"POST", "/ui/effects/1", doortest.Token(authn.Operator), srv.URL + "/ui/sign-in?return=%2F", 403, []string{`href="/ui/effects">Back to Effects`}, nil},
		"from a list itself":                     {"GET", "/ui/system", doortest.Token(authn.Viewer), "", 503, []string{`href="/">Back to Runs`, "Try again in 6 s."}, nil},
		"a form that breaks here":                {"POST", "/ui/stops", doortest.Token(authn.Viewer), "", 500, []string{"<h1>Internal Server Error</h1>"}, []string{"Try again<"}},
		"a form of a smaller role":               {"POST", "/ui/effects/1", doortest.Token(authn.Operator), "", 403, []string{"operator has the role operator; this needs admin", `<nav class="nav"`}, []string{"Sign in<"}},
		"what breaks here":                       {"GET", "/ui/stops", doortest.Token(authn.Viewer), "", 500, []string{"<h1>Internal Server Error</h1>", `href="/ui/stops">Try again`}, []string{"impossible"}},
		"what is not there, for nobody":          {"GET", "/ui/nothing", "", "", 404, []string{"<h1>Not Found</h1>", `href="/">Back to Runs`}, []string{`<nav class="nav"`}},
		"what is not there, for somebody":        {"GET", "/ui/nothing", doortest.Token(authn.Viewer), "", 404, []string{`<nav class="nav"`}, nil},
		"what takes another method":              {"DELETE", "/ui/stops", doortest.Token(authn.Viewer), "", 405, []string{"<h1>Method Not Allowed</h1>"}, nil},
		"the API stays a program's answer":       {"GET", "/v1/effects", doortest.Token(authn.Viewer), "", 410, []string{`"code":"gone"`}, []string{"<h1>"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req, err := http.NewRequestWithContext(t.Context(), tc.method, srv.URL+tc.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Accept", "text/html,*/*;q=0.8")
			if tc.token != "" {
				req.Header.Set("Authorization", "Bearer "+tc.token)
			}
			req.Header.Set("Referer", tc.referer)
			res, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			raw, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			body := string(raw)
			if res.StatusCode != tc.status {
				t.Errorf("%d, want %d", res.StatusCode, tc.status)
			}
			for _, w := range append(tc.want, res.Header.Get("X-Request-Id")) {
				if !strings.Contains(body, w) {
					t.Errorf("it does not say %q:\n%s", w, body[max(0, strings.Index(body, "<main")):])
				}
			}
			for _, n := range tc.not {
				if strings.Contains(body, n) {
					t.Errorf("it says %q:\n%s", n, body)
				}
			}
		})
	}
}

// TestFail_WithoutADoor: what stands before the doors, as the edge, answers with a page
// that has all headers of theirs, and a form of another site is told where to send it from.
func TestFail_WithoutADoor(t *testing.T) {
	t.Parallel()
	ask := func(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
		t.Helper()
		r.Header.Set("Accept", "text/html")
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		return rec
	}
	got := ask(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		door.Fail(w, r, door.Error(http.StatusServiceUnavailable, "x", "x").After(time.Second))
	}), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/ui/system", nil))
	for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Cache-Control": "no-store", "Content-Security-Policy": web.CSP, "Retry-After": "1"} {
		if got.Header().Get(name) != want {
			t.Errorf("%s is %q, want %q", name, got.Header().Get(name), want)
		}
	}
	d := door.New(door.Config{Title: "test", Version: "1", Verifier: doortest.Verifier()})
	d.Page("POST /ui/stops", authn.Viewer, func(http.ResponseWriter, *http.Request) error { return nil })
	foreign := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/ui/stops", nil)
	foreign.Header.Set("Sec-Fetch-Site", "cross-site")
	foreign.Header.Set("Origin", "https://evil.example")
	if got := ask(d.Handler(), foreign); got.Code != http.StatusForbidden || !strings.Contains(got.Body.String(), "Open the page here and send it from there.") {
		t.Errorf("a form of another site: %d\n%s", got.Code, got.Body)
	}
}

// TestFrame_HasTheMenusNumbers: each page brings the numbers of its reader's namespace
// with it. Without them it is shown all the same, and what is broken is not asked.
func TestFrame_HasTheMenusNumbers(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	d := door.New(door.Config{Title: "test", Version: "1", Verifier: doortest.Verifier(), Counts: func(_ context.Context, namespace string) ([]web.Count, error) {
		asked.Add(1)
		if namespace == "other" {
			return nil, errors.New("the database is away")
		}
		return web.Numbers{Running: 1234, Approvals: 7}.Counts(), nil
	}})
	for path, status := range map[string]int{"GET /ui/effects": 404, "GET /ui/stops": 500} {
		d.Page(path, authn.Viewer, func(http.ResponseWriter, *http.Request) error { return door.Error(status, "x", "x") })
	}
	srv := httptest.NewServer(d.Handler())
	t.Cleanup(srv.Close)
	for name, tc := range map[string]struct {
		path, token string
		status      int
		want        bool
		asked       int64
	}{
		"a page":                             {"/ui/effects", doortest.Token(authn.Viewer), 404, true, 1},
		"a page while they cannot be read":   {"/ui/effects", doortest.TokenIn("other", authn.Viewer), 404, false, 1},
		"a page of what is broken":           {"/ui/stops", doortest.Token(authn.Viewer), 500, false, 0},
		"a page for nobody in particular":    {"/ui/nothing", "", 404, false, 0},
		"a document for a program that asks": {"/v1/nothing", doortest.Token(authn.Viewer), 404, false, 0},
	} {
		asked.Store(0)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+tc.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "text/html")
		if tc.token != "" {
			req.Header.Set("Authorization", "Bearer "+tc.token)
		}
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		has := strings.Contains(string(raw), "1,234 running") && strings.Contains(string(raw), "7 wait for a person")
		if res.StatusCode != tc.status || has != tc.want || asked.Load() != tc.asked {
			t.Errorf("%s: %d, numbers %t, asked %d times; want %d, %t, %d", name, res.StatusCode, has, asked.Load(), tc.status, tc.want, tc.asked)
		}
	}
}
