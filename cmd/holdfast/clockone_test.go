package main

import (
	"encoding/json"
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
	"github.com/holdfast-run/holdfast/internal/stdwebhooks"
	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

const clockOneSecret = "whsec_Y2xvY2stY2xvY2stY2xvY2stY2xvY2s="

// clockOneDefinitions are begun by a signed webhook and by a schedule.
const clockOneDefinitions = clockDefinitions + `---
apiVersion: holdfast/v1
kind: Webhook
metadata: {name: jobs}
spec: {provider: standard, secrets: [{env: CLOCK_SECRET}], agent: timely, input: {is: "${body.is}"}}
`

// Of one service, one process after the other has a clock that is an hour ahead, then an
// hour behind all others: a signed webhook is taken, a schedule fires when it is due, a
// sleep, a question and a yes last as long as they should, and each act is one.
func TestCaseC14_OneServiceAnHourApart(t *testing.T) {
	t.Parallel()
	model := scriptmodel.New(scriptmodel.Config{Script: func(r scriptmodel.Request) (scriptmodel.Answer, error) {
		part := scriptmodel.Text("done")
		switch r.Turn() {
		case 0:
			part = scriptmodel.Call("nap", map[string]string{"for": "300ms"})
		case 1:
			return scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Call("pay", map[string]string{"n": "1"}), scriptmodel.Call("late", map[string]string{"n": "2"})}}, nil
		}
		return scriptmodel.Answer{Parts: []scriptmodel.Part{part}}, nil
	}})
	provider := httptest.NewServer(model)
	t.Cleanup(provider.Close)
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"paid":true}`) }))
	t.Cleanup(shop.Close)

	db := pgtest.New(t)
	nats, front := free(t), free(t)
	env := []string{"HOLDFAST_DATABASE_URL=" + db.URL.Reveal(), "HOLDFAST_NATS_URL=nats://" + nats, "HOLDFAST_ADMIN_TOKEN=" + adminToken,
		"HOLDFAST_EGRESS_ALLOW=127.0.0.0/8", "CLOCK_KEY=key", "CLOCK_SECRET=" + clockOneSecret, "HOLDFAST_TRIGGER_SYNC_EVERY=300ms"}
	if text, code := output(t, env, "migrate"); code != 0 {
		t.Fatalf("migrate: exit %d\n%s", code, text)
	}
	running, argsOf := map[string]*server{}, map[string][]string{}
	at := func(name, offset string) {
		t.Helper()
		if s := running[name]; s != nil {
			s.stop(syscall.SIGTERM)
		}
		running[name] = start(t, append([]string{clocktest.Env + "=" + offset}, env...), "msg=ready", append([]string{"serve"}, argsOf[name]...)...)
	}
	edge := []string{"edge", "--listen", front}
	argsOf["nats"] = []string{"nats", "--nats-listen", nats, "--nats-dir", t.TempDir()}
	for _, service := range []string{"trigger", "tools", "approvals", "console"} {
		addr := free(t)
		edge = append(edge, "--edge-"+service+"-url", "http://"+addr)
		argsOf[service] = []string{service, "--listen", addr}
	}
	argsOf["runner"], argsOf["runner-2"], argsOf["edge"] = []string{"runner"}, []string{"runner"}, edge
	for _, name := range []string{"nats", "console", "trigger", "tools", "approvals", "runner", "runner-2", "edge"} {
		argsOf[name] = append(argsOf[name], "--health-listen", free(t))
		at(name, "")
	}
	api := remote(t, "http://"+front, adminToken)
	apply := func(text string) {
		t.Helper()
		text = strings.NewReplacer("MODEL", provider.URL, "SHOP", shop.URL).Replace(text)
		if _, err := api.Apply(t.Context(), []client.Document{{File: "clock.yaml", Text: text}}); err != nil {
			t.Fatal(err)
		}
	}
	apply(clockOneDefinitions)
	key, err := stdwebhooks.ParseKey(clockOneSecret)
	if err != nil {
		t.Fatal(err)
	}
	deliver := func(name string) events.RunID {
		t.Helper()
		body := []byte(`{"is":"` + name + `"}`)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+front+"/hooks/jobs", strings.NewReader(string(body)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if err := stdwebhooks.Sign(req.Header, []stdwebhooks.Key{key}, "msg_"+name, time.Now(), body); err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text := read(t, resp.Body)
		var s client.Started
		if err := json.Unmarshal([]byte(text), &s); err != nil || resp.StatusCode != http.StatusAccepted {
			t.Fatalf("a webhook that was signed just now, at %s: %s %s", name, resp.Status, text)
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

	runs := 0
	for _, service := range []string{"runner", "tools", "trigger", "approvals"} {
		for _, offset := range []string{"1h", "-1h", ""} { // ahead, behind, right
			if at(service, offset); offset == "" {
				continue // the next one is wrong
			}
			name := service + map[string]string{"1h": "-ahead", "-1h": "-behind"}[offset]
			apply("apiVersion: holdfast/v1\nkind: Schedule\nmetadata: {name: " + name + "}\nspec: {every: 1s, maxFires: 1, agent: timely, input: {is: " + name + "-tick}}\n")
			first := deliver(name)
			if again := deliver(name); again != first {
				t.Errorf("at %s a delivery that came twice is two runs", name)
			}
			runs += 2
			await(t, "the end of all runs of "+name, func() bool {
				if open, err := api.Approvals(t.Context(), client.ApprovalFilter{}, client.PageRequest{}); err == nil {
					for _, a := range open.Items {
						if a.Tool == "pay" {
							_, _ = api.Decide(t.Context(), a.ApprovalID, client.Decision{Decision: "approve"})
						}
					}
				}
				return count(`SELECT count(*) FROM runner.v_runs WHERE status = 'completed'`) == runs
			})
		}
	}
	if n := count(`SELECT count(*) FROM runner.v_runs`); n != runs {
		t.Errorf("%d runs, want %d", n, runs)
	}
	if n := count(`SELECT count(*) FROM tools.v_effects WHERE tool = 'late'`); n != 0 {
		t.Errorf("%d acts that nobody allowed", n)
	}
	for what, sql := range map[string]string{
		"payments": `SELECT count(*) FROM tools.v_effects WHERE tool = 'pay' AND state = 'succeeded'`,
		"questions expired when the database said": `SELECT count(*) FROM approvals.requests WHERE tool = 'late' AND state = 'expired' AND decided_at - expires_at BETWEEN interval '0' AND interval '20 s' AND expires_at - created_at BETWEEN interval '0.5 s' AND interval '10 s'`,
		"questions were answered in time":          `SELECT count(*) FROM approvals.requests WHERE tool = 'pay' AND state = 'approved' AND expires_at - created_at BETWEEN interval '4 min' AND interval '6 min'`,
		"sleeps ended when the database said": `SELECT count(*) FROM runner.journal s JOIN runner.journal f ON f.run_id = s.run_id AND f.kind = 'timer_fired'
			WHERE s.kind = 'sleep_started' AND f.at - (s.data->>'until')::timestamptz BETWEEN interval '0' AND interval '20 s' AND f.seq = (SELECT min(x.seq) FROM runner.journal x WHERE x.run_id = s.run_id AND x.kind = 'timer_fired')`,
		"journals go forward": `SELECT count(*) FROM runner.v_runs r WHERE NOT EXISTS (SELECT FROM (SELECT at, lag(at) OVER (ORDER BY seq) AS before FROM runner.journal j WHERE j.run_id = r.run_id) j WHERE at < before)
			AND r.ended_at >= r.accepted_at AND r.ended_at <= clock_timestamp()`,
	} {
		if n := count(sql); n != runs {
			t.Errorf("%s: %d of %d", what, n, runs)
		}
	}
	if n := count(`SELECT count(*) FROM trigger.fires WHERE state = 'started' AND fired_at - due_at BETWEEN interval '0' AND interval '20 s'`); n != runs/2 {
		t.Errorf("%d schedules fired when they were due, want %d", n, runs/2)
	}
}
