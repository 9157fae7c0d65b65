package main

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

const adminToken = "hf_test-admin-token-0001"

// example is the folder of the worked example.
func example(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../examples/competitor-monitor")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func remote(t *testing.T, server, token string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Server: server, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// await polls until check is content.
func await(t *testing.T, what string, check func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !check(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still waiting for %s", what)
		}
	}
}

// TestServe_SeparateProcesses runs every service as a process of its own behind
// the edge: a start that is accepted while no runner exists is answered queued,
// and runs when one comes.
func TestServe_SeparateProcesses(t *testing.T) {
	t.Parallel()
	nats, front := free(t), free(t)
	env := []string{
		"HOLDFAST_DATABASE_URL=" + pgtest.New(t).URL.Reveal(), "HOLDFAST_NATS_URL=nats://" + nats, "HOLDFAST_ADMIN_TOKEN=" + adminToken,
	}
	if text, code := output(t, env, "migrate"); code != 0 || !strings.Contains(text, "the admin token is stored") {
		t.Fatalf("migrate: exit %d\n%s", code, text)
	}
	const ready = "msg=ready"
	var all []*server
	all = append(all, start(t, env, ready, "serve", "nats", "--nats-listen", nats, "--nats-dir", t.TempDir(), "--health-listen", free(t)))
	edgeArgs := []string{"serve", "edge", "--listen", front, "--health-listen", free(t)}
	for _, s := range doorServices {
		addr := free(t)
		edgeArgs = append(edgeArgs, "--edge-"+s+"-url", "http://"+addr)
		all = append(all, start(t, env, ready, "serve", s, "--listen", addr, "--health-listen", free(t)))
	}
	all = append(all, start(t, env, ready, edgeArgs...))

	api := remote(t, "http://"+front, adminToken)
	docs, err := readDefinitions([]string{example(t)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.Apply(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	if _, err := remote(t, "http://"+front, "hf_unknown").Resources(t.Context(), "", client.PageRequest{}); client.StatusOf(err) != http.StatusUnauthorized {
		t.Errorf("an unknown token: %v, want 401", err)
	}
	started, err := api.Start(t.Context(), client.StartRequest{
		Agent:          "competitor-check",
		Input:          json.RawMessage(`{"shop":"shop-01","url":"http://127.0.0.1:1/","product":"kettle","night":"2026-11-29"}`),
		IdempotencyKey: "one",
	})
	if err != nil {
		t.Fatal(err)
	}
	run, err := api.Run(t.Context(), started.RunID)
	if err != nil || run.Status != events.StatusQueued {
		t.Fatalf("without a runner the run is %q, %v; want queued", run.Status, err)
	}

	runner := start(t, env, ready, "serve", "runner", "--health-listen", free(t))
	await(t, "the run to be taken", func() bool {
		run, err := api.Run(t.Context(), started.RunID)
		// Without an API key the first model call fails in a way that a person
		// must mend; that the run got there is what counts.
		return err == nil && run.Status == events.StatusAttention
	})
	for _, s := range append(all, runner) {
		if state := s.stop(syscall.SIGTERM); !state.Success() {
			t.Errorf("%s ended with %s after SIGTERM:\n%s", strings.Join(s.cmd.Args[1:3], " "), state, s.output())
		}
	}
}

func TestServe_BeyondLoopbackNeedsAToken(t *testing.T) {
	t.Parallel()
	env := []string{"HOLDFAST_DATABASE_URL=" + pgtest.New(t).URL.Reveal(), "HOLDFAST_NATS_URL=nats://" + free(t)}
	args := []string{"serve", "approvals", "--listen", "0.0.0.0:0", "--health-listen", free(t)}
	text, code := output(t, env, args...)
	if code != exitFailure || !strings.Contains(text, "refusing to listen on 0.0.0.0:0") || !strings.Contains(text, "--admin-token-file") {
		t.Fatalf("exit %d, want a refusal that says what to do:\n%s", code, text)
	}
	if text, code := output(t, append(env, "HOLDFAST_ADMIN_TOKEN="+adminToken), "migrate"); code != 0 {
		t.Fatalf("migrate: exit %d\n%s", code, text)
	}
	s := start(t, env, "msg=ready", args...) // NATS is away all the time: doors open without it
	if state := s.stop(syscall.SIGTERM); !state.Success() {
		t.Errorf("ended with %s:\n%s", state, s.output())
	}
}

func TestServe_Usage(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		args []string
		want string
	}{
		"no service":                {[]string{"serve"}, "expected \"<services> ...\""},
		"an unknown one":            {[]string{"serve", "runer"}, "runer"},
		"edge with others":          {[]string{"serve", "edge", "runner"}, "edge runs alone"},
		"no database":               {[]string{"serve", "runner"}, "--database-url"},
		"an address without port":   {[]string{"serve", "trigger", "--listen", "localhost"}, "not an address"},
		"a range that is none":      {[]string{"serve", "tools", "--egress-allow", "10.0.0.0"}, "--egress-allow"},
		"a limit out of range":      {[]string{"serve", "runner", "--runner-model-slots", "0"}, "runner-model-slots"},
		"dev for other machines":    {[]string{"dev", "--listen", "0.0.0.0:8787"}, "loopback only"},
		"migrate without database":  {[]string{"migrate"}, "--database-url"},
		"an upstream without http":  {[]string{"serve", "edge", "--edge-tools-url", "tools:80"}, "--edge-tools-url"},
		"a database given twice":    {[]string{"migrate", "--database-url", "postgres://x", "--database-url-file", "y"}, "exclude each other"},
		"an absent file of secrets": {[]string{"migrate", "--database-url-file", "absent"}, "absent"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, code := output(t, nil, tc.args...)
			if code == exitOK || !strings.Contains(text, tc.want) {
				t.Errorf("exit %d, want an error with %q:\n%s", code, tc.want, text)
			}
		})
	}
}

func TestServeNATS_BeyondLoopbackNeedsAToken(t *testing.T) {
	t.Parallel()
	args := []string{"serve", "nats", "--nats-listen", "0.0.0.0:0", "--nats-dir", t.TempDir(), "--health-listen", free(t)}
	text, code := output(t, nil, args...)
	if code == exitOK || !strings.Contains(text, "--nats-token-file") {
		t.Errorf("exit %d, want a refusal that says what to do:\n%s", code, text)
	}
	s := start(t, []string{"HOLDFAST_NATS_TOKEN=s3cret"}, "msg=ready", args...)
	if strings.Contains(s.output(), "s3cret") {
		t.Errorf("the token is in the log:\n%s", s.output())
	}
}

func TestMigrate_AdminTokenIsNotGuessable(t *testing.T) {
	t.Parallel()
	env := []string{"HOLDFAST_DATABASE_URL=" + pgtest.New(t).URL.Reveal()}
	for _, token := range []string{"hf_short", "a-token-without-the-prefix", "x"} {
		text, code := output(t, append(env, "HOLDFAST_ADMIN_TOKEN="+token), "migrate")
		if code != exitUsage || strings.Contains(text, token) {
			t.Errorf("token %q: exit %d, want %d and no token in:\n%s", token, code, exitUsage, text)
		}
	}
	for range 2 { // again changes nothing
		if text, code := output(t, append(env, "HOLDFAST_ADMIN_TOKEN="+adminToken), "migrate"); code != exitOK {
			t.Fatalf("exit %d\n%s", code, text)
		}
	}
	for _, namespace := range []string{"other", "No Namespace"} { // a token is for one namespace
		text, code := output(t, append(env, "HOLDFAST_ADMIN_TOKEN="+adminToken, "HOLDFAST_ADMIN_NAMESPACE="+namespace), "migrate")
		if code != exitUsage || !strings.Contains(text, "namespace") {
			t.Errorf("the same token for the namespace %q: exit %d\n%s", namespace, code, text)
		}
	}
}
