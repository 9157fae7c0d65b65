package httpapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/console/httpapi"
)

// A run shows how it stands to its own ceilings, after raises, and to those that
// it shares: over the API and on its page, and in no list.
func TestRun_ShowsItsBudgets(t *testing.T) {
	t.Parallel()
	r := setup(t)
	id, flow := events.NewRunID(), events.NewRunID()
	for run, doc := range map[events.RunID]string{
		id:   "kind: Agent\nmetadata: {name: shop}\nspec: {model: m, instructions: i, budget: {modelCalls: 5, cost: \"1.50\", steps: 4, wallTime: 2h, pools: [night]}}",
		flow: "kind: Flow\nmetadata: {name: round}\nspec: {steps: [{name: a, agent: shop}], budget: {steps: 9, wallTime: 1h}}",
	} {
		docs, err := spec.Parse("t.yaml", []byte("apiVersion: holdfast/v1\n"+doc))
		if err != nil {
			t.Fatal(err)
		}
		d := docs[0]
		r.exec(`INSERT INTO catalog.versions (namespace, kind, name, digest, body, created_by) VALUES ('default', $1, $2, $3, $4::text::json, 'maria')`, strings.ToLower(d.Kind), d.Name, string(d.Digest), string(d.Body))
		r.take("default", run, d.Name, `{}`)
		r.exec(`UPDATE runner.runs SET kind = $2, digest = $3, model_calls = 4, cost_micro_usd = 1600000, tokens = 20, cache_read_tokens = 12, cache_write_tokens = 3, seq = 9, ended_at = '2026-11-29T00:30:00Z' WHERE run_id = $1`, run, strings.ToLower(d.Kind), string(d.Digest))
	}
	row := func(run events.RunID, seq int, kind, data string) {
		r.exec(`INSERT INTO runner.journal (run_id, seq, kind, status, cause, inbound, worker, at, data) VALUES ($1, $2, $3, 'running', 'c', false, 'w', clock_timestamp(), $4::text::json)
			ON CONFLICT (run_id, seq) DO UPDATE SET data = excluded.data`, run, seq, kind, data)
	}
	row(id, 1, "run_started", fmt.Sprintf(`{"accepted_at":"2026-11-29T00:00:00Z","wall_time_ms":7200000,"pools":[{"kind":"budget","name":"night","digest":"d"}],
		"parent":{"run_id":"%[1]s","item":"a/0","bounds":[{"pool":"flow-%[1]s-steps","unit":"steps","limit":9000000,"on_exceeded":"pause"}]}}`, flow))
	row(id, 2, "model_answered", `{}`)
	row(id, 3, "model_answered", `{}`)
	row(id, 4, "budget_raised", `{"id":"r","budget":"cost","to":3000000}`)
	row(id, 5, "budget_raised", `{"id":"s","budget":"steps","to":2}`)
	row(flow, 1, "run_started", `{"accepted_at":"2026-11-29T00:00:00Z","wall_time_ms":3600000}`)
	r.exec(`INSERT INTO runner.pools (namespace, pool, window_start, unit, ceiling, used, reserved) VALUES
		('default', 'night', '2026-11-27', 'tokens', 1000, 900, 0), ('default', 'night', '2026-11-28', 'tokens', 1000, 20, 5),
		('default', $1, 'all', 'steps', 9, 2, 0), ('default', 'other', 'all', 'tokens', 1, 1, 0)`, "flow-"+string(flow)+"-steps")

	shown := func(run events.RunID) (out []string) {
		t.Helper()
		for _, b := range get[httpapi.Run](r, "GET", "/v1/runs/"+string(run), authn.Viewer, "").Budgets {
			out = append(out, fmt.Sprintf("%s %d+%d of %d %s %s", strings.Replace(b.Name, string(flow), "FLOW", 1), b.Used, b.Reserved, b.Limit, b.Unit, b.Window))
		}
		return out
	}
	want := []string{"modelCalls 4+0 of 5 modelCalls ", "cost 1600000+0 of 3000000 micro_usd ", "steps 2+0 of 4 steps ", "wallTime 1800+0 of 7200 seconds ",
		"pool:flow-FLOW-steps 2+0 of 9 steps all", "pool:night 20+5 of 1000 tokens 2026-11-28"}
	if diff := cmp.Diff(want, shown(id)); diff != "" {
		t.Errorf("an agent's run (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"wallTime 1800+0 of 3600 seconds ", "pool:flow-FLOW-steps 2+0 of 9 steps all"}, shown(flow)); diff != "" {
		t.Errorf("a flow's run (-want +got):\n%s", diff)
	}
	if run := get[httpapi.Run](r, "GET", "/v1/runs/"+string(id), authn.Viewer, ""); run.Tokens != 20 || run.CacheRead != 12 || run.CacheWrite != 3 {
		t.Errorf("%d tokens, %d read from and %d written to the cache; want 20, 12 and 3", run.Tokens, run.CacheRead, run.CacheWrite)
	}
	_, _, raw := r.do("GET", "/ui/runs/"+string(id), doortest.Token(authn.Viewer), "")
	for _, text := range []string{"<dt>Cost</dt><dd>$1.6</dd>", "$1.6 of $3<", "30m0s of 2h0m0s<", "Shared budget night", "20 of 1000; 5 booked", `url(#r-hatch2)`} {
		if !strings.Contains(raw, text) {
			t.Errorf("the page has no %s", text)
		}
	}
	for _, run := range get[door.Page[httpapi.Run]](r, "GET", "/v1/runs", authn.Viewer, "").Items {
		if run.Budgets != nil {
			t.Errorf("a list shows %+v", run.Budgets)
		}
	}
	// A row that cannot be read hides ceilings, not the run.
	row(id, 1, "run_started", `"?"`)
	if got := shown(id); len(got) != 3 {
		t.Errorf("with a damaged first row: %v", got)
	}
}
