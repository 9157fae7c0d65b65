package main

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-run/holdfast/internal/bustest"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgtest"
)

// Workers are not ready without NATS or without Postgres, doors only without
// Postgres; all of them live on and are ready again afterwards.
func TestServe_ReadyWithWhatItNeeds(t *testing.T) {
	t.Parallel()
	database, nats := pgtest.NewServer(t), bustest.NewServer(t)
	env := []string{"HOLDFAST_DATABASE_URL=" + database.URL().Reveal(), "HOLDFAST_NATS_URL=" + nats.URL().Reveal()}
	health := map[string]string{}
	var all []*server
	for _, s := range []string{"runner", "tools", "approvals"} {
		health[s] = free(t)
		all = append(all, start(t, env, "msg=ready", "serve", s, "--listen", free(t), "--health-listen", health[s]))
	}
	ready := func(service string) bool { return askReady(t.Context(), "http://"+health[service]+"/ready") == nil }
	want := func(when string, ok map[string]bool) {
		t.Helper()
		for service, want := range ok {
			await(t, service+" with the readiness it should have "+when, func() bool { return ready(service) == want })
			if err := askReady(t.Context(), "http://"+health[service]+"/live"); err != nil {
				t.Errorf("%s does not live %s: %v", service, when, err)
			}
		}
	}
	everything := map[string]bool{"runner": true, "tools": true, "approvals": true}
	want("with everything", everything)
	pool, err := pg.Open(t.Context(), pg.Config{URL: database.URL(), MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	var pools []string
	if err := pool.QueryRow(t.Context(), `SELECT pools FROM tools.v_workers`).Scan(&pools); err != nil || !slices.Equal(pools, []string{"default", "callbacks"}) {
		t.Errorf("the worker says that it works for %q, %v", pools, err)
	}
	pool.Close()
	nats.Stop()
	want("without NATS", map[string]bool{"runner": false, "tools": false, "approvals": true})
	nats.Start()
	want("with NATS again", everything)
	database.Stop()
	want("without Postgres", map[string]bool{"runner": false, "tools": false, "approvals": false})
	database.Start()
	want("with Postgres again", everything)
	for _, s := range all {
		if state := s.stop(syscall.SIGTERM); !state.Success() {
			t.Errorf("%s ended with %s:\n%s", strings.Join(s.cmd.Args[1:3], " "), state, s.output())
		}
	}
}
