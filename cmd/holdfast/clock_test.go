package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/clocktest"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/internal/scriptmodel"
	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

const clockDefinitions = `apiVersion: holdfast/v1
kind: Model
metadata: {name: script}
spec: {provider: anthropic, model: script, baseURL: "MODEL", apiKey: {env: CLOCK_KEY}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: nap}
spec: {builtin: sleep_until}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: pay}
spec:
  description: Pays.
  input: {type: object, properties: {n: {type: string}}, required: [n]}
  effect: write
  inDoubt: fail
  approval: always
  approvalExpiresAfter: 5m
  approvalValidFor: 5m
  http: {method: POST, url: "SHOP", body: "${args}"}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: late}
spec:
  description: Nobody says yes to it.
  input: {type: object, properties: {n: {type: string}}, required: [n]}
  effect: write
  approval: always
  approvalExpiresAfter: 2s
  http: {method: POST, url: "SHOP", body: "${args}"}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: timely}
spec: {model: script, instructions: work, tools: [nap, pay, late]}
`

// Processes whose clocks are ten minutes behind, right and ten minutes ahead work side by
// side: no living one is taken over, however long a model or a tool takes; sleeps, expiry
// and deadlines come when the database says, and a killed one is followed in seconds.
func TestCaseC14_ProcessesWhoseClocksAreApart(t *testing.T) {
	t.Parallel()
	const slow = 2 * time.Second // longer than any lease
	model := scriptmodel.New(scriptmodel.Config{
		Script: func(r scriptmodel.Request) (scriptmodel.Answer, error) {
			switch r.Turn() {
			case 0:
				return scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Call("nap", map[string]string{"for": "1500ms"})}}, nil
			case 1:
				return scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Call("pay", map[string]string{"n": "1"}), scriptmodel.Call("late", map[string]string{"n": "2"})}}, nil
			}
			return scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Text("done")}}, nil
		},
		Fault: func(r scriptmodel.Request, nth int) scriptmodel.Fault {
			switch {
			case r.Turn() == 0 && strings.Contains(r.FirstText(), "killed"):
				return scriptmodel.Fault{Delay: map[int]time.Duration{1: time.Minute}[nth]}
			case r.Turn() == 0:
				return scriptmodel.Fault{Delay: slow}
			}
			return scriptmodel.Fault{}
		},
	})
	provider := httptest.NewServer(model)
	t.Cleanup(provider.Close)
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-time.After(slow):
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, `{"paid":true}`)
	}))
	t.Cleanup(shop.Close)

	db := pgtest.New(t)
	nats, front := free(t), free(t)
	env := []string{"HOLDFAST_DATABASE_URL=" + db.URL.Reveal(), "HOLDFAST_NATS_URL=nats://" + nats, "HOLDFAST_ADMIN_TOKEN=" + adminToken,
		"HOLDFAST_EGRESS_ALLOW=127.0.0.0/8", "CLOCK_KEY=key", "HOLDFAST_RUNNER_MODEL_SLOTS=2"}
	at := func(offset string, args ...string) *server {
		t.Helper()
		return start(t, append([]string{clocktest.Env + "=" + offset}, env...), "msg=ready", append([]string{"serve"}, append(args, "--health-listen", free(t))...)...)
	}
	if text, code := output(t, env, "migrate"); code != 0 {
		t.Fatalf("migrate: exit %d\n%s", code, text)
	}
	at("", "nats", "--nats-listen", nats, "--nats-dir", t.TempDir())
	edge := []string{"edge", "--listen", front}
	for service, offset := range map[string]string{"trigger": "10m", "tools": "-10m", "approvals": "10m", "console": "-10m"} {
		addr := free(t)
		edge = append(edge, "--edge-"+service+"-url", "http://"+addr)
		at(offset, service, "--listen", addr)
	}
	at("", edge...)
	at("10m", "tools", "--listen", free(t))
	at("-10m", "approvals", "--listen", free(t))
	runners := map[int]*server{}
	for _, offset := range []string{"-10m", "", "10m"} {
		r := at(offset, "runner")
		runners[r.cmd.Process.Pid] = r
	}
	api := remote(t, "http://"+front, adminToken)
	text := strings.NewReplacer("MODEL", provider.URL, "SHOP", shop.URL).Replace(clockDefinitions)
	if _, err := api.Apply(t.Context(), []client.Document{{File: "clock.yaml", Text: text}}); err != nil {
		t.Fatal(err)
	}
	begin := func(name, deadline string) events.RunID {
		t.Helper()
		s, err := api.Start(t.Context(), client.StartRequest{Agent: "timely", Input: json.RawMessage(`{"is":"` + name + `"}`), IdempotencyKey: name, Deadline: deadline})
		if err != nil {
			t.Fatal(err)
		}
		return s.RunID
	}
	count := func(sql string, args ...any) (n int) {
		t.Helper()
		if err := db.Pool.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		return n
	}

	// One whose runner is killed in its model call, and six that keep all three at work.
	killed := begin("killed", "5m")
	var pid int
	await(t, "the first call", func() bool {
		return db.Pool.QueryRow(t.Context(), `SELECT w.pid FROM runner.v_runs r JOIN runner.v_workers w ON w.name = r.claim_worker WHERE r.run_id = $1`, string(killed)).Scan(&pid) == nil && runners[pid] != nil
	})
	// Only who is fresh sees that another is dead.
	await(t, "all to be fresh", func() bool {
		return count(`SELECT count(*) FROM runner.workers WHERE fresh_since < clock_timestamp() - interval '2 s' AND beat > clock_timestamp() - interval '1 s' AND release <> ''`) == 3
	})
	if state := runners[pid].stop(syscall.SIGKILL); state.Success() {
		t.Fatal("it was not killed")
	}
	died := time.Now()
	ids := []events.RunID{killed}
	for i := range 4 {
		ids = append(ids, begin(fmt.Sprint("run-", i), "5m"))
	}
	await(t, "the call of the killed one to be made again", func() bool { return model.Count(string(killed)).Requests > 1 })
	if took := time.Since(died); took > 30*time.Second {
		t.Errorf("the killed runner's call was taken over after %s", took)
	}
	at("10m", "runner")
	for _, id := range ids {
		await(t, "a yes to "+string(id), func() bool {
			open, err := api.Approvals(t.Context(), client.ApprovalFilter{Run: id}, client.PageRequest{})
			if err != nil {
				return false
			}
			for _, a := range open.Items {
				if a.Tool == "pay" {
					_, err = api.Decide(t.Context(), a.ApprovalID, client.Decision{Decision: "approve"})
					return err == nil
				}
			}
			return false
		})
	}
	for _, id := range ids {
		await(t, "the end of "+string(id), func() bool {
			r, err := api.Run(t.Context(), id)
			return err == nil && events.Ended(r.Status)
		})
		if n := model.Count(string(id)).Requests; n != 3 && (id != killed || n != 4) {
			t.Errorf("the model was asked %d times by run %s, want 3", n, id)
		}
	}
	if n := count(`SELECT count(*) FROM runner.v_runs WHERE status = 'completed'`); n != len(ids) {
		t.Errorf("%d runs completed, want %d", n, len(ids))
	}
	if n := count(`SELECT coalesce(sum(attempts), 0) FROM runner.v_runs WHERE run_id <> $1`, string(killed)); n != 0 {
		t.Errorf("%d takeovers of living runners", n)
	}
	// Every pay was one act, under one lease that was kept, and no late one was allowed.
	if n := count(`SELECT count(*) FROM tools.v_effects WHERE tool = 'pay' AND state = 'succeeded' AND attempts = 1`); n != len(ids) {
		t.Errorf("%d payments by one attempt, want %d", n, len(ids))
	}
	if n := count(`SELECT count(*) FROM tools.v_effects WHERE tool = 'late'`); n != 0 {
		t.Errorf("%d acts that nobody allowed", n)
	}
	for what, sql := range map[string]string{
		"questions expired when the database said": `SELECT count(*) FROM approvals.requests WHERE tool = 'late' AND state = 'expired' AND decided_at - expires_at BETWEEN interval '0' AND interval '20 s' AND expires_at - created_at BETWEEN interval '0.5 s' AND interval '10 s'`,
		"sleeps ended when the database said": `SELECT count(*) FROM runner.journal s JOIN runner.journal f ON f.run_id = s.run_id AND f.kind = 'timer_fired'
			WHERE s.kind = 'sleep_started' AND f.at - (s.data->>'until')::timestamptz BETWEEN interval '0' AND interval '20 s' AND (s.data->>'until')::timestamptz - s.at BETWEEN interval '-1 s' AND interval '2 s' AND f.seq = (SELECT min(x.seq) FROM runner.journal x WHERE x.run_id = s.run_id AND x.kind = 'timer_fired')`,
		"journals go forward": `SELECT count(*) FROM runner.v_runs r WHERE NOT EXISTS (SELECT FROM (SELECT at, lag(at) OVER (ORDER BY seq) AS before FROM runner.journal j WHERE j.run_id = r.run_id) j WHERE at < before)
			AND r.ended_at >= r.accepted_at AND r.ended_at <= clock_timestamp()`,
	} {
		if n := count(sql); n != len(ids) {
			t.Errorf("%s: %d of %d", what, n, len(ids))
		}
	}
	health, err := api.Doctor(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for _, f := range health.Findings {
		if f.Code == "clock_skew" && (strings.Contains(f.What, " 10m") || strings.Contains(f.What, " 9m5")) {
			told++
		}
	}
	if told < 4 { // of two runners and two tools
		t.Errorf("of %d clocks it is told that they are apart: %+v", told, health.Findings)
	}
}
