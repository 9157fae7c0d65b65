// Package doortest checks that every route of a door holds its role.
package doortest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
)

// Token is the token of a role in the namespace "default", as Verifier knows it.
func Token(r authn.Role) string { return TokenIn("default", r) }

// TokenIn is the token of a role in another namespace: "other" is known too.
func TokenIn(namespace string, r authn.Role) string {
	return fmt.Sprintf("%stest-%s-%s", authn.TokenPrefix, namespace, r)
}

// Verifier knows one token for each role in the namespaces "default" and
// "other". The principal's name is the role's.
func Verifier() authn.Verifier {
	known := authn.Static{}
	for _, ns := range []string{"default", "other"} {
		for _, r := range authn.Roles() {
			known[TokenIn(ns, r)] = authn.Principal{Name: r.String(), Namespace: ns, Role: r}
		}
	}
	return known
}

var parameter = regexp.MustCompile(`\{[^}]*\}`)

// Matrix sends every route of d a request without a token, with an unknown one
// and with one of each role, and demands 401, 401 and 403 or anything else as
// the route's role says. It ranges over the registered routes, so a new one
// cannot be forgotten. The door must verify with Verifier and have no
// DevPrincipal; handlers of the rights that a role has are run.
func Matrix(t *testing.T, d *door.Door) {
	t.Helper()
	srv := httptest.NewServer(d.Handler())
	t.Cleanup(srv.Close)
	if len(d.Routes()) == 0 {
		t.Fatal("the door has no routes")
	}
	for _, route := range d.Routes() {
		public := route.Role == door.Public
		for _, token := range []string{"", authn.TokenPrefix + "unknown"} {
			if got := send(t, srv, route, token); got.wantsToken == public {
				t.Errorf("%s %s with token %q: %d", route.Method, route.Pattern, token, got.status)
			}
		}
		for _, role := range authn.Roles() {
			got := send(t, srv, route, Token(role))
			may := public || role.Allows(route.Role)
			if (got.status == http.StatusForbidden) == may || got.wantsToken {
				t.Errorf("%s %s as %s: %d, want it allowed: %v", route.Method, route.Pattern, role, got.status, may)
			}
		}
	}
}

// answer is what the matrix looks at. A signed public door may answer 401 too,
// but does not ask for a bearer token.
type answer struct {
	status     int
	wantsToken bool
}

// send does not read the body: a stream's never ends.
func send(t *testing.T, srv *httptest.Server, route door.Route, token string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	path := strings.TrimSuffix(route.Pattern, "{$}")
	path = parameter.ReplaceAllString(path, "0198c2a4-0000-7000-8000-000000000000")
	var body *strings.Reader
	if route.Method != http.MethodGet && route.Method != http.MethodDelete {
		body = strings.NewReader("{}")
	} else {
		body = strings.NewReader("")
	}
	req, err := http.NewRequestWithContext(ctx, route.Method, srv.URL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		t.Errorf("%s %s: %v", route.Method, path, err)
		return answer{}
	}
	_ = res.Body.Close()
	return answer{
		status:     res.StatusCode,
		wantsToken: res.StatusCode == http.StatusUnauthorized && strings.HasPrefix(res.Header.Get("WWW-Authenticate"), "Bearer"),
	}
}
