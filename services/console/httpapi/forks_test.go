package httpapi_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console/httpapi"
)

type forkAnswer struct {
	CommandID string           `json:"command_id"`
	RunID     events.RunID     `json:"run_id"`
	From      events.RunID     `json:"from"`
	AskedAt   int64            `json:"asked_at"`
	At        int64            `json:"at"`
	Status    string           `json:"status"`
	Error     any              `json:"error"`
	Effects   []httpapi.Effect `json:"effects"`
	More      bool             `json:"more_effects"`
}

// takeForks plays the runner: each new run takes the rows up to 3.
func (r *rig) takeForks() {
	ctx := r.t.Context()
	go func() {
		for ctx.Err() == nil {
			_, _ = r.db.Exec(ctx, `INSERT INTO runner.runs (run_id, namespace, kind, name, digest, status, seq, input, trigger, accepted_at, forked_from, forked_row, retried)
				SELECT c.run_id, c.namespace, 'agent', c.body->'ref'->>'name', 'sha256:x', 'running', 4, '{}', '{"kind":"fork"}', clock_timestamp(), c.body->>'from', 3, c.retry_of IS NOT NULL
				FROM console.commands c WHERE c.kind = 'fork' ON CONFLICT DO NOTHING`)
			time.Sleep(10 * time.Millisecond)
		}
	}()
}

// An order for a new run is kept once for its key, says which row was taken and what
// the old run changed behind it, and links both runs.
func TestForks_OnceWithWhatLiesBehind(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.takeForks()
	id := r.accept("default", "pricing", `{}`)
	r.take("default", id, "pricing", `{}`)
	for range 4 {
		r.step(id, "running", false)
	}
	for _, row := range []int64{2, 4} {
		call := events.NewCallID(id, row, 0)
		r.exec(`INSERT INTO tools.effects (effect_id, namespace, tool, key, state, epoch, call_id, run_id, args, args_digest) VALUES ($1, 'default', 'pay', $1, 'succeeded', 1, $2, $3, '{}', 'd')`, fmt.Sprint("e", row), string(call), string(id))
		r.exec(`INSERT INTO tools.calls (call_id, run_id, namespace, tool, tool_digest, pool, args, args_digest, minted_key, key, traceparent, effect_id, acting, status, epoch) VALUES ($2, $3, 'default', 'pay', 'd', 'default', '{}', 'd', 'k', 'k', '', $1, false, 'succeeded', 1)`, fmt.Sprint("e", row), string(call), string(id))
	}
	path := "/v1/runs/" + string(id)
	call := string(events.NewCallID(id, 2, 0))
	body := `{"at":5,"message":"go on","results":{"` + call + `":{"n":12345678901234567890}},"reason":"try"}`
	f := get[forkAnswer](r, "POST", path+"/fork", authn.Operator, body, "Idempotency-Key", "k1")
	if f.From != id || f.AskedAt != 5 || f.At != 3 || f.Status != "running" || len(f.Effects) != 1 || f.Effects[0].Row != 4 || f.Effects[0].State != "succeeded" {
		t.Errorf("the fork is %+v", f)
	}
	if again := get[forkAnswer](r, "POST", path+"/fork", authn.Operator, body, "Idempotency-Key", "k1"); again.RunID != f.RunID || again.CommandID != f.CommandID {
		t.Errorf("the repeat is %+v, want run %s", again, f.RunID)
	}
	if status, _, raw := r.do("POST", path+"/fork", doortest.Token(authn.Operator), `{"at":4}`, "Idempotency-Key", "k1"); status != 409 || !strings.Contains(raw, httpapi.CodeKeyReused) {
		t.Errorf("another order under the key: %d %s", status, raw)
	}
	if n := r.number(`SELECT count(*) FROM console.commands WHERE kind = 'fork' AND body::text LIKE '%12345678901234567890%' AND body->'ref'->>'name' = 'pricing'`); n != 1 {
		t.Errorf("%d commands are stored", n)
	}
	if run := get[httpapi.Run](r, "GET", path, authn.Viewer, ""); len(run.Forks) != 1 || run.Forks[0].RunID != f.RunID || run.Forks[0].Row != 3 {
		t.Errorf("the old run has the forks %+v", run.Forks)
	}
	if run := get[httpapi.Run](r, "GET", "/v1/runs/"+string(f.RunID), authn.Viewer, ""); run.ForkedFrom == nil || run.ForkedFrom.RunID != id || run.ForkedFrom.Row != 3 {
		t.Errorf("the new run comes from %+v", run.ForkedFrom)
	}

	for body, want := range map[string]string{
		`{"at":6}`:                       "journal of run",
		`{"at":0}`:                       "at",
		`{"message":" "}`:                "not blank",
		`{"results":{"x":1}}`:            "no id of a call",
		`{"input":{"a":1,"a":2}}`:        "input",
		`{"message":"` + long(70) + `"}`: "65536",
		`{"prompt":"` + long(300) + `"}`: "262144",
	} {
		if status, _, raw := r.do("POST", path+"/fork", doortest.Token(authn.Operator), body); status != 422 || !strings.Contains(raw, want) {
			t.Errorf("%.60s: %d %s, want 422 with %s", body, status, raw, want)
		}
	}
	if status, _, raw := r.do("POST", path+"/retry", doortest.Token(authn.Operator), ``); status != 409 || !strings.Contains(raw, httpapi.CodeNotFailed) {
		t.Errorf("retry of a run that goes on: %d %s", status, raw)
	}
	r.exec(`UPDATE runner.runs SET kind = 'flow' WHERE run_id = $1`, string(id))
	if status, _, raw := r.do("POST", path+"/fork", doortest.Token(authn.Operator), `{}`); status != 409 || !strings.Contains(raw, httpapi.CodeFlowRun) {
		t.Errorf("fork of a flow: %d %s", status, raw)
	}
}

func long(kib int) string { return strings.Repeat("x", kib<<10) }

// A failed run is retried once, whatever key asks and however many; many are
// retried with one request.
func TestForks_ARunIsRetriedOnce(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.many(20, "default", "pricing", "failed")
	r.many(5, "default", "pricing", "completed")
	r.many(5, "elsewhere", "pricing", "failed")
	one := events.RunID("")
	if err := r.db.QueryRow(t.Context(), `SELECT run_id FROM runner.runs WHERE status = 'failed' AND namespace = 'default' LIMIT 1`).Scan(&one); err != nil {
		t.Fatal(err)
	}
	r.takeForks()
	f := get[forkAnswer](r, "POST", "/v1/runs/"+string(one)+"/retry", authn.Operator, `{"reason":"again"}`)
	if again := get[forkAnswer](r, "POST", "/v1/runs/"+string(one)+"/retry", authn.Operator, ``, "Idempotency-Key", "other"); again.RunID != f.RunID {
		t.Errorf("a second retry is run %s, want %s", again.RunID, f.RunID)
	}
	where := `{"command":"retry","where":"agent==\"pricing\" && status==\"failed\""`
	if dry := r.bulk(where + `,"dry_run":true}`); len(dry.Runs) != 20 || dry.Runs[0].Retry != "" {
		t.Errorf("a dry run finds %d", len(dry.Runs))
	}
	for range 2 {
		done := r.bulk(where+`}`, "Idempotency-Key", "night")
		for _, run := range done.Runs {
			if run.Retry == "" || run.RunID == one && (run.Retry != f.RunID || !run.Replayed) {
				t.Errorf("%+v", run)
			}
		}
		if len(done.Runs) != 20 {
			t.Errorf("%d runs are retried", len(done.Runs))
		}
	}
	if n := r.number(`SELECT count(DISTINCT retry_of) FROM console.commands WHERE kind = 'fork'`); n != 20 {
		t.Errorf("%d retries, want 20", n)
	}
}
