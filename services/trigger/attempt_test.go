package trigger_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/services/trigger"
)

// entry is one delivery as the door shows it.
type entry struct {
	ID        string `json:"delivery_id"`
	Source    string `json:"source"`
	Name      string `json:"source_name"`
	Outcome   string `json:"outcome"`
	Reason    string `json:"reason"`
	Detail    string `json:"detail"`
	Key       string `json:"dedupe_key"`
	RunID     string `json:"run_id"`
	ReplayOf  string `json:"replay_of"`
	Principal string `json:"principal"`
	Kind      string `json:"kind"`
	Request   *struct {
		Status     int                 `json:"status"`
		TookUs     int64               `json:"took_us"`
		Remote     string              `json:"remote"`
		EventID    string              `json:"event_id"`
		Count      int64               `json:"count"`
		BodyBytes  int64               `json:"body_bytes"`
		BodyDigest string              `json:"body_digest"`
		BodyKept   bool                `json:"body_kept"`
		Body       string              `json:"body"`
		Headers    map[string][]string `json:"headers"`
		Query      map[string][]string `json:"query"`
	} `json:"request"`
}

// log lists the newest entries of the delivery log.
func (r *replica) log(query string) []entry {
	r.t.Helper()
	var page struct{ Items []entry }
	r.get("/v1/deliveries?limit=500&"+query, &page)
	return page.Items
}

func (r *replica) get(path string, out any) {
	r.t.Helper()
	a := r.api(authn.Viewer, "GET", path, "")
	if err := json.Unmarshal(a.body, out); err != nil || a.status != http.StatusOK {
		r.t.Fatalf("GET %s: %d %s", path, a.status, a.body)
	}
}

func (r *replica) entry(id string) (e entry) {
	r.t.Helper()
	r.get("/v1/deliveries/"+id, &e)
	return e
}

// logged is the entry that an answer names.
func (r *replica) logged(a answer) entry {
	r.t.Helper()
	id := a.header.Get("Holdfast-Delivery")
	if id == "" {
		r.t.Fatalf("%d %s names no entry", a.status, a.body)
	}
	return r.entry(id)
}

// Three attempts, two of them at the same instant at two replicas: one run, and
// the log says which were repeats.
func TestCaseA01_RepeatsAreMarkedInTheLog(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one, two := w.start(t), w.start(t)
	const body = `{"issue":{"number":7}}`
	answers := make([]answer, 2)
	var wg sync.WaitGroup
	for i, r := range []*replica{one, two} {
		wg.Go(func() { answers[i] = r.post("/hooks/github", body, github("guid-1", "application/json", body)...) })
	}
	wg.Wait()
	answers = append(answers, one.post("/hooks/github", body, github("guid-1", "application/json", body)...))
	outcomes := map[string]int{}
	for _, a := range answers {
		accepted(t, a)
		if a.RunID != answers[0].RunID {
			t.Errorf("runs %s and %s of one delivery", a.RunID, answers[0].RunID)
		}
		e := one.logged(a)
		outcomes[e.Outcome]++
		if e.RunID != a.RunID || e.Key != "guid-1" || e.Request.EventID != "guid-1" || e.Request.Status != a.status {
			t.Errorf("entry %+v of the answer %d with run %s", e, a.status, a.RunID)
		}
		if repeat := a.header.Get("Idempotency-Replayed") == "true"; repeat != (e.Outcome == trigger.OutcomeDuplicate) {
			t.Errorf("the sender was told repeat = %v, the log says %s", repeat, e.Outcome)
		}
	}
	if diff := cmp.Diff(map[string]int{"accepted": 1, "duplicate": 2}, outcomes); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	// Without an id two requests are two, unless the webhook names a key.
	const sent = `{"event":{"channel":"c","ts":"1"},"sent_at":%d}`
	first := one.post("/hooks/keyed", fmt.Sprintf(sent, 1))
	second := two.post("/hooks/keyed", fmt.Sprintf(sent, 2))
	if e := one.logged(second); e.Outcome != trigger.OutcomeDuplicate || e.RunID != first.RunID || e.Key != "c/1" {
		t.Errorf("a repeat with another sent_at: %+v", e)
	}
	if got := len(one.log("webhook=keyed&outcome=duplicate")); got != 1 {
		t.Errorf("%d duplicates of keyed in the list, want 1", got)
	}
}

// Every refusal of a known webhook is in the log with its reason; what was not
// verified leaves no content.
func TestLog_RejectedWithTheReason(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.start(t)
	const body = `{"shop":"s","price":1}`
	long := `"` + strings.Repeat("x", trigger.DefaultMaxBody) + `"`
	for name, tc := range map[string]struct {
		a      answer
		reason string
		kept   bool
	}{
		"bad signature": {r.post("/hooks/orders", `{"shop":"EVIL"}`, signed("m1", body, time.Now())...), "bad_signature", false},
		"stale":         {r.post("/hooks/orders", body, signed("m2", body, time.Now().Add(-time.Hour))...), "stale_timestamp", false},
		"unsigned":      {r.post("/hooks/orders", body, "Content-Type", "application/json", "X-Planted", "EVIL"), "missing_signature", false},
		"too large":     {r.post("/hooks/raw", long, "Content-Type", "application/json"), "too_large", false},
		"not JSON":      {r.post("/hooks/raw", `{`, "Content-Type", "application/json"), "bad_body", true},
		"NUL":           {r.post("/hooks/raw", `"\u0000"`, "Content-Type", "application/json"), "bad_body", true},
		"XML":           {r.post("/hooks/raw", `<a/>`, "Content-Type", "application/xml"), "unsupported_media_type", true},
		"mapping":       {r.post("/hooks/orders", `{"a":1}`, signed("m3", `{"a":1}`, time.Now())...), "mapping", true},
		"schema":        {r.post("/hooks/orders", `{"shop":1,"price":1}`, signed("m4", `{"shop":1,"price":1}`, time.Now())...), "schema", true},
	} {
		e := r.logged(tc.a)
		if e.Outcome != trigger.OutcomeRejected || e.Reason != tc.reason || e.Request.Status != tc.a.status || e.RunID != "" || e.Request.BodyKept != tc.kept {
			t.Errorf("%s: entry %+v %+v of the answer %d, want %s, body kept %v", name, e, e.Request, tc.a.status, tc.reason, tc.kept)
		}
		if e.Detail == "" || e.Request.Remote != "127.0.0.1" || e.Request.Count != 1 || e.Request.BodyBytes == 0 {
			t.Errorf("%s: entry %+v %+v", name, e, e.Request)
		}
		if digest := e.Request.BodyDigest; (digest == "") != (tc.reason == "too_large") {
			t.Errorf("%s: digest %q", name, digest)
		}
	}
	if n := len(r.log("outcome=rejected")); n != 9 {
		t.Errorf("%d rejected, want 9", n)
	}
	w.holdsNot(t, "EVIL", "bad signatures")
	for _, path := range []string{"/hooks/nobody", "/hooks/other/raw"} {
		if a := r.post(path, `{}`); a.status != http.StatusNotFound || a.header.Get("Holdfast-Delivery") != "" {
			t.Errorf("%s: %d %v", path, a.status, a.header)
		}
	}
	if n := w.count(t, "trigger.attempts"); n != 9 {
		t.Errorf("%d entries, want 9: unknown webhooks are not logged", n)
	}
}

// holdsNot fails when a text is anywhere in the log's table.
func (w *world) holdsNot(t *testing.T, text, what string) {
	t.Helper()
	var n int
	err := w.db.Pool.QueryRow(t.Context(), `
		SELECT count(*) FROM trigger.attempts a
		WHERE a::text LIKE '%' || $1 || '%' OR position(convert_to($1, 'UTF8') IN coalesce(a.body, '')) > 0`, text).Scan(&n)
	if err != nil || n > 0 {
		t.Errorf("%d entries hold %s (%v)", n, what, err)
	}
}

func TestLog_SecretsNeverReachTheTable(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.start(t)
	const body = `{"shop":"s","price":1}`
	hidden := map[string]string{
		"Authorization": "Bearer hide-me-1", "Cookie": "sid=hide-me-2", "X-Api-Key": "hide-me-3", "X-Gitlab-Token": "hide-me-4",
		"X-Custom": "prefix " + secrets["HOOK_SECRET"], "X-Session-Id": "hide-me-5",
	}
	header := append(signed("m1", body, time.Now()), "X-Harmless", "stays", "User-Agent", "sender/1")
	for name, value := range hidden {
		header = append(header, name, value)
	}
	for _, a := range []answer{
		r.post("/hooks/orders?token=hide-me-6&page=2", body, header...),
		r.post("/hooks/orders", "x"+body, header...),
	} {
		e := r.logged(a)
		for name := range hidden {
			if got := e.Request.Headers[strings.ToLower(name)]; name != "X-Custom" && (len(got) != 1 || got[0] != trigger.Redacted) {
				t.Errorf("%s is logged as %q", name, got)
			}
		}
		if got := e.Request.Headers["webhook-signature"]; len(got) != 1 || got[0] != trigger.Redacted {
			t.Errorf("the signature is logged as %q", got)
		}
		if got := e.Request.Headers["user-agent"]; len(got) != 1 || got[0] != "sender/1" {
			t.Errorf("user agent %q", got)
		}
		if verified := e.Outcome == trigger.OutcomeAccepted; verified != (len(e.Request.Headers["x-harmless"]) == 1) || verified != (e.Request.Body == body) ||
			verified != (len(e.Request.Query["page"]) == 1) {
			t.Errorf("entry %+v", e.Request)
		}
	}
	w.holdsNot(t, "hide-me", "a credential")
	w.holdsNot(t, secrets["HOOK_SECRET"], "the webhook's secret")
}

// Whoever has no secret cannot fill the table: what comes too fast is counted.
func TestLog_RejectionsAreBounded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.start(t)
	const sent = 200
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range sent / 4 {
				if a := r.post("/hooks/github", `{}`); a.status != http.StatusUnauthorized {
					t.Errorf("%d %s", a.status, a.body)
				}
			}
		})
	}
	wg.Wait()
	if n := w.count(t, "trigger.attempts"); n < 60 || n > 120 {
		t.Errorf("%d entries of %d rejected requests", n, sent)
	}
	accepted(t, r.post("/hooks/raw", `{}`))
	if n := len(r.log("webhook=raw")); n != 1 {
		t.Errorf("another webhook has %d entries, want 1", n)
	}
	r.stop() // writes what was counted
	var sum, rows int
	err := w.db.Pool.QueryRow(t.Context(), `SELECT sum(count), count(*) FROM trigger.v_requests WHERE webhook = 'github'`).Scan(&sum, &rows)
	if err != nil || sum != sent {
		t.Errorf("%d rows stand for %d requests (%v), want %d", rows, sum, err, sent)
	}
}

func TestLog_PingAndHeld(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, "apiVersion: holdfast/v1\nkind: Webhook\nmetadata: {name: raw}\nspec: {provider: none, agent: anything, paused: true}\n")
	r := w.start(t)
	ping := github("d1", "application/json", `{}`)
	ping[3] = "ping"
	if e := r.logged(r.post("/hooks/github", `{}`, ping...)); e.Outcome != trigger.OutcomeFiltered || e.Reason != "handshake" || e.Request.Status != 200 {
		t.Errorf("ping: %+v %+v", e, e.Request)
	}
	a := r.post("/hooks/raw", `{}`)
	if e := r.logged(a); e.Outcome != trigger.OutcomeHeld || e.RunID != a.RunID || e.Kind != "agent" {
		t.Errorf("held: %+v", e)
	}
}

func TestLog_ListsAndSweeps(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.start(t)
	begun := time.Now().Add(-time.Second).UTC().Format(time.RFC3339)
	hook := r.post("/hooks/raw", `{"n":1}`)
	api := r.api(operator, "POST", "/v1/agents/anything/runs", `{}`)
	bad := r.post("/hooks/raw", `{`)
	want := []string{r.logged(bad).ID, "", r.logged(hook).ID}
	var got []string
	for _, e := range r.log("since=" + begun) {
		got = append(got, e.ID)
		if e.Source == "api" {
			want[1] = e.ID
			if e.RunID != api.RunID || e.Request != nil || e.Outcome != "accepted" {
				t.Errorf("a start of the API: %+v", e)
			}
		}
		if e.Request != nil && (e.Request.Headers != nil || e.Request.Body != "") {
			t.Errorf("a list carries %+v", e.Request)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries, newest first (-want +got):\n%s", diff)
	}
	for query, n := range map[string]int{"webhook=raw": 2, "outcome=accepted": 2, "webhook=raw&outcome=rejected": 1, "webhook=none": 0, "outcome=held": 0,
		"since=" + time.Now().Add(time.Hour).UTC().Format(time.RFC3339): 0} {
		if got := len(r.log(query)); got != n {
			t.Errorf("%s: %d entries, want %d", query, got, n)
		}
	}
	if a := r.api(authn.Viewer, "GET", "/v1/deliveries?outcome=odd", ""); a.status != http.StatusUnprocessableEntity {
		t.Errorf("an outcome that is none: %d %s", a.status, a.body)
	}
	w.exec(t, `UPDATE trigger.attempts SET received_at = received_at - interval '31 days'`)
	if err := r.svc.SweepLog(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := w.count(t, "trigger.attempts"); n != 0 {
		t.Errorf("%d entries outlived the retention", n)
	}
	if e := r.entry(want[2]); e.Outcome != "accepted" || e.RunID != hook.RunID || e.Request != nil {
		t.Errorf("an accepted start after its entry was swept: %+v", e)
	}
	if list := r.log(""); len(list) != 2 {
		t.Errorf("%d entries after the sweep, want the 2 starts", len(list))
	}
}

// The entry of a start is there exactly when the start is.
func TestLog_AcceptedIsOneTransaction(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.start(t)
	w.exec(t, `ALTER TABLE trigger.attempts ADD CONSTRAINT no_five CHECK (dedupe_key <> '5/5')`)
	post := func(i int) answer {
		return r.post("/hooks/keyed", fmt.Sprintf(`{"event":{"channel":"%d","ts":"%d"}}`, i, i))
	}
	if a := post(5); a.status < 500 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if n := w.count(t, "trigger.deliveries"); n != 0 {
		t.Errorf("%d deliveries without their entry", n)
	}
	w.exec(t, `ALTER TABLE trigger.attempts DROP CONSTRAINT no_five`)
	accepted(t, post(5))
	// Of others the log changes no answer.
	w.exec(t, `ALTER TABLE trigger.attempts ADD CONSTRAINT none CHECK (outcome = 'accepted') NOT VALID`)
	if a := r.post("/hooks/raw", `{`); a.status != http.StatusBadRequest || a.header.Get("Holdfast-Delivery") != "" {
		t.Errorf("a log that cannot be written: %d %v", a.status, a.header)
	}
}

func (w *world) exec(t *testing.T, query string, args ...any) {
	t.Helper()
	if _, err := w.db.Pool.Exec(t.Context(), query, args...); err != nil {
		t.Fatal(err)
	}
}

func TestLog_BodiesRoundTrip(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.start(t)
	odd := "{ \"a\" :\t8202522731445525542,\r\n\"b\":\"\\u003c \U0001F980\"}\n"
	e := r.logged(r.post("/hooks/raw", odd, "Content-Type", "application/json"))
	if e.Request.Body != odd {
		t.Errorf("body %q, want %q", e.Request.Body, odd)
	}
	latin := []byte{'"', 0xe9, '"'}
	a := r.send("POST", "/hooks/raw", latin, "Content-Type", "application/json")
	var raw struct {
		Request struct {
			Body []byte `json:"body_base64"`
		}
	}
	r.get("/v1/deliveries/"+a.header.Get("Holdfast-Delivery"), &raw)
	if !bytes.Equal(raw.Request.Body, latin) {
		t.Errorf("body %q, want %q", raw.Request.Body, latin)
	}
}
