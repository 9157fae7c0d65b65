package trigger_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/services/trigger"
)

// github are GitHub's headers for a body.
func github(id, contentType, body string) []string {
	mac := hmac.New(sha256.New, []byte(secrets["GITHUB_SECRET"]))
	mac.Write([]byte(body))
	return []string{"Content-Type", contentType, "X-GitHub-Event", "push", "X-GitHub-Delivery", id, "X-Hub-Signature-256", "sha256=" + hex.EncodeToString(mac.Sum(nil))}
}

func (w *world) input(t *testing.T, run string) (input string) {
	t.Helper()
	if err := w.db.Pool.QueryRow(t.Context(), `SELECT input::text FROM trigger.v_deliveries WHERE run_id = $1`, run).Scan(&input); err != nil {
		t.Fatal(err)
	}
	return input
}

// A NUL in JSON text is a 400 that names the place at every door; what only looks
// like one passes untouched.
func TestCaseA04_NUL(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.pair(t)
	for name, body := range map[string]string{"in a value": `{"a":"x\u0000y"}`, "in a key": `{"k\u0000":1}`} {
		for door, a := range map[string]answer{
			"webhook": r.post("/hooks/raw", body, "Content-Type", "application/json"),
			"github":  r.post("/hooks/github", body, github("d1", "application/json", body)...),
			"api":     r.api(operator, "POST", "/v1/agents/anything/runs", `{"input":`+body+`}`),
		} {
			if a.status != http.StatusBadRequest || a.Code != trigger.CodeInvalidText || !strings.Contains(a.Detail, "NUL") {
				t.Errorf("NUL %s at %s: %d %s", name, door, a.status, a.body)
			}
		}
	}
	if n := w.count(t, "trigger.deliveries"); n != 0 {
		t.Errorf("%d deliveries, want none", n)
	}
	const alike = `{"a":"x\\u0000y"}`
	a := r.post("/hooks/raw", alike, "Content-Type", "application/json")
	accepted(t, a)
	if got := w.input(t, a.RunID); got != alike {
		t.Errorf("input %s, want %s", got, alike)
	}
}

// Every digit of every number arrives, by each door, stored and on the bus.
func TestCaseA06_Digits(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.pair(t)
	const body = `{"a":8202522731445525542,"b":9007199254740993,"c":0.1,"d":12345678901234567890.123,"e":1e400,"f":-0}`
	hook := r.post("/hooks/raw", body, "Content-Type", "application/json")
	api := r.api(operator, "POST", "/v1/agents/anything/runs", `{"input":`+body+`}`)
	w.publish(t, "hf.in.orders", `{"agent":"anything","input":`+body+`}`, "Nats-Msg-Id", "digits")
	accepted(t, hook)
	accepted(t, api)
	for _, s := range w.collect(t, true).exactly(t, 3) {
		if string(s.Input) != body {
			t.Errorf("start by %s has the input\n%s, want\n%s", s.Trigger.Kind, s.Input, body)
		}
		if got := w.input(t, string(s.RunID)); got != body {
			t.Errorf("delivery by %s has the input\n%s, want\n%s", s.Trigger.Kind, got, body)
		}
	}
	for _, number := range []string{"1e5000", "0x10", "NaN"} {
		if a := r.post("/hooks/raw", `{"a":`+number+`}`, "Content-Type", "application/json"); a.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", number, a.status, a.body)
		}
	}
}

func TestCaseA07_FormEncoded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.pair(t)
	const payload = `{"zen":"hi"}`
	form := "payload=" + url.QueryEscape(payload)
	a := r.post("/hooks/github", form, github("d1", "application/x-www-form-urlencoded", form)...)
	accepted(t, a)
	if got := w.input(t, a.RunID); got != payload {
		t.Errorf("input %s, want %s", got, payload)
	}
	changed := strings.Replace(form, "hi", "ho", 1)
	if a := r.post("/hooks/github", changed, github("d2", "application/x-www-form-urlencoded", form)...); a.status != http.StatusUnauthorized {
		t.Errorf("one byte changed: %d %s", a.status, a.body)
	}
	bare := "a=b"
	if a := r.post("/hooks/github", bare, github("d3", "application/x-www-form-urlencoded", bare)...); a.status != http.StatusBadRequest || !strings.Contains(a.Detail, "payload") {
		t.Errorf("a form without payload: %d %s", a.status, a.body)
	}
	for name, tc := range map[string]struct {
		contentType, body string
		status            int
	}{
		"no content type":   {"", `{"a":1}`, 202},
		"with a charset":    {"application/json; charset=utf-8", `{"a":1}`, 202},
		"of a vendor":       {"application/vnd.api+json", `{"a":1}`, 202},
		"a list":            {"application/json", `[]`, 202},
		"null":              {"application/json", `null`, 202},
		"text":              {"application/json", `"text"`, 202},
		"nothing":           {"application/json", ``, 400},
		"XML":               {"application/xml", `<a/>`, 415},
		"another alphabet":  {"application/json; charset=iso-8859-1", `{}`, 415},
		"a form":            {"application/x-www-form-urlencoded", `a=b`, 415},
		"a header in vain ": {"///", `{}`, 415},
	} {
		header := []string{"Content-Type", tc.contentType}
		if tc.contentType == "" {
			header = nil
		}
		if a := r.post("/hooks/raw", tc.body, header...); a.status != tc.status {
			t.Errorf("%s: %d %s, want %d", name, a.status, a.body, tc.status)
		}
	}
}

func TestCaseA08_RawBytesAndTime(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.pair(t)
	odd := "{ \"shop\" :\t\"\\u003cshop\\u003e\",\r\n\"price\":1}\n"
	accepted(t, r.post("/hooks/orders", odd, signed("m1", odd, time.Now())...))
	rows := w.count(t, "trigger.deliveries")

	flipped := strings.Replace(odd, "price", "pricf", 1)
	refused := map[string]answer{
		"one byte flipped":       r.post("/hooks/orders", flipped, signed("m2", odd, time.Now())...),
		"ten minutes old":        r.post("/hooks/orders", odd, signed("m3", odd, time.Now().Add(-10*time.Minute))...),
		"ten minutes ahead":      r.post("/hooks/orders", odd, signed("m4", odd, time.Now().Add(10*time.Minute))...),
		"not signed at all":      r.post("/hooks/orders", odd, "Content-Type", "application/json"),
		"signed for another id":  r.post("/hooks/orders", odd, append(signed("m5", odd, time.Now()), "Svix-Id", "m6")[4:]...),
		"no signature at github": r.post("/hooks/github", odd, "Content-Type", "application/json"),
	}
	for name, a := range refused {
		if a.status != http.StatusUnauthorized || a.header.Get("WWW-Authenticate") != "" {
			t.Errorf("%s: %d %s (%s)", name, a.status, a.body, a.header.Get("WWW-Authenticate"))
		}
	}
	if n := w.count(t, "trigger.deliveries"); n != rows {
		t.Errorf("refused requests left %d rows", n-rows)
	}
	accepted(t, r.post("/hooks/orders", odd, signed("m7", odd, time.Now().Add(4*time.Minute))...))
	again := r.post("/hooks/orders", odd, signed("m1", odd, time.Now())...)
	accepted(t, again)
	if again.header.Get("Idempotency-Replayed") != "true" {
		t.Error("a retry that was signed anew is not known")
	}
}

func TestHook_Limits(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.start(t)
	fits := `"` + strings.Repeat("x", trigger.DefaultMaxBody-2) + `"`
	a := r.post("/hooks/raw", fits, "Content-Type", "application/json")
	accepted(t, a)
	if got := w.input(t, a.RunID); got != fits {
		t.Errorf("a body of %d bytes became %d", len(fits), len(got))
	}
	if a := r.post("/hooks/raw", fits+" ", "Content-Type", "application/json"); a.status != 413 || !strings.Contains(a.Detail, fmt.Sprint(trigger.DefaultMaxBody+1)) || !strings.Contains(a.Detail, fmt.Sprintf("limit is %d", trigger.DefaultMaxBody)) {
		t.Errorf("one byte over: %d %s", a.status, a.body)
	}
	req, err := http.NewRequestWithContext(t.Context(), "POST", r.url+"/hooks/raw", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Body, req.ContentLength = http.MaxBytesReader(nil, readCloser{strings.NewReader(fits + fits)}, 1<<30), -1 // chunked
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 413 {
		t.Errorf("chunked, twice the limit: %d", res.StatusCode)
	}
	if n := w.count(t, "trigger.deliveries"); n != 1 {
		t.Errorf("%d deliveries, want 1", n)
	}
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }

func TestHook_UnknownPingAndMisconfigured(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, "apiVersion: holdfast/v1\nkind: Webhook\nmetadata: {name: nosecret}\nspec: {provider: github, secrets: [{env: NOT_SET}], agent: anything}\n")
	r := w.start(t)
	for _, path := range []string{"/hooks/nobody", "/hooks/other/raw", "/hooks/%2e%2e%00"} {
		if a := r.post(path, `{}`); a.status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if a := r.send("GET", "/hooks/raw", nil); a.status != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", a.status)
	}
	ping := github("d1", "application/json", `{}`)
	ping[3] = "ping"
	if a := r.post("/hooks/github", `{}`, ping...); a.status != http.StatusOK || a.RunID != "" {
		t.Errorf("ping: %d %s", a.status, a.body)
	}
	if a := r.post("/hooks/nosecret", `{}`, github("d1", "application/json", `{}`)...); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("a webhook whose secret is not set: %d %s", a.status, a.body)
	}
	if n := w.count(t, "trigger.deliveries"); n != 0 {
		t.Errorf("%d deliveries, want none", n)
	}
}

// A paused webhook takes deliveries, since not every sender tries again, and
// starts them when it goes on.
func TestHook_PausedHoldsAndGoesOn(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const hook = "apiVersion: holdfast/v1\nkind: Webhook\nmetadata: {name: raw}\nspec: {provider: none, agent: anything, paused: %t}\n"
	w.apply(t, strings.Replace(hook, "%t", "true", 1))
	r := w.start(t)
	starts := w.collect(t, true)
	a := r.post("/hooks/raw", `{}`)
	accepted(t, a)
	starts.exactly(t, 0)
	w.apply(t, strings.Replace(hook, "%t", "false", 1))
	if got := starts.exactly(t, 1); string(got[0].RunID) != a.RunID {
		t.Errorf("run %s starts, %s was answered", got[0].RunID, a.RunID)
	}
}
