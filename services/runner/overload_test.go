package runner_test

import (
	"fmt"
	"net/http/httptest"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/internal/scriptmodel"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner/model"
)

const overloadDocuments = `
apiVersion: holdfast/v1
kind: Model
metadata: {name: chat}
spec: {provider: openai-chat, model: scripted, apiKey: {env: KEY}, baseURL: %[1]q, timeout: 20s}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: responses}
spec: {provider: openai-responses, model: scripted, apiKey: {env: KEY}, baseURL: %[1]q, timeout: 20s}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: chat}
spec: {model: chat, instructions: be exact}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: responses}
spec: {model: responses, instructions: be exact}
`

// 200 runs are refused at once, with 429 or 529 and a Retry-After of a minute.
// Each waits as a timer row, without slot, claim and message; they come back
// spread over a quarter of the wait, and each asks once more.
func TestCaseF01_AnOverloadedProviderIsNotAskedByAllAtOnce(t *testing.T) {
	const n = 200
	server := scriptmodel.New(scriptmodel.Config{
		Script: func(scriptmodel.Request) (scriptmodel.Answer, error) { return saying("done"), nil },
		Fault: func(r scriptmodel.Request, nth int) scriptmodel.Fault {
			if nth > 1 {
				return scriptmodel.Fault{}
			}
			return scriptmodel.Fault{Status: 429 + 100*(len(r.FirstText())%2), RetryAfter: time.Minute}
		},
	})
	web := httptest.NewServer(server)
	t.Cleanup(web.Close)
	r := newRig(t)
	r.defs.apply(t, fmt.Sprintf(overloadDocuments, web.URL+"/v1"))
	m := model.All(model.Env{LookupEnv: func(string) (string, bool) { return "key", true }, ReadFile: os.ReadFile,
		Egress: egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})})
	w := r.worker(m)
	for i := range n {
		r.start(events.KindAgent, []string{"chat", "responses"}[i%2], fmt.Sprintf(`{"n":%d}`, i))
	}
	count := func(query string) (k int) {
		if err := r.sql.QueryRow(t.Context(), query).Scan(&k); err != nil {
			t.Fatal(err)
		}
		return k
	}
	waiting := `SELECT count(*) FROM runner.v_runs v JOIN runner.timers t USING (run_id) WHERE v.status = 'waiting' AND v.claim_worker IS NULL`
	r.eventually("all wait as timers", func() bool { return count(waiting) == n }, func() string { return fmt.Sprint(count(waiting)) })
	r.drained()
	for range 16 {
		if !w.Slots().TryAcquire() {
			t.Error("a wait keeps a slot")
		}
	}
	for range 16 {
		w.Slots().Release()
	}
	perSecond := map[int]int{}
	rows, err := r.sql.Query(t.Context(), `SELECT floor(extract(epoch FROM t.due - j.at))::int FROM runner.timers t JOIN runner.journal j USING (run_id) WHERE j.kind = 'model_failed'`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var s int
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		perSecond[s]++
	}
	for s, k := range perSecond {
		if s < 59 || s > 75 || k > n/5 {
			t.Errorf("%d of %d runs come back after %d s: %v", k, n, s, perSecond)
		}
	}
	// A minute passes, and the quarter of it in a second.
	if _, err := r.sql.Exec(t.Context(), `UPDATE runner.timers SET next_try = clock_timestamp() + (due - (SELECT min(due) FROM runner.timers)) / 15`); err != nil {
		t.Fatal(err)
	}
	completed := `SELECT count(*) FROM runner.v_runs WHERE status = 'completed' AND seq = 5`
	r.eventually("all have ended after one more attempt", func() bool { return count(completed) == n }, func() string { return fmt.Sprint(count(completed)) })
	if got := server.Count("").Requests; got != 2*n {
		t.Errorf("%d requests, want %d", got, 2*n)
	}
	for _, v := range server.Violations() {
		t.Errorf("turn %d broke a rule: %s", v.Turn, v.Message)
	}
}
