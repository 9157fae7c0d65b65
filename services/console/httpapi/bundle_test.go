package httpapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
	"github.com/holdfast-run/holdfast/services/console/httpapi"
)

// A run that was parked for a damaged journal has a bundle: bounded, with what is in
// doubt first, what parked it, who works, and what to do next.
func TestBundle_OfADamagedRun(t *testing.T) {
	t.Parallel()
	r := setup(t)
	id := r.accept("default", "pricing", `{}`)
	r.take("default", id, "pricing", `{}`)
	r.exec(`UPDATE runner.journal SET data = $2 WHERE run_id = $1`, string(id),
		`{"ref":{"kind":"agent","name":"pricing","digest":"sha256:a"},"model":{"kind":"model","name":"m","digest":"sha256:m"},"tools":[{"kind":"tool","name":"pay","digest":"sha256:p"}]}`)
	for range 60 {
		r.step(id, "running", false)
	}
	r.exec(`UPDATE runner.journal SET kind = 'plan_changed', data = '"garbled"' WHERE run_id = $1 AND seq = 59`, string(id))
	r.exec(`UPDATE runner.journal SET data = to_json(repeat('x', 300000)) WHERE run_id = $1 AND seq = 60`, string(id))
	r.exec(`UPDATE runner.runs SET status = 'needs_attention', input = to_json(repeat('y', 300000)), attempts = 5, error = '{"code":"damaged","message":"row 59 cannot be read"}' WHERE run_id = $1`, string(id))
	for i, state := range []string{"succeeded", "unknown", "intent"} {
		call, effect := string(events.NewCallID(id, int64(i+2), 0)), fmt.Sprint("e-", state)
		r.exec(`INSERT INTO tools.effects (effect_id, namespace, tool, key, state, epoch, call_id, run_id, args, args_digest, in_doubt, next_attempt_at) VALUES ($1, 'default', 'pay', $1, $4, 1, $2, $3, '{"card":"not to be shown"}', 'd', 'ask', clock_timestamp())`, effect, call, string(id), state)
		r.exec(`INSERT INTO tools.calls (call_id, run_id, namespace, tool, tool_digest, pool, args, args_digest, minted_key, key, traceparent, effect_id, acting, status, epoch) VALUES ($2, $3, 'default', 'pay', 'd', 'default', '{"card":"not to be shown"}', 'd', 'k', 'k', '', $1, false, 'open', 1)`, effect, call, string(id))
	}
	path := "/v1/runs/" + string(id) + "/bundle"
	status, _, raw := r.do("GET", path, doortest.Token(authn.Operator), "")
	if status != 200 || len(raw) > 100<<10 {
		t.Fatalf("%d, %d bytes: %.300s", status, len(raw), raw)
	}
	b := get[httpapi.Bundle](r, "GET", path, authn.Operator, "")
	if b.Format != 1 || b.Problem == nil || b.Problem.Code != "damaged" || b.Run.Attempts != 5 || b.Run.Input != nil || !strings.Contains(b.Why, "row 59 cannot be read") {
		t.Errorf("the bundle is of %+v, problem %+v, why %q", b.Run, b.Problem, b.Why)
	}
	last := b.Journal.Last
	if b.Journal.Rows != 61 || len(last) != console.BundleRows || last[0].Seq != 12 || last[49].Seq != 61 || string(last[47].Data) != `"garbled"` || string(last[48].Data) != "null" || last[48].Elided != 300002 {
		t.Errorf("of %d rows the bundle has %d, from %d on; row 60 is %.50s with %d bytes elided", b.Journal.Rows, len(last), last[0].Seq, last[48].Data, last[48].Elided)
	}
	if len(b.Definitions) != 3 || b.Definitions[2].Digest != "sha256:p" {
		t.Errorf("definitions %+v", b.Definitions)
	}
	if len(b.Effects) != 3 || b.Effects[0].State != "unknown" || b.Effects[1].State != "intent" || strings.Contains(raw, "not to be shown") {
		t.Errorf("effects %+v", b.Effects)
	}
	next := strings.Join(b.Next, "\n")
	for _, want := range []string{"holdfast effects resolve e-unknown", "holdfast runs fork " + string(id) + " --at ROW", "holdfast runs resume " + string(id), "holdfast doctor"} {
		if !strings.Contains(next, want) {
			t.Errorf("what to do next lacks %q:\n%s", want, next)
		}
	}
	r.exec(`UPDATE runner.journal SET data = '17' WHERE run_id = $1 AND seq = 1`, string(id))
	if b = get[httpapi.Bundle](r, "GET", path, authn.Operator, ""); len(b.Definitions) != 0 {
		t.Errorf("a first row that cannot be read pins %+v", b.Definitions)
	}
	if status, _, _ := r.do("GET", path, doortest.Token(authn.Viewer), ""); status != 403 {
		t.Errorf("a viewer gets a bundle: %d", status)
	}
	if status, _, _ := r.do("GET", "/v1/runs/"+string(events.NewRunID())+"/bundle", doortest.Token(authn.Operator), ""); status != 404 {
		t.Errorf("a run that is not there: %d", status)
	}
	queued := r.accept("default", "pricing", `{}`)
	if b = get[httpapi.Bundle](r, "GET", "/v1/runs/"+string(queued)+"/bundle", authn.Operator, ""); b.Run.Status != "queued" || len(b.Journal.Last) != 0 {
		t.Errorf("a queued run: %+v", b.Run)
	}
}

// A flow is retried once, whoever asks and with whichever key.
func TestRetry_OfAFlowOnce(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.takeForks()
	id := r.accept("default", "round", `{}`)
	r.take("default", id, "round", `{}`)
	r.exec(`UPDATE runner.runs SET kind = 'flow', status = 'failed', ended_at = clock_timestamp() WHERE run_id = $1`, string(id))
	path := "/v1/runs/" + string(id) + "/retry"
	first := get[forkAnswer](r, "POST", path, authn.Operator, `{}`, "Idempotency-Key", "a")
	again := get[forkAnswer](r, "POST", path, authn.Admin, `{}`, "Idempotency-Key", "b")
	if again.RunID != first.RunID || r.number(`SELECT count(*) FROM console.commands WHERE kind = 'fork'`) != 1 {
		t.Errorf("the flow was retried as %s and as %s", first.RunID, again.RunID)
	}
}
