package main

import (
	"context"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/client"
)

// TestRoles_ThroughTheEdge sends every route of every service a request as
// nobody, with an unknown token and as each role, through the edge to real
// services with stored tokens. It ranges over what is registered.
func TestRoles_ThroughTheEdge(t *testing.T) {
	t.Parallel()
	nats, back, front := free(t), free(t), free(t)
	env := []string{
		"HOLDFAST_DATABASE_URL=" + pgtest.New(t).URL.Reveal(), "HOLDFAST_NATS_URL=nats://" + nats, "HOLDFAST_ADMIN_TOKEN=" + adminToken,
	}
	if text, code := output(t, env, "migrate"); code != exitOK {
		t.Fatalf("migrate: exit %d\n%s", code, text)
	}
	start(t, env, "msg=ready", "serve", "nats", "--nats-listen", nats, "--nats-dir", t.TempDir(), "--health-listen", free(t))
	all := start(t, env, "msg=ready", append([]string{"serve", "--listen", back, "--health-listen", free(t)}, doorServices...)...)
	args := []string{"serve", "edge", "--listen", front, "--health-listen", free(t)}
	for _, s := range doorServices {
		args = append(args, "--edge-"+s+"-url", "http://"+back)
	}
	start(t, env, "msg=ready", args...)

	url := "http://" + front
	tokens := map[authn.Role]string{}
	for _, role := range authn.Roles() {
		made, err := remote(t, url, adminToken).CreateToken(t.Context(), client.TokenRequest{Name: role.String(), Role: role.String()})
		if err != nil {
			t.Fatal(err)
		}
		tokens[role] = made.Secret
	}
	routes := 0
	for service, d := range emptyDoors(nil) {
		for _, r := range d.Routes() {
			routes++
			public := r.Role == door.Public
			for _, token := range []string{"", authn.NewToken()} {
				status, challenge := knock(t, url, r, token)
				if wants := status == http.StatusUnauthorized && strings.HasPrefix(challenge, "Bearer"); wants == public {
					t.Errorf("%s: %s %s with token %q: %d, want a demand for a token: %v", service, r.Method, r.Pattern, token, status, !public)
				}
			}
			for role, token := range tokens {
				status, challenge := knock(t, url, r, token)
				may := public || role.Allows(r.Role)
				if status == http.StatusForbidden == may || challenge != "" {
					t.Errorf("%s: %s %s as %s: %d, want it allowed: %v", service, r.Method, r.Pattern, role, status, may)
				}
				if status == http.StatusInternalServerError || status == http.StatusBadGateway || status == http.StatusServiceUnavailable {
					t.Errorf("%s: %s %s as %s: %d", service, r.Method, r.Pattern, role, status)
				}
			}
		}
	}
	if routes < 30 {
		t.Errorf("only %d routes", routes)
	}
	t.Logf("%d routes as nobody, as a stranger and as %d roles", routes, len(tokens))
	if state := all.stop(syscall.SIGTERM); !state.Success() {
		t.Errorf("the services ended with %s:\n%s", state, all.output())
	}
}

// knock sends one request and looks at the head of the answer: the body of a
// stream has no end.
func knock(t *testing.T, url string, r door.Route, token string) (status int, challenge string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	path := parameter.ReplaceAllString(strings.TrimSuffix(r.Pattern, "{$}"), "0198c2a4-0000-7000-8000-000000000000")
	body := ""
	if r.Method != http.MethodGet && r.Method != http.MethodDelete {
		body = "{}"
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, path, err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode, resp.Header.Get("WWW-Authenticate")
}
