package e2e

import (
	"context"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// TestCaseC07_Outage takes away what the services stand on. None of them is started
// again.
func TestCaseC07_Outage(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t)
	d := deploy(t, server.URL()).runners(1)
	t.Run("Postgres", func(t *testing.T) { withoutPostgres(t, d, server) })
	t.Run("a Postgres that only reads", func(t *testing.T) { withoutWrites(t, d, server) })
	t.Run("NATS", func(t *testing.T) { withoutNATS(t, d) })
	for _, name := range append([]string{"runner-1", "edge"}, services...) {
		select {
		case <-d.process(name).done:
			t.Errorf("%s has ended: %s", name, d.process(name).cmd.ProcessState)
		default:
		}
	}
}

// withoutPostgres lets a model answer while there is no database.
func withoutPostgres(t *testing.T, d *deployment, server *pgtest.Server) {
	j := job{Job: "without-postgres", Do: []string{"read", "send"}}
	h := d.out.hold(t, j.Job, 1)
	id := d.startJob(t, j)
	h.wait(t)
	server.Stop()
	start := []byte(`{"input":{"job":"refused","do":["pay"]}}`)
	for name, r := range map[string]struct {
		method, path string
		body         []byte
	}{
		"a start":     {http.MethodPost, "/v1/agents/clerk/runs", start},
		"a run":       {http.MethodGet, "/v1/runs/" + string(id), nil},
		"runs":        {http.MethodGet, "/v1/runs", nil},
		"a command":   {http.MethodPost, "/v1/runs/" + string(id) + "/pause", []byte("{}")},
		"definitions": {http.MethodGet, "/v1/resources", nil},
		"approvals":   {http.MethodGet, "/v1/approvals", nil},
		"effects":     {http.MethodGet, "/v1/effects", nil},
		"deliveries":  {http.MethodGet, "/v1/deliveries", nil},
	} {
		t.Run(name, func(t *testing.T) {
			wantUnavailable(t, d.send(t, r.method, r.path, d.token, r.body, nil))
		})
	}
	t.Run("a webhook", func(t *testing.T) {
		a, err := d.deliver(t, "/hooks/jobs", "msg_refused", job{Job: "refused", Do: []string{"pay"}}.input())
		if err != nil {
			t.Fatal(err)
		}
		wantUnavailable(t, a)
	})
	h.release()
	until(t, "the model's answer", func() bool { return d.out.model.Count(string(id)).Answered == 2 })
	// Longer than a message, a claim or a heartbeat is kept for the living.
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); {
		wantUnavailable(t, d.send(t, http.MethodPost, "/v1/agents/clerk/runs", d.token, start, nil))
		if answers(t.Context(), "http://"+d.process("runner-1").health+"/ready") {
			t.Error("the runner says that it is ready")
		}
		time.Sleep(100 * time.Millisecond)
	}
	server.Start()
	until(t, "the doors to open again", func() bool {
		return d.send(t, http.MethodGet, "/v1/runs", d.token, nil, nil).status == http.StatusOK
	})
	d.finished(t, id, j, 0) // the answer that came in between was kept and not asked for again
	next := errand("after-postgres")
	a, err := d.deliver(t, "/hooks/jobs", "msg_after", next.input())
	if err != nil {
		t.Fatal(err)
	}
	d.walk(t, accepted(t, a).RunID, next, "webhook")
	if n := d.count(t, `SELECT count(*) FROM trigger.v_deliveries WHERE input->>'job' = 'refused'`); n != 0 {
		t.Errorf("%d starts were taken that were answered with 503", n)
	}
}

// withoutWrites fails over to a node that only reads, and back: sessions of that
// time stay read-only for good, and nobody may go on with one.
func withoutWrites(t *testing.T, d *deployment, server *pgtest.Server) {
	thinking, acting := job{Job: "reads-while-it-thinks", Do: []string{"read", "send"}}, job{Job: "reads-while-it-acts", Do: []string{"pay"}}
	h, act := d.out.hold(t, thinking.Job, 1), d.out.holdAct(t, acting.Job)
	thinks, acts := d.startJob(t, thinking), d.startJob(t, acting)
	h.wait(t)
	until(t, "the shop to be asked", func() bool { return len(d.out.of("pay", acting.Job)) == 1 })

	cc, err := pgx.ParseConfig(server.URL().Reveal())
	if err != nil {
		t.Fatal(err)
	}
	name := pgx.Identifier{cc.Database}.Sanitize()
	cc.RuntimeParams["default_transaction_read_only"] = "off"
	operator, err := pgx.ConnectConfig(t.Context(), cc)
	if err != nil {
		t.Fatal(err)
	}
	defer operator.Close(context.WithoutCancel(t.Context()))
	exec := func(sql string) {
		t.Helper()
		if _, err := operator.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	const cut = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`
	exec("ALTER DATABASE " + name + " SET default_transaction_read_only = on")
	exec(cut)
	h.release()
	act.release()
	until(t, "the doors to close", func() bool {
		a := d.send(t, http.MethodPost, "/v1/agents/clerk/runs", d.token, []byte(`{"input":{"job":"refused","do":["pay"]}}`), nil)
		return a.status == http.StatusServiceUnavailable
	})
	until(t, "the runner's heart to stop", func() bool { return !answers(t.Context(), "http://"+d.process("runner-1").health+"/ready") })
	exec("ALTER DATABASE " + name + " RESET default_transaction_read_only")
	d.finished(t, thinks, thinking, 0)
	d.finished(t, acts, acting, 0)
	next := errand("after-the-fail-over")
	d.walk(t, d.startJob(t, next), next, "api")
}

func wantUnavailable(t *testing.T, a answer) {
	t.Helper()
	if after, err := strconv.Atoi(a.header.Get("Retry-After")); a.status != http.StatusServiceUnavailable || err != nil || after < 1 {
		t.Errorf("%d with Retry-After %q, want 503 and a wait: %s", a.status, a.header.Get("Retry-After"), a.body)
		return
	}
	var p client.Error
	a.into(t, &p)
	if p.Code == "" {
		t.Errorf("no problem: %s", a.body)
	}
}

// withoutNATS starts and decides while nothing can be announced.
func withoutNATS(t *testing.T, d *deployment) {
	waiting := errand("waits-for-a-yes")
	asked := d.startJob(t, waiting)
	question := d.approval(t, asked, events.ApprovalAction)
	thinking := job{Job: "thinks-through-it", Do: []string{"read", "send"}}
	h := d.out.hold(t, thinking.Job, 1)
	thought := d.startJob(t, thinking)
	h.wait(t)
	d.process("nats").kill(t)

	byAPI, byHook := job{Job: "without-nats-api", Do: []string{"pay"}}, job{Job: "without-nats-hook", Do: []string{"send"}}
	body := []byte(`{"input":` + string(byAPI.input()) + `}`)
	first := accepted(t, d.send(t, http.MethodPost, "/v1/agents/clerk/runs", d.token, body, map[string]string{"Idempotency-Key": byAPI.Job}))
	a, err := d.deliver(t, "/hooks/jobs", "msg_without_nats", byHook.input())
	if err != nil {
		t.Fatal(err)
	}
	second := accepted(t, a)
	for _, s := range []client.Started{first, second} {
		if r, err := d.operator.Run(t.Context(), s.RunID); err != nil || r.Status != events.StatusQueued {
			t.Errorf("run %s is %q, %v, want queued", s.RunID, r.Status, err)
		}
	}
	if _, err := d.approver.Decide(t.Context(), question.ApprovalID, client.Decision{Decision: "approve"}); err != nil {
		t.Errorf("a decision while NATS is away: %v", err)
	}
	h.release() // the answer is kept, its call cannot be sent yet
	until(t, "the model's answer in the journal", func() bool {
		return d.count(t, `SELECT count(*) FROM runner.v_events WHERE run_id = $1 AND kind = $2`, string(thought), events.FactModelAnswered) == 2
	})
	d.start("nats")
	d.finished(t, thought, thinking, 0)
	d.finished(t, first.RunID, byAPI, 0)
	d.finished(t, second.RunID, byHook, 0)
	d.finished(t, asked, waiting, 0)
}
