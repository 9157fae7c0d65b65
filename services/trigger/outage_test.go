package trigger_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/internal/bustest"
	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/services/trigger"
	"github.com/holdfast-run/holdfast/services/trigger/cron"
	"github.com/holdfast-run/holdfast/services/trigger/httpapi"
	"github.com/holdfast-run/holdfast/services/trigger/inbox"
	"github.com/holdfast-run/holdfast/services/trigger/postgres"
	"github.com/holdfast-run/holdfast/services/trigger/webhook"
)

// Environment of the child process that dies at a failpoint.
const (
	childDatabase = "TRIGGER_TEST_DATABASE"
	childNATS     = "TRIGGER_TEST_NATS"
)

// TestMain runs the test binary as a trigger process of its own when the
// environment asks for one.
func TestMain(m *testing.M) {
	if os.Getenv(childDatabase) != "" {
		if err := child(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child is a whole trigger process; it prints its address and runs until it is
// killed.
func child(ctx context.Context) error {
	pool, err := pg.Open(ctx, pg.Config{URL: config.Secret(os.Getenv(childDatabase)), Role: role})
	if err != nil {
		return err
	}
	b, err := bus.Connect(ctx, bus.Config{URL: config.Secret(os.Getenv(childNATS)), Name: "child"})
	if err != nil {
		return err
	}
	if err := b.Provision(ctx, []string{bustest.Pool}); err != nil {
		return err
	}
	store := postgres.New(pool)
	svc, err := trigger.New(trigger.Config{SyncEvery: 100 * time.Millisecond}, trigger.Parts{
		Store: store, Definitions: newDefinitions(pool), Providers: webhook.All(), Planner: cron.Planner{},
		Relay: store.Relay(b, nil), Cancels: store.CancelRelay(b.Publish, nil), Signals: store.SignalRelay(b.Publish, nil), Inbox: inbox.New(b), Secrets: resolve,
	})
	if err != nil {
		return err
	}
	d := door.New(door.Config{Title: "trigger", Version: "test", Verifier: doortest.Verifier()})
	httpapi.Register(d, svc)
	server := door.NewServer("127.0.0.1:0", d.Handler())
	if err := server.Start(ctx); err != nil {
		return err
	}
	if err := svc.Start(ctx); err != nil {
		return err
	}
	fmt.Println(server.Address())
	go func() { _ = server.Run(ctx) }()
	return svc.Run(ctx)
}

// spawn starts a child with a failpoint armed and returns its address and what
// waits for its death.
func (w *world) spawn(t *testing.T, point string) (url string, dead func()) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), childDatabase+"="+w.db.URL.Reveal(), childNATS+"="+w.nats.URL().Reveal(), failpoint.Env+"="+point)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	var address string
	if _, err := fmt.Fscanln(out, &address); err != nil {
		t.Fatalf("the child did not start: %v", err)
	}
	return "http://" + address, func() {
		t.Helper()
		err := cmd.Wait()
		status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
			t.Fatalf("the child did not die at %s: %v", point, err)
		}
	}
}

// A process that dies between its commit and its announcement, or between the
// announcement and its note of it, loses no start and makes no second one. The
// sender, who got no answer, tries again and gets the same run.
func TestAccept_KilledAfterCommit(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"trigger.committed", "trigger.published"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			url, dead := w.spawn(t, point+"=kill")
			req, err := http.NewRequestWithContext(t.Context(), "POST", url+"/hooks/orders", strings.NewReader(order))
			if err != nil {
				t.Fatal(err)
			}
			headers := signed("msg_1", order, time.Now())
			for i := 0; i < len(headers); i += 2 {
				req.Header.Set(headers[i], headers[i+1])
			}
			if res, err := http.DefaultClient.Do(req); err == nil {
				_ = res.Body.Close()
				if point == "trigger.committed" {
					t.Fatalf("the child answered %d and should be dead", res.StatusCode)
				}
			}
			dead()
			if n := w.count(t, "trigger.announcements WHERE announced_at IS NULL"); n != 1 {
				t.Fatalf("%d rows are committed and not noted as announced, want 1", n)
			}
			r := w.start(t)
			again := r.post("/hooks/orders", order, signed("msg_1", order, time.Now())...)
			accepted(t, again)
			if got := w.collect(t, true).exactly(t, 1); string(got[0].RunID) != again.RunID {
				t.Errorf("run %s starts, %s was answered", got[0].RunID, again.RunID)
			}
		})
	}
}

// The same for a schedule's fire.
func TestSchedule_KilledAfterCommit(t *testing.T) {
	t.Parallel()
	w := setup(t)
	at := past()
	w.apply(t, scheduleDoc("nightly", at, ""))
	_, dead := w.spawn(t, "trigger.committed=kill")
	w.hands(t, 1)
	w.moveHands(t, at)
	dead()
	w.start(t)
	w.collect(t, true).exactly(t, 1)
	if n := w.count(t, "trigger.fires"); n != 1 {
		t.Errorf("%d fires, want 1", n)
	}
}

func TestCaseA11_NATSIsAway(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.pair(t)
	w.nats.Stop()
	begun := time.Now()
	hook := r.post("/hooks/orders", order, signed("msg_1", order, time.Now())...)
	accepted(t, hook)
	api := r.api(operator, "POST", "/v1/agents/anything/runs", `{}`)
	accepted(t, api)
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("the answers took %s: they wait for NATS", took)
	}
	w.nats.Start()
	runs := map[string]bool{}
	for _, s := range w.collect(t, true).exactly(t, 2) {
		runs[string(s.RunID)] = true
	}
	if !runs[hook.RunID] || !runs[api.RunID] {
		t.Errorf("runs %v start; %s and %s were answered", runs, hook.RunID, api.RunID)
	}
}

// NATS loses its data after it had taken the starts: they are announced again
// until the runner has them.
func TestRelay_NATSLosesEverything(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.start(t)
	const n = 20
	want := map[string]bool{}
	for range n {
		a := r.api(operator, "POST", "/v1/agents/anything/runs", `{}`)
		accepted(t, a)
		want[a.RunID] = true
	}
	until(t, "all to be announced", func() bool { return w.count(t, "trigger.announcements WHERE announced_at IS NOT NULL") == n })
	w.nats.Wipe()
	// The next announcement is due in ten seconds; the test does not wait for it.
	if _, err := w.db.Pool.Exec(t.Context(), `UPDATE trigger.announcements SET next_announce_at = clock_timestamp()`); err != nil {
		t.Fatal(err)
	}
	starts := w.collect(t, true)
	until(t, "every start to land", func() bool { return w.count(t, "trigger.announcements WHERE landed_at IS NOT NULL") == n })
	for _, m := range starts.all() {
		if !want[m.About] {
			t.Errorf("run %s was never answered", m.About)
		}
		if !strings.HasSuffix(m.MsgID, ":n1") || m.ID != "start:"+m.About {
			t.Errorf("the repeat has message id %q and ce-id %q, want a fresh and the same", m.MsgID, m.ID)
		}
	}
}

// Postgres away is a 503 that says when to come back, and nothing is accepted.
func TestCaseA11_PostgresIsAway(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t)
	admin, err := pg.Open(t.Context(), pg.Config{URL: server.URL(), MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	applyTo(t, admin, docs)
	nats := bustest.NewServer(t)
	replica := func() *replica {
		pool, err := pg.Open(t.Context(), pg.Config{URL: server.URL(), Role: role})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return run(t, pool, nats.Connect(t))
	}
	r := replica()
	r.peer = replica()
	before := r.post("/hooks/orders", order, signed("msg_1", order, time.Now())...)
	accepted(t, before)

	server.Stop()
	for name, a := range map[string]answer{
		"webhook": r.post("/hooks/orders", order, signed("msg_2", order, time.Now())...),
		"api":     r.api(operator, "POST", "/v1/agents/anything/runs", `{}`),
	} {
		if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %s, Retry-After %q", name, a.status, a.body, a.header.Get("Retry-After"))
		}
	}
	server.Start()
	until(t, "the doors to open again", func() bool {
		return r.post("/hooks/orders", order, signed("msg_2", order, time.Now())...).status == http.StatusAccepted
	})
	if again := r.post("/hooks/orders", order, signed("msg_1", order, time.Now())...); again.RunID != before.RunID {
		t.Errorf("a delivery from before the outage is run %s, was %s", again.RunID, before.RunID)
	}
}
