package trigger_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
)

const signalDocs = `
apiVersion: holdfast/v1
kind: Webhook
metadata: {name: payments}
spec:
  provider: standard
  secrets: [{env: HOOK_SECRET}]
  filter: '!has(body.test)'
  signal: {name: paid, key: "${body.order}", data: {amount: "${body.amount}"}}
---
apiVersion: holdfast/v1
kind: Webhook
metadata: {name: plain}
spec: {provider: none, rateLimit: {perMinute: 60, burst: 1000}, signal: {name: paid, key: "${body.order}", keepFor: 1m}}
`

// runner plays the runner: runs that wait, and what becomes of a signal that
// comes to one, by the rules that runner.v_waits and runner.v_signals promise.
type played struct {
	w    *world
	t    *testing.T
	mu   sync.Mutex
	got  map[events.CallID][]events.Signal // taken
	msgs []events.Received
	// before, when set, runs before a signal is looked at.
	before func(events.Signal)
}

func (w *world) runner(t *testing.T) *played {
	t.Helper()
	p := &played{w: w, t: t, got: map[events.CallID][]events.Signal{}}
	p.consume()
	return p
}

func (p *played) consume() {
	p.t.Helper()
	c, err := p.w.nats.Connect(p.t).Consume(p.t.Context(), bus.Consumption{Stream: events.StreamRuns, Durable: events.ConsumerRunner, Workers: 4, Handle: p.handle})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = c.Stop(context.WithoutCancel(p.t.Context())) })
}

func (p *played) handle(ctx context.Context, m events.Received) error {
	var sig events.Signal
	if m.Type != events.TypeSignalRun {
		return nil
	}
	if err := events.Decode(m.Message, &sig); err != nil {
		return err
	}
	p.mu.Lock()
	p.msgs = append(p.msgs, m)
	before := p.before
	p.mu.Unlock()
	if before != nil {
		before(sig)
	}
	return pg.InTx(ctx, p.w.db.Pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `DELETE FROM runner.pending WHERE run_id = $1 AND item = 'signal/' || $2 AND wait_name = $3 AND wait_key = $4`,
			string(sig.RunID), string(sig.CallID), sig.Name, sig.Key)
		if err != nil {
			return err
		}
		kind := events.FactLateResult
		if tag.RowsAffected() == 1 {
			kind = events.FactSignalReceived
		}
		tag, err = tx.Exec(ctx, `
			INSERT INTO runner.journal (run_id, seq, kind, status, cause, inbound, worker, at, data)
			SELECT $1, coalesce(max(seq), 0) + 1, $2, 'running', $3, true, 'test', clock_timestamp(), '{}' FROM runner.journal WHERE run_id = $1
			ON CONFLICT DO NOTHING`, string(sig.RunID), kind, m.ID)
		if err == nil && tag.RowsAffected() == 1 && kind == events.FactSignalReceived {
			p.mu.Lock()
			p.got[sig.CallID] = append(p.got[sig.CallID], sig)
			p.mu.Unlock()
		}
		return err
	})
}

// waits makes a run wait for the signal paid with a key, and returns its call.
func (p *played) waits(namespace, key string) events.CallID {
	p.t.Helper()
	run := events.NewRunID()
	call := events.NewCallID(run, 2, 0)
	detail, err := json.Marshal(map[string]string{"name": "paid", "key": key})
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.w.db.Pool.Exec(p.t.Context(), `INSERT INTO runner.pending (run_id, namespace, item, kind, detail) VALUES ($1, $2, 'signal/' || $3, 'signal', $4)`,
		string(run), namespace, string(call), string(detail)); err != nil {
		p.t.Fatal(err)
	}
	return call
}

// stops ends a wait without a signal: a time-out, a cancel, another signal.
func (p *played) stops(call events.CallID) {
	if _, err := p.w.db.Pool.Exec(p.t.Context(), `DELETE FROM runner.pending WHERE item = 'signal/' || $1`, string(call)); err != nil {
		p.t.Error(err)
	}
}

func (p *played) taken(call events.CallID) (data []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, sig := range p.got[call] {
		data = append(data, string(sig.Data))
	}
	return data
}

type listedSignal struct {
	ID        string    `json:"signal_id"`
	Name      string    `json:"name"`
	Key       string    `json:"key"`
	State     string    `json:"state"`
	RunID     string    `json:"run_id"`
	CallID    string    `json:"call_id"`
	Held      bool      `json:"held"`
	Late      int       `json:"late"`
	ExpiresAt time.Time `json:"expires_at"`
}

func (r *replica) signals(query string) (out []listedSignal) {
	r.t.Helper()
	a := r.api(authn.Viewer, "GET", "/v1/signals"+query, "")
	var page struct{ Items []listedSignal }
	if err := json.Unmarshal(a.body, &page); err != nil || a.status != http.StatusOK {
		r.t.Fatalf("%d %s", a.status, a.body)
	}
	return page.Items
}

// kept wants a signal to be answered 202 and returns its id.
func kept(t *testing.T, a answer) string {
	t.Helper()
	var body struct {
		ID string `json:"signal_id"`
	}
	if err := json.Unmarshal(a.body, &body); err != nil || a.status != http.StatusAccepted || body.ID == "" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	return body.ID
}

// An event that comes before a run waits for it is kept and then taken, with its
// digits; the log says so.
func TestSignal_EarlyEventIsKept(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, signalDocs)
	r, runner := w.pair(t), w.runner(t)
	body := `{"order": 42.0, "amount": 90071992547409931}`
	id := kept(t, r.post("/hooks/payments", body, signed("msg_1", body, time.Now())...))
	again := r.post("/hooks/payments", body, signed("msg_1", body, time.Now())...)
	if kept(t, again) != id || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("a repeat: %s %v", again.body, again.header)
	}
	if got := r.signals("?state=kept"); len(got) != 1 || got[0].ID != id || got[0].Key != "42" {
		t.Fatalf("kept: %+v", got)
	}
	call := runner.waits("default", "42")
	until(t, "the run to have it", func() bool { return len(runner.taken(call)) == 1 })
	if got := runner.taken(call)[0]; got != `{"amount":90071992547409931}` {
		t.Errorf("data %s", got)
	}
	until(t, "the door to say so", func() bool { return len(r.signals("?state=taken&name=paid&key=42")) == 1 })
	if got := r.signals("")[0]; got.CallID != string(call) || got.Late != 0 {
		t.Errorf("%+v", got)
	}
	var entry struct{ Outcome, Detail, Dedupe_key string }
	if err := json.Unmarshal(r.api(authn.Viewer, "GET", "/v1/deliveries/"+id, "").body, &entry); err != nil || entry.Outcome != "signalled" || entry.Detail != `signal paid, key "42"` {
		t.Errorf("entry %+v, %v", entry, err)
	}
	for outcome, want := range map[string]int{"signalled": 1, "duplicate": 1, "accepted": 0} {
		if n := w.count(t, "trigger.attempts WHERE outcome = '"+outcome+"'"); n != want {
			t.Errorf("%d entries %s, want %d", n, outcome, want)
		}
	}
	if n := w.count(t, "trigger.deliveries"); n != 0 {
		t.Errorf("%d runs were started", n)
	}
}

// Two runs wait for one key: one signal goes to the one that has waited longest,
// the next to the other; a run of another namespace gets none.
func TestSignal_OneForOne(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, signalDocs)
	r, runner := w.pair(t), w.runner(t)
	foreign := runner.waits("elsewhere", "k")
	first, second := runner.waits("default", "k"), runner.waits("default", "k")
	send := func(data string) {
		kept(t, r.api(authn.Operator, "POST", "/v1/signals/paid", `{"key":"k","data":`+data+`}`))
	}
	send("1")
	until(t, "the first run to have it", func() bool { return len(runner.taken(first)) == 1 })
	until(t, "it to be taken", func() bool { return len(r.signals("?state=taken")) == 1 })
	if len(runner.taken(second)) != 0 {
		t.Fatal("one signal went to two runs")
	}
	send("2")
	until(t, "the second run to have one", func() bool { return len(runner.taken(second)) == 1 })
	send("3")
	until(t, "the third to be kept", func() bool { return len(r.signals("?state=kept")) == 1 })
	if len(runner.taken(foreign)) != 0 {
		t.Error("a signal reached another namespace's run")
	}
}

// A wait that ends while its signal is on the way: the signal goes to the next
// one under a fresh id, and only one has it.
func TestSignal_LateIsGivenAnew(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, signalDocs)
	r, runner := w.pair(t), w.runner(t)
	first, second := runner.waits("default", "k"), runner.waits("default", "k")
	runner.mu.Lock()
	runner.before = func(sig events.Signal) {
		if sig.CallID == first {
			runner.stops(first)
		}
	}
	runner.mu.Unlock()
	id := kept(t, r.api(authn.Operator, "POST", "/v1/signals/paid", `{"key":"k","data":"x"}`))
	until(t, "the second run to have it", func() bool { return len(runner.taken(second)) == 1 })
	until(t, "it to be taken", func() bool { return len(r.signals("?state=taken")) == 1 })
	if got := r.signals("")[0]; got.ID != id || got.Late != 1 || got.CallID != string(second) || len(runner.taken(first)) != 0 {
		t.Errorf("%+v", got)
	}
	causes := map[string]bool{}
	for _, m := range runner.msgs {
		causes[m.ID] = true
	}
	if !causes["signal:"+id+"-1"] || !causes["signal:"+id+"-2"] || len(causes) != 2 {
		t.Errorf("causes %v", causes)
	}
}

// Many senders, runs and replicas at once: each signal is taken once, each wait
// takes one, and nothing is over.
func TestSignal_ManyAtOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, signalDocs)
	r, runner := w.pair(t), w.runner(t)
	const n = 60
	var calls []events.CallID
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			kept(t, r.post("/hooks/plain", fmt.Sprintf(`{"order":"k%d","n":%d}`, i%3, i)))
		})
		calls = append(calls, runner.waits("default", fmt.Sprintf("k%d", i%3)))
	}
	wg.Wait()
	until(t, "all to be taken", func() bool { return w.count(t, "trigger.signals WHERE state = 'taken'") == n })
	seen := map[string]bool{}
	for _, call := range calls {
		data := runner.taken(call)
		if len(data) != 1 || seen[data[0]] {
			t.Errorf("call %s has %v", call, data)
		}
		seen[data[0]] = true
	}
}

// Twenty posts of one signed delivery are one signal, whichever replica takes them.
func TestSignal_RepeatsAreOne(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, signalDocs)
	r := w.pair(t)
	body := `{"order":"7","amount":1}`
	var mu sync.Mutex
	ids := map[string]bool{}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			id := kept(t, r.post("/hooks/payments", body, signed("msg_1", body, time.Now())...))
			mu.Lock()
			defer mu.Unlock()
			ids[id] = true
		})
	}
	wg.Wait()
	if n := w.count(t, "trigger.signals"); n != 1 || len(ids) != 1 {
		t.Errorf("%d signals, %d ids", n, len(ids))
	}
}

// NATS away changes no answer; NATS that lost everything between the hand-out and
// the landing loses no signal.
func TestSignal_NATSLosesEverything(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, signalDocs)
	r, runner := w.start(t), &played{w: w, t: t, got: map[events.CallID][]events.Signal{}}
	first := runner.waits("default", "a")
	kept(t, r.api(authn.Operator, "POST", "/v1/signals/paid", `{"key":"a","data":1}`))
	until(t, "it to be announced", func() bool { return w.count(t, "trigger.signals WHERE announced_at IS NOT NULL") == 1 })
	w.nats.Wipe()
	w.nats.Stop()
	second := runner.waits("default", "b")
	kept(t, r.api(authn.Operator, "POST", "/v1/signals/paid", `{"key":"b","data":2}`))
	w.nats.Start()
	// The next announcement is due in ten seconds; the test does not wait for it.
	if _, err := w.db.Pool.Exec(t.Context(), `UPDATE trigger.signals SET next_announce_at = clock_timestamp()`); err != nil {
		t.Fatal(err)
	}
	runner.consume()
	until(t, "both to be taken", func() bool { return w.count(t, "trigger.signals WHERE state = 'taken'") == 2 })
	if a, b := runner.taken(first), runner.taken(second); len(a) != 1 || len(b) != 1 {
		t.Errorf("%v and %v", a, b)
	}
	if !slices.ContainsFunc(runner.msgs, func(m events.Received) bool { return m.About == runOf(first) && strings.HasSuffix(m.MsgID, ":n1") }) {
		t.Errorf("the lost one was not announced under a fresh message id: %+v", runner.msgs)
	}
}

func runOf(call events.CallID) string {
	run, _ := call.Run()
	return string(run)
}

// A process that dies right after its commit, or between the announcement and its
// note of it, loses no signal and makes no second one.
func TestSignal_KilledAfterCommit(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"trigger.signal_kept", "trigger.signal_published"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.apply(t, signalDocs)
			runner := w.runner(t)
			call := runner.waits("default", "k")
			url, dead := w.spawn(t, point+"=kill")
			send := func(url string) (*http.Response, error) {
				req, err := http.NewRequestWithContext(t.Context(), "POST", url+"/v1/signals/paid", strings.NewReader(`{"key":"k","data":5}`))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("Idempotency-Key", "once")
				req.Header.Set("Authorization", "Bearer "+doortest.Token(authn.Operator))
				return http.DefaultClient.Do(req)
			}
			if res, err := send(url); err == nil {
				_ = res.Body.Close()
			}
			dead()
			r := w.start(t)
			kept(t, r.api(authn.Operator, "POST", "/v1/signals/paid", `{"key":"k","data":5}`, "Idempotency-Key", "once"))
			until(t, "it to be taken", func() bool { return len(r.signals("?state=taken")) == 1 })
			if got := runner.taken(call); len(got) != 1 || w.count(t, "trigger.signals") != 1 {
				t.Errorf("%v, %d signals", got, w.count(t, "trigger.signals"))
			}
		})
	}
}

// A signal that no run waits for expires and stays visible; a paused webhook's is
// held, and its time begins when it goes on.
func TestSignal_ExpiresAndIsHeld(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, signalDocs)
	r, runner := w.start(t), w.runner(t)
	kept(t, r.post("/hooks/plain", `{"order":"gone"}`))
	if _, err := w.db.Pool.Exec(t.Context(), `UPDATE trigger.signals SET expires_at = clock_timestamp()`); err != nil {
		t.Fatal(err)
	}
	until(t, "it to expire", func() bool { return len(r.signals("?state=expired")) == 1 })
	late := runner.waits("default", "gone")

	paused := strings.Replace(signalDocs, "provider: none", "provider: none, paused: true", 1)
	w.apply(t, paused)
	a := r.post("/hooks/plain", `{"order":"h"}`)
	id := kept(t, a)
	call := runner.waits("default", "h")
	// Others are handed out, and this one is not; nor does its time pass.
	passes := func(key string) {
		marker := runner.waits("default", key)
		kept(t, r.api(authn.Operator, "POST", "/v1/signals/paid", `{"key":"`+key+`"}`))
		until(t, key+" to be taken", func() bool { return len(runner.taken(marker)) == 1 && len(r.signals("?state=taken&key="+key)) == 1 })
	}
	passes("one")
	if _, err := w.db.Pool.Exec(t.Context(), `UPDATE trigger.signals SET received_at = received_at - interval '1 hour', expires_at = expires_at - interval '1 hour' WHERE held`); err != nil {
		t.Fatal(err)
	}
	passes("two")
	if got := r.signals("?key=h"); got[0].State != "kept" || !got[0].Held || len(runner.taken(call)) != 0 {
		t.Errorf("of a paused webhook: %+v", got)
	}
	if n := w.count(t, "trigger.attempts WHERE outcome = 'held' AND attempt_id = '"+id+"'"); n != 1 {
		t.Errorf("%d entries are held", n)
	}
	w.apply(t, signalDocs)
	until(t, "it to be taken", func() bool { return len(runner.taken(call)) == 1 })
	if len(runner.taken(late)) != 0 {
		t.Error("an expired signal was taken")
	}
}

// What no run could be handed unchanged is refused with the rule, in the log too;
// what is allowed arrives as it is and reaches no subject.
func TestSignal_HostileKeys(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, signalDocs)
	r, runner := w.start(t), w.runner(t)
	for _, key := range []string{"Bestellung № 42", "a.b.>.*", "'; DROP TABLE x; --", "\u202e\"\\/", "é", strings.Repeat("ü", 256)} {
		call := runner.waits("default", key)
		body, err := json.Marshal(map[string]string{"order": key})
		if err != nil {
			t.Fatal(err)
		}
		kept(t, r.post("/hooks/plain", string(body)))
		until(t, "the key "+key, func() bool { return len(runner.taken(call)) == 1 })
	}
	for _, m := range runner.msgs {
		if want := "hf.run." + m.About + ".signal"; m.Subject != want {
			t.Errorf("subject %q, want %q", m.Subject, want)
		}
	}
	before := w.count(t, "trigger.attempts WHERE outcome = 'rejected'")
	refused := map[string]int{
		`{"order":""}`: 422, `{"order":null}`: 422, `{"order":[1]}`: 422, `{}`: 422, `{"order":"a\u0000b"}`: 400, `{"order":"\ud800"}`: 400,
		`{"order":"` + strings.Repeat("x", 513) + `"}`:                              422,
		`{"order":"big","x":"` + strings.Repeat("x", events.SignalDataBytes) + `"}`: 413,
	}
	for body, want := range refused {
		if a := r.post("/hooks/plain", body); a.status != want {
			t.Errorf("%.60s: %d %.200s, want %d", body, a.status, a.body, want)
		}
	}
	if n := w.count(t, "trigger.attempts WHERE outcome = 'rejected'") - before; n != len(refused) {
		t.Errorf("%d rejections are logged, want %d", n, len(refused))
	}
	for path, bodies := range map[string]map[string]int{
		"/v1/signals/paid":      {`{"key":""}`: 422, `{"data":1}`: 422, `{"key":"a\u0000"}`: 422, `{"key":"k","data":"a\u0000"}`: 400, `{"key":"` + strings.Repeat("x", 513) + `"}`: 422},
		"/v1/signals/Not%20One": {`{"key":"k"}`: 422},
	} {
		for body, want := range bodies {
			if a := r.api(authn.Operator, "POST", path, body); a.status != want {
				t.Errorf("%s %.60s: %d %.200s, want %d", path, body, a.status, a.body, want)
			}
		}
	}
	if a := r.api(authn.Operator, "POST", "/v1/signals/paid", `{"key":"k","data":1}`, "Idempotency-Key", "i"); a.status != 202 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := r.api(authn.Operator, "POST", "/v1/signals/paid", `{"key":"k","data":1.0}`, "Idempotency-Key", "i"); a.status != 202 || a.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the same request otherwise spelled: %d %s", a.status, a.body)
	}
	if a := r.api(authn.Operator, "POST", "/v1/signals/paid", `{"key":"k","data":2}`, "Idempotency-Key", "i"); a.status != 422 {
		t.Errorf("another request under the key: %d %s", a.status, a.body)
	}
}

// A filter, a replay and a test-send do for a signal what they do for a start.
func TestSignal_ReplayAndFilter(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, signalDocs)
	r := w.start(t)
	body := `{"order":"1","amount":1,"test":true}`
	if a := r.post("/hooks/payments", body, signed("msg_1", body, time.Now())...); a.status != 202 || !strings.Contains(string(a.body), `"filtered":true`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	id := kept(t, r.post("/hooks/plain", `{"order":"1"}`))
	var out struct{ Outcome string }
	replay := func(force string) string {
		a := r.api(authn.Operator, "POST", "/v1/deliveries/"+id+"/replay", force)
		if err := json.Unmarshal(a.body, &out); err != nil {
			t.Fatalf("%d %s", a.status, a.body)
		}
		return out.Outcome
	}
	if got := replay(`{}`); got != "duplicate" {
		t.Errorf("a replay is %s", got)
	}
	if got := replay(`{"force":true}`); got != "signalled" {
		t.Errorf("a forced replay is %s", got)
	}
	sent := r.api(authn.Operator, "POST", "/v1/webhooks/payments/test", `{"body":"{\"order\":\"2\",\"amount\":3}"}`)
	if !strings.Contains(string(sent.body), `signal_id`) {
		t.Errorf("a test-send: %d %s", sent.status, sent.body)
	}
	if n := w.count(t, "trigger.signals"); n != 3 {
		t.Errorf("%d signals, want 3", n)
	}
}
