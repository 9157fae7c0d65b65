package trigger_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/trigger"
)

type replayed struct {
	Of      string `json:"replay_of"`
	ID      string `json:"delivery_id"`
	Outcome string `json:"outcome"`
	Reason  string `json:"reason"`
	Detail  string `json:"detail"`
	RunID   string `json:"run_id"`
}

func (r *replica) replay(id, body string, header ...string) replayed {
	r.t.Helper()
	a := r.api(operator, "POST", "/v1/deliveries/"+id+"/replay", body, header...)
	var out replayed
	if err := json.Unmarshal(a.body, &out); err != nil || a.status != http.StatusOK {
		r.t.Fatalf("replay of %s: %d %s", id, a.status, a.body)
	}
	return out
}

func TestReplay_TheSameRunUnlessForced(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.start(t)
	starts := w.collect(t, true)
	const body = `{"shop":"s","price":12345678901234567890.123}`
	first := r.post("/hooks/orders", body, signed("m1", body, time.Now())...)
	id := r.logged(first).ID
	again := r.logged(r.post("/hooks/orders", body, signed("m1", body, time.Now())...)).ID
	for _, of := range []string{id, again, id} {
		if got := r.replay(of, `{}`); got.RunID != first.RunID || got.Outcome != trigger.OutcomeDuplicate || got.ID != "" {
			t.Errorf("replay of %s: %+v, want run %s", of, got, first.RunID)
		}
	}
	forced := r.replay(id, `{"force":true}`, "Idempotency-Key", "k1")
	if forced.RunID == first.RunID || forced.Outcome != trigger.OutcomeAccepted || forced.Of != id {
		t.Errorf("forced: %+v", forced)
	}
	if got := r.replay(id, `{"force":true}`, "Idempotency-Key", "k1"); got.RunID != forced.RunID || got.Outcome != trigger.OutcomeDuplicate {
		t.Errorf("the same forced replay: %+v, want run %s", got, forced.RunID)
	}
	third := r.replay(forced.ID, `{"force":true}`) // of the replay: the request itself again
	if third.RunID == forced.RunID || third.Of != id {
		t.Errorf("forced replay of a replay: %+v", third)
	}
	e := r.entry(forced.ID)
	if e.ReplayOf != id || e.Principal != "operator" || e.RunID != forced.RunID || e.Request.BodyKept {
		t.Errorf("entry of the replay: %+v %+v", e, e.Request)
	}
	got := starts.exactly(t, 3)
	slices.SortFunc(got, func(a, b events.StartRun) int { return strings.Compare(a.Trigger.ID, b.Trigger.ID) }) // "m1" first
	for _, s := range got[1:] {
		if !strings.HasPrefix(s.Trigger.ID, "replay/"+id+"/") || string(s.Input) != string(got[0].Input) || s.Labels["shop"] != "s" {
			t.Errorf("start by replay: %+v with %s", s.Trigger, s.Input)
		}
	}
}

// What was rejected is taken once its webhook or agent is put right. Only what
// was signed can be: the log has no body of the rest, and says so.
func TestReplay_OfRejected(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, "apiVersion: holdfast/v1\nkind: Webhook\nmetadata: {name: early}\nspec: {provider: none, agent: later, input: {a: \"${body.a}\"}, labels: {page: \"${query.page}\"}}\n")
	r := w.start(t)
	id := r.logged(r.post("/hooks/early?page=2", `{"a":1}`)).ID
	if got := r.replay(id, `{}`); got.Outcome != trigger.OutcomeRejected || got.Reason != trigger.CodeUnknownTarget || got.Detail == "" {
		t.Errorf("replay before it is put right: %+v", got)
	}
	w.apply(t, "apiVersion: holdfast/v1\nkind: Agent\nmetadata: {name: later}\nspec: {model: claude, instructions: Later.}\n")
	first := r.replay(id, `{}`)
	if first.Outcome != trigger.OutcomeAccepted || w.input(t, first.RunID) != `{"a":1}` {
		t.Errorf("replay: %+v", first)
	}
	if got := r.replay(id, `{}`); got.RunID != first.RunID || got.Outcome != trigger.OutcomeDuplicate {
		t.Errorf("second replay: %+v, want run %s", got, first.RunID)
	}

	unsigned := r.logged(r.post("/hooks/github", `{}`)).ID
	api := r.api(operator, "POST", "/v1/agents/anything/runs", `{}`)
	var of string
	if err := w.db.Pool.QueryRow(t.Context(), `SELECT delivery_id FROM trigger.v_deliveries WHERE run_id = $1`, api.RunID).Scan(&of); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		id, body, detail string
		status           int
	}{
		"not signed":                 {unsigned, `{}`, "not kept", http.StatusConflict},
		"not signed, forced":         {unsigned, `{"force":true}`, "missing_signature", http.StatusConflict},
		"a start of the API, forced": {of, `{"force":true}`, "webhooks", http.StatusConflict},
		"nothing":                    {"0198c2a4-0000-7000-8000-000000000000", `{}`, "no delivery", http.StatusNotFound},
		"what is no id":              {"x", `{}`, "no delivery", http.StatusNotFound},
	} {
		if a := r.api(operator, "POST", "/v1/deliveries/"+tc.id+"/replay", tc.body); a.status != tc.status || !strings.Contains(a.Detail, tc.detail) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if a := r.send("POST", "/v1/deliveries/"+id+"/replay", []byte(`{}`), "Authorization", "Bearer "+tokenOfOther, "Content-Type", "application/json"); a.status != http.StatusNotFound {
		t.Errorf("another namespace's delivery: %d %s", a.status, a.body)
	}
}

func TestReplay_Range(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const hook = "apiVersion: holdfast/v1\nkind: Webhook\nmetadata: {name: early}\nspec: {provider: none, agent: %s}\n"
	w.apply(t, fmt.Sprintf(hook, "later"))
	r := w.start(t)
	from := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	const n = 5
	var ids []string
	for i := range n {
		ids = append(ids, r.logged(r.post("/hooks/early", fmt.Sprintf(`{"i":%d}`, i))).ID)
	}
	other := r.logged(r.post("/hooks/raw", `{`))
	w.apply(t, fmt.Sprintf(hook, "anything"))
	type answered struct {
		Counts map[string]int
		Items  []replayed
		Next   string
	}
	replay := func(more string) (out answered) {
		t.Helper()
		a := r.api(operator, "POST", "/v1/deliveries/replay", fmt.Sprintf(`{"webhook":"early","from":%q%s}`, from, more))
		if err := json.Unmarshal(a.body, &out); err != nil || a.status != http.StatusOK {
			t.Fatalf("%d %s", a.status, a.body)
		}
		return out
	}
	if dry := replay(`,"dry_run":true`); len(dry.Items) != n || dry.Counts["rejected"] != n || w.count(t, "trigger.deliveries") != 0 {
		t.Errorf("dry run: %+v", dry)
	}
	var got []string
	runs := map[string]bool{}
	for after := ""; ; {
		page := replay(`,"limit":2` + after)
		for _, item := range page.Items {
			got = append(got, item.Of)
			runs[item.RunID] = true
			if item.Outcome != trigger.OutcomeAccepted {
				t.Errorf("%+v", item)
			}
		}
		if page.Next == "" {
			break
		}
		after = fmt.Sprintf(`,"after":%q`, page.Next)
	}
	if diff := cmp.Diff(ids, got); diff != "" || len(runs) != n {
		t.Errorf("%d runs, replayed in order (-want +got):\n%s", len(runs), diff)
	}
	if again := replay(""); again.Counts["duplicate"] != n {
		t.Errorf("the range again: %+v", again)
	}
	if accepted := replay(`,"outcome":"accepted","force":true`); len(accepted.Items) != 0 {
		t.Errorf("replays are replayed: %+v", accepted)
	}
	if n := w.count(t, "trigger.deliveries"); n != 5 {
		t.Errorf("%d deliveries, want 5", n)
	}
	if e := r.entry(other.ID); e.RunID != "" {
		t.Errorf("another webhook's request was replayed: %+v", e)
	}
	for _, body := range []string{`{"webhook":"early"}`, `{"webhook":"early","from":"2026-01-02T00:00:00Z","to":"2026-01-01T00:00:00Z"}`, `{"webhook":"early","from":"2026-01-01T00:00:00Z","limit":501}`} {
		if a := r.api(operator, "POST", "/v1/deliveries/replay", body); a.status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	if a := r.api(authn.Viewer, "POST", "/v1/deliveries/replay", `{}`); a.status != http.StatusForbidden {
		t.Errorf("a viewer replays: %d", a.status)
	}
}

func TestTestSend_IsWhatTheSenderSees(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, "apiVersion: holdfast/v1\nkind: Webhook\nmetadata: {name: nosecret}\nspec: {provider: github, secrets: [{env: NOT_SET}], agent: anything}\n")
	r := w.start(t)
	type tested struct {
		Status     int
		Headers    map[string]string
		Body       string
		RunID      string `json:"run_id"`
		DeliveryID string `json:"delivery_id"`
	}
	send := func(hook, body string) (out tested) {
		t.Helper()
		request, err := json.Marshal(map[string]any{"body": body, "headers": map[string]string{"X-GitHub-Event": "push"}})
		if err != nil {
			t.Fatal(err)
		}
		a := r.api(operator, "POST", "/v1/webhooks/"+hook+"/test", string(request))
		if err := json.Unmarshal(a.body, &out); err != nil || a.status != http.StatusOK {
			t.Fatalf("%s: %d %s", hook, a.status, a.body)
		}
		return out
	}
	for _, hook := range []string{"orders", "github", "raw"} {
		got := send(hook, `{"shop":"s","price":12345678901234567890.123}`)
		if got.Status != http.StatusAccepted || got.RunID == "" || got.Headers["Location"] != "/v1/runs/"+got.RunID {
			t.Errorf("%s: %+v", hook, got)
		}
		if input := w.input(t, got.RunID); !strings.Contains(input, "12345678901234567890.123") {
			t.Errorf("%s: input %s", hook, input)
		}
		if e := r.entry(got.DeliveryID); e.RunID != got.RunID || e.Request.Remote != "test-send" || e.Request.Status != got.Status {
			t.Errorf("%s: entry %+v %+v", hook, e, e.Request)
		}
	}
	if got := send("orders", `{"shop":1,"price":1}`); got.Status != http.StatusUnprocessableEntity || got.RunID != "" || !strings.Contains(got.Body, "invalid_input") {
		t.Errorf("what the schema refuses: %+v", got)
	}
	for hook, status := range map[string]int{"nobody": http.StatusNotFound, "nosecret": http.StatusUnprocessableEntity} {
		if a := r.api(operator, "POST", "/v1/webhooks/"+hook+"/test", `{"body":"{}"}`); a.status != status || a.Detail == "" {
			t.Errorf("%s: %d %s", hook, a.status, a.body)
		}
	}
}
