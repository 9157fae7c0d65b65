package doortest

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
)

// Origins sends every route of d that changes something what other sites can make
// a browser send, with the cookie of an admin who is signed in, and demands 403
// cross_origin; what pages of the door's own address send must get past. It ranges
// over the registered routes. The door must verify with Verifier. Routes for
// which public says why they need no such check are left out; public must know
// every public route that changes something, and no other.
func Origins(t *testing.T, d *door.Door, public map[string]string) {
	t.Helper()
	srv := httptest.NewServer(d.Handler())
	t.Cleanup(srv.Close)
	host := strings.TrimPrefix(srv.URL, "http://")
	form, plain, asJSON := "application/x-www-form-urlencoded", "text/plain", "application/json"
	tries := []struct {
		name, kind string
		header     []string
		ours       bool
	}{
		{"a form of another site", form, []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"}, false},
		{"a form of another site in an old browser", form, []string{"Origin", "https://evil.example"}, false},
		{"a sandboxed page", form, []string{"Origin", "null"}, false},
		{"a sandboxed page that is told apart", plain, []string{"Sec-Fetch-Site", "cross-site", "Origin", "null"}, false},
		{"nothing that says where from", form, nil, false},
		{"nothing that says where from, as JSON", asJSON, nil, false},
		{"another port of this machine", form, []string{"Origin", "http://127.0.0.1:1"}, false},
		{"another port, told apart", plain, []string{"Sec-Fetch-Site", "same-site", "Origin", "http://127.0.0.1:1"}, false},
		{"a name that begins like ours", plain, []string{"Origin", srv.URL + ".evil.example"}, false},
		{"our name as a user of another site", plain, []string{"Origin", "http://" + host + "@evil.example"}, false},
		{"JSON that is sent as text", plain, []string{"Sec-Fetch-Site", "cross-site"}, false},
		{"JSON of another site", asJSON, []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"}, false},
		{"a multipart form with JSON in it", `multipart/form-data; boundary="{}"`, []string{"Sec-Fetch-Site", "cross-site"}, false},
		{"a page of ours", form, []string{"Sec-Fetch-Site", "same-origin", "Origin", srv.URL}, true},
		{"a page of ours in an old browser", form, []string{"Origin", srv.URL}, true},
	}
	sent := 0
	for _, route := range d.Routes() {
		name := route.Method + " " + route.Pattern
		safe := route.Method == http.MethodGet
		if why, listed := public[name]; (route.Role == door.Public && !safe) != listed {
			t.Errorf("%s is for %s and listed as public: %v (%s)", name, route.Role, listed, why)
		}
		if safe || route.Role == door.Public {
			continue
		}
		for _, try := range tries {
			sent++
			status, body := cookied(t, srv.URL, route, try.kind, try.header)
			if refused := status == http.StatusForbidden && strings.Contains(body, door.CodeCrossOrigin); refused == try.ours {
				t.Errorf("%s, %s: %d %.120s", name, try.name, status, body)
			}
		}
	}
	t.Logf("%d requests", sent)
}

func cookied(t *testing.T, url string, route door.Route, kind string, header []string) (status int, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	path := parameter.ReplaceAllString(strings.TrimSuffix(route.Pattern, "{$}"), "0198c2a4-0000-7000-8000-000000000000")
	req, err := http.NewRequestWithContext(ctx, route.Method, url+path, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	req.AddCookie(&http.Cookie{Name: door.SessionCookie, Value: Token(authn.Admin)})
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		t.Errorf("%s %s: %v", route.Method, path, err)
		return 0, ""
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode == http.StatusForbidden {
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Errorf("%s %s: %v", route.Method, path, err)
		}
		body = string(text)
	}
	return res.StatusCode, body
}
