package trigger_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/trigger"
)

const order = `{"shop":"shop-04","price":9007199254740993}`

func accepted(t *testing.T, a answer) {
	t.Helper()
	if a.status != http.StatusAccepted {
		t.Fatalf("status %d: %s", a.status, a.body)
	}
	if a.Status != "queued" || a.URL != "/v1/runs/"+a.RunID || a.header.Get("Location") != a.URL || !events.RunID(a.RunID).Valid() {
		t.Errorf("answer %s with Location %q", a.body, a.header.Get("Location"))
	}
}

func TestStart_ByWebhook(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.start(t)
	a := r.post("/hooks/orders", order, signed("msg_1", order, time.Now())...)
	accepted(t, a)
	got := w.collect(t, true).exactly(t, 1)[0]
	want := events.StartRun{
		RunID: events.RunID(a.RunID), Namespace: "default", Ref: got.Ref, Input: json.RawMessage(`{"price":9007199254740993,"shop":"shop-04"}`),
		Labels: map[string]string{"shop": "shop-04"}, Trigger: events.Trigger{Kind: "webhook", Name: "orders", ID: "msg_1"}, AcceptedAt: got.AcceptedAt,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("start (-want +got):\n%s", diff)
	}
	var digest string
	if err := w.db.Pool.QueryRow(t.Context(), `SELECT digest FROM catalog.v_current WHERE kind = 'agent' AND name = 'check'`).Scan(&digest); err != nil {
		t.Fatal(err)
	}
	if got.Ref != (events.Ref{Kind: "agent", Name: "check", Digest: events.Digest(digest)}) || time.Since(got.AcceptedAt) > time.Minute {
		t.Errorf("ref %+v accepted at %s", got.Ref, got.AcceptedAt)
	}
	until(t, "the delivery to land", func() bool { return w.count(t, "trigger.v_deliveries WHERE landed_at IS NOT NULL") == 1 })
}

func TestStart_ByAPI(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.start(t)
	agent := r.api(authn.Operator, "POST", "/v1/agents/check/runs", `{"input":{"shop":"shop-04"},"labels":{"customer":"42"}}`)
	accepted(t, agent)
	flow := r.api(authn.Operator, "POST", "/v1/flows/night/runs", ``)
	accepted(t, flow)
	byRun := map[string]events.StartRun{}
	for _, s := range w.collect(t, true).exactly(t, 2) {
		byRun[string(s.RunID)] = s
	}
	a, f := byRun[agent.RunID], byRun[flow.RunID]
	if a.Ref.Name != "check" || string(a.Input) != `{"shop":"shop-04"}` || a.Labels["customer"] != "42" || a.Principal != "operator" || a.Trigger.Kind != "api" {
		t.Errorf("start of the agent %+v", a)
	}
	if f.Ref.Kind != "flow" || f.Ref.Name != "night" || string(f.Input) != `{}` {
		t.Errorf("start of the flow %+v", f)
	}
}

func TestStart_ByMessage(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.start(t)
	// One with our envelope, twice; a plain one with Nats-Msg-Id; one without any id.
	m := events.Message{Subject: events.InSubject("orders"), ID: "evt-1", Source: "/shop", Type: events.TypeStartRequest,
		Data: json.RawMessage(`{"agent":"check","input":{"shop":"shop-04"},"labels":{"a":"b"}}`)}
	for i := range 2 {
		m.MsgID = fmt.Sprintf("evt-1:n%d", i)
		if err := r.bus.Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	w.publish(t, "hf.in.orders", `{"agent":"anything","input":8202522731445525542}`, "Nats-Msg-Id", "plain-1")
	w.publish(t, "hf.in.orders", `{"flow":"night"}`)
	starts := w.collect(t, true).exactly(t, 3)
	inputs := map[string]bool{}
	for _, s := range starts {
		inputs[s.Ref.Name+" "+string(s.Input)] = true
		if s.Trigger.Kind != "event" || s.Trigger.Name != "orders" || s.Trigger.ID == "" {
			t.Errorf("trigger %+v", s.Trigger)
		}
		if w.count(t, "trigger.v_deliveries WHERE source_kind = 'event' AND run_id = '"+string(s.RunID)+"'") != 1 {
			t.Errorf("run %s has no delivery", s.RunID)
		}
	}
	want := map[string]bool{`check {"shop":"shop-04"}`: true, `anything 8202522731445525542`: true, `night {}`: true}
	if diff := cmp.Diff(want, inputs); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	until(t, "every message to be acknowledged", func() bool {
		lag, err := r.bus.Lag(t.Context(), events.StreamIn, events.ConsumerTrigger)
		return err == nil && lag.Pending == 0 && lag.AckPending == 0
	})
}

func TestMessage_ThatCanStartNothingIsKeptWithItsReason(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.start(t)
	for id, body := range map[string]string{
		"unknown": `{"agent":"nobody"}`, "schema": `{"agent":"check","input":{}}`, "text": `hello`, "nul": `{"agent":"anything","input":"\u0000"}`,
	} {
		w.publish(t, "hf.in.orders", body, "Nats-Msg-Id", id)
	}
	until(t, "four rejected messages", func() bool { return w.count(t, "trigger.rejected") == 4 })
	rows, err := w.db.Pool.Query(t.Context(), `SELECT message_id, code, detail FROM trigger.rejected ORDER BY message_id`)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for rows.Next() {
		var id, code, detail string
		if err := rows.Scan(&id, &code, &detail); err != nil {
			t.Fatal(err)
		}
		if detail == "" {
			t.Errorf("%s has no reason", id)
		}
		got[id] = code
	}
	want := map[string]string{"unknown": "unknown_target", "schema": "invalid_input", "text": "invalid_json", "nul": "invalid_text"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("codes (-want +got):\n%s", diff)
	}
	until(t, "the queue to be empty", func() bool {
		lag, err := r.bus.Lag(t.Context(), events.StreamIn, events.ConsumerTrigger)
		return err == nil && lag.Pending == 0 && lag.AckPending == 0
	})
	if n := w.count(t, "trigger.deliveries"); n != 0 {
		t.Errorf("%d deliveries, want none", n)
	}
}

// Twenty posts of one signed delivery at once, on two replicas.
func TestCaseA01_OneDeliveryOneRun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	replicas := []*replica{w.start(t), w.start(t)}
	const n = 20
	answers := make([]answer, n)
	headers := signed("msg_1", order, time.Now())
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { answers[i] = replicas[i%2].post("/hooks/orders", order, headers...) })
	}
	wg.Wait()
	// A later retry of the sender has a fresh time and signature, and the same id.
	late := replicas[0].post("/hooks/orders", order, signed("msg_1", order, time.Now().Add(20*time.Second))...)
	fresh := 0
	for _, a := range append(answers, late) {
		accepted(t, a)
		if a.RunID != answers[0].RunID {
			t.Errorf("run %s and run %s", a.RunID, answers[0].RunID)
		}
		if a.header.Get("Idempotency-Replayed") == "" {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d answers are not marked as repeats, want 1", fresh)
	}
	if n := w.count(t, "trigger.deliveries"); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
	if got := w.collect(t, true).exactly(t, 1); string(got[0].RunID) != late.RunID {
		t.Errorf("run %s starts, %s was answered", got[0].RunID, late.RunID)
	}
}

// A sender that gives no id and changes a field per attempt is recognised by the
// webhook's own expression; without one, each attempt is its own.
func TestCaseA01_WithoutAnID(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.pair(t)
	body := func(sentAt string) string {
		return `{"event":{"channel":"C1","ts":"1355517523.000005"},"sent_at":"` + sentAt + `"}`
	}
	first, second := r.post("/hooks/keyed", body("10:00")), r.post("/hooks/keyed", body("10:05"))
	accepted(t, first)
	accepted(t, second)
	if first.RunID != second.RunID || second.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("runs %s and %s", first.RunID, second.RunID)
	}
	a, b := r.post("/hooks/raw", `{}`), r.post("/hooks/raw", `{}`)
	accepted(t, a)
	accepted(t, b)
	if a.RunID == b.RunID {
		t.Error("two requests without any key are one run")
	}
}

func TestIdempotencyKey_TwentyAtOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	replicas := []*replica{w.start(t), w.start(t)}
	const n = 20
	answers := make([]answer, n)
	var wg sync.WaitGroup
	for i := range n {
		// The same key quoted and bare, the same meaning spelled twice.
		key, body := `"k-1"`, `{"input":{"shop":"a","price":10}}`
		if i%3 == 0 {
			key, body = `k-1`, `{ "input": {"price": 1e1, "shop": "a"} }`
		}
		wg.Go(func() {
			answers[i] = replicas[i%2].api(authn.Operator, "POST", "/v1/agents/check/runs", body, "Idempotency-Key", key)
		})
	}
	wg.Wait()
	fresh := 0
	for _, a := range answers {
		accepted(t, a)
		if a.RunID != answers[0].RunID {
			t.Errorf("run %s and run %s", a.RunID, answers[0].RunID)
		}
		if a.header.Get("Idempotency-Replayed") == "" {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d answers are not marked as repeats, want 1", fresh)
	}
	w.collect(t, true).exactly(t, 1)
}

func TestIdempotencyKey_Rules(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.start(t)
	const path, body = "/v1/agents/anything/runs", `{"input":1}`
	first := r.api(authn.Operator, "POST", path, body, "Idempotency-Key", "k")
	accepted(t, first)
	if a := r.api(authn.Operator, "POST", path, `{"input":2}`, "Idempotency-Key", "k"); a.status != 422 || a.Code != trigger.CodeKeyReused {
		t.Errorf("another payload: %d %s", a.status, a.body)
	}
	if a := r.api(authn.Operator, "POST", "/v1/flows/night/runs", body, "Idempotency-Key", "k"); a.status != 422 || a.Code != trigger.CodeKeyReused {
		t.Errorf("another target: %d %s", a.status, a.body)
	}
	if a := r.api(authn.Admin, "POST", path, body, "Idempotency-Key", "k"); a.status != 202 || a.RunID == first.RunID {
		t.Errorf("another principal's key: %d %s", a.status, a.body)
	}
	if a := r.api(authn.Operator, "POST", path, body, "Idempotency-Key", strings.Repeat("k", 256)); a.status != 400 {
		t.Errorf("256 characters: %d %s", a.status, a.body)
	}
	if a, b := r.api(authn.Operator, "POST", path, body), r.api(authn.Operator, "POST", path, body); a.RunID == b.RunID || a.status != 202 || b.status != 202 {
		t.Errorf("without a key: %s and %s", a.body, b.body)
	}
	// A repeat is answered as before also when its agent is gone.
	w.remove(t, "agent", "anything")
	if a := r.api(authn.Operator, "POST", path, body, "Idempotency-Key", "k"); a.status != 202 || a.RunID != first.RunID {
		t.Errorf("repeat after the agent was removed: %d %s", a.status, a.body)
	}
}

func TestStart_Refused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.start(t)
	big := `{"input":"` + strings.Repeat("x", trigger.DefaultMaxBody) + `"}`
	for name, tc := range map[string]struct {
		path, body string
		status     int
		code, want string
	}{
		"unknown agent":             {"/v1/agents/nobody/runs", `{}`, 404, "unknown_target", "nobody"},
		"agent of a hostile name":   {"/v1/agents/%2e%2e%2f%00/runs", `{}`, 404, "unknown_target", ""},
		"input against the schema":  {"/v1/agents/check/runs", `{"input":{"shop":7}}`, 422, "invalid_input", "input.shop"},
		"input without a member":    {"/v1/agents/check/runs", `{"input":{}}`, 422, "invalid_input", "input"},
		"no input at all":           {"/v1/agents/check/runs", ``, 422, "invalid_input", "input"},
		"a field that is not known": {"/v1/agents/check/runs", `{"inputs":{}}`, 400, "invalid_json", "inputs"},
		"not JSON":                  {"/v1/agents/check/runs", `<a/>`, 400, "invalid_json", "body"},
		"invalid UTF-8":             {"/v1/agents/anything/runs", "{\"input\":\"\xff\"}", 400, "invalid_text", "UTF-8"},
		"half a surrogate":          {"/v1/agents/anything/runs", `{"input":"\ud800"}`, 400, "invalid_text", "surrogate"},
		"seventeen labels":          {"/v1/agents/anything/runs", seventeenLabels(), 400, "invalid_labels", "17"},
		"a label that is too long":  {"/v1/agents/anything/runs", `{"labels":{"k":"` + strings.Repeat("v", 257) + `"}}`, 400, "invalid_labels", "labels.k"},
		"too large":                 {"/v1/agents/anything/runs", big, 413, "body_too_large", fmt.Sprint(trigger.DefaultMaxBody)},
	} {
		t.Run(name, func(t *testing.T) {
			a := r.api(authn.Operator, "POST", tc.path, tc.body)
			if a.status != tc.status || a.Code != tc.code || !strings.Contains(string(a.body), tc.want) {
				t.Errorf("%d %s\nwant %d %s naming %q", a.status, a.body, tc.status, tc.code, tc.want)
			}
			if ct := a.header.Get("Content-Type"); ct != "application/problem+json" {
				t.Errorf("Content-Type %q", ct)
			}
		})
	}
	if n := w.count(t, "trigger.deliveries"); n != 0 {
		t.Errorf("%d deliveries, want none", n)
	}
}

func seventeenLabels() string {
	labels := map[string]string{}
	for i := range 17 {
		labels[fmt.Sprintf("k%d", i)] = "v"
	}
	b, _ := json.Marshal(map[string]any{"labels": labels})
	return string(b)
}

// The version is the one that was current when the start was accepted.
func TestStart_PinsTheVersion(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.start(t)
	first := r.api(authn.Operator, "POST", "/v1/agents/anything/runs", `{}`, "Idempotency-Key", "k")
	accepted(t, first)
	w.apply(t, "apiVersion: holdfast/v1\nkind: Agent\nmetadata: {name: anything}\nspec: {model: claude, instructions: Take less.}\n")
	second := r.api(authn.Operator, "POST", "/v1/agents/anything/runs", `{}`)
	accepted(t, second)
	digests := map[events.RunID]events.Digest{}
	for _, s := range w.collect(t, true).exactly(t, 2) {
		digests[s.RunID] = s.Ref.Digest
	}
	if digests[events.RunID(first.RunID)] == digests[events.RunID(second.RunID)] {
		t.Errorf("a start accepted before the change and one after it use %v", digests)
	}
}

// One name in two namespaces is two agents, and a token sees its own.
func TestStart_NamespacesAreApart(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, "apiVersion: holdfast/v1\nkind: Agent\nmetadata: {name: anything, namespace: other}\nspec: {model: claude, instructions: Of the others.}\n"+
		"---\napiVersion: holdfast/v1\nkind: Webhook\nmetadata: {name: raw, namespace: other}\nspec: {provider: none, agent: anything}\n")
	r := w.start(t)
	ours := r.api(authn.Operator, "POST", "/v1/agents/anything/runs", `{}`, "Idempotency-Key", "k")
	theirs := r.send("POST", "/v1/agents/anything/runs", []byte(`{}`), "Authorization", "Bearer "+tokenOfOther, "Idempotency-Key", "k", "Content-Type", "application/json")
	hook := r.post("/hooks/other/raw", `{}`)
	for _, a := range []answer{ours, theirs, hook} {
		accepted(t, a)
	}
	namespaces := map[string]string{}
	for _, s := range w.collect(t, true).exactly(t, 3) {
		namespaces[string(s.RunID)] = s.Namespace
	}
	want := map[string]string{ours.RunID: "default", theirs.RunID: "other", hook.RunID: "other"}
	if diff := cmp.Diff(want, namespaces); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if a := r.send("POST", "/v1/agents/check/runs", []byte(`{}`), "Authorization", "Bearer "+tokenOfOther); a.status != 404 {
		t.Errorf("an agent of default by a token of other: %d %s", a.status, a.body)
	}
	list := r.api(authn.Viewer, "GET", "/v1/deliveries", "")
	if strings.Contains(string(list.body), theirs.RunID) || !strings.Contains(string(list.body), ours.RunID) {
		t.Errorf("the list of default is %s", list.body)
	}
}
