package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/services/tools"
	"github.com/holdfast-run/holdfast/services/tools/httpapi"
	"github.com/holdfast-run/holdfast/services/tools/postgres"
)

// ledger is the ledger's door on a real database, without calls or a bus.
type ledger struct {
	t       testing.TB
	db      *pgtest.DB
	store   *postgres.Store
	service *tools.Service
	url     string
	token   string
}

func newLedger(t testing.TB) *ledger {
	t.Helper()
	db := pgtest.New(t)
	store := postgres.New(db.Open(t, "holdfast_tools"))
	svc, err := tools.New(tools.Config{Worker: "w"}, tools.Deps{
		Store: store, Controls: store, Reader: store, Once: store, Stops: store, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	d := door.New(door.Config{Title: "tools", Version: "test", Verifier: doortest.Verifier()})
	httpapi.Register(d, svc)
	srv := httptest.NewServer(d.Handler())
	t.Cleanup(srv.Close)
	return &ledger{t: t, db: db, store: store, service: svc, url: srv.URL, token: doortest.Token(authn.Admin)}
}

// reply is what the ledger says, whichever route it was.
type reply struct {
	HTTP       int
	Status     string
	EffectID   string `json:"effect_id"`
	Fence      int64
	LeaseMs    int64 `json:"lease_ms"`
	Result     json.RawMessage
	Holder     string
	RetryAfter float64 `json:"retry_after"`
	InDoubt    string  `json:"in_doubt"`
	Advice     string
	State      string
	Epoch      int64
	Damaged    string
	Code       string
	Detail     string
	Receipts   json.RawMessage
	body       string
	header     http.Header
}

func (l *ledger) send(method, path string, body string) reply {
	l.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, l.url+path, strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+l.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		l.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	var r reply
	if resp.StatusCode < 300 {
		if err := json.Unmarshal(b, &r); err != nil {
			l.t.Fatalf("%s %s: %s: %v", method, path, b, err)
		}
	} else {
		var p door.Problem
		if err := json.Unmarshal(b, &p); err != nil {
			l.t.Fatalf("%s %s: %s: %v", method, path, b, err)
		}
		r.Code, r.Detail = p.Code, p.Detail
	}
	r.HTTP, r.body, r.header = resp.StatusCode, string(b), resp.Header
	return r
}

// raw reads a path as a role of a namespace.
func (l *ledger) raw(path string, role authn.Role, namespace string) (*http.Response, []byte) {
	l.t.Helper()
	req, err := http.NewRequestWithContext(l.t.Context(), http.MethodGet, l.url+path, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+doortest.TokenIn(namespace, role))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		l.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	return resp, b
}

func (l *ledger) begin(key, holder string, more ...string) reply {
	l.t.Helper()
	return l.send(http.MethodPost, "/v1/effects", fmt.Sprintf(`{"key":%q,"holder":%q%s}`, key, holder, strings.Join(more, "")))
}

func (l *ledger) proceed(key, holder string, more ...string) reply {
	l.t.Helper()
	r := l.begin(key, holder, more...)
	if r.HTTP != 200 || r.Status != tools.OnceProceed || r.Fence < 1 || r.EffectID == "" || r.LeaseMs <= 0 {
		l.t.Fatalf("begin %s by %s: %d %s, want proceed", key, holder, r.HTTP, r.body)
	}
	return r
}

func (l *ledger) record(id string, fence int64, rest string) reply {
	l.t.Helper()
	return l.send(http.MethodPut, "/v1/effects/"+id, fmt.Sprintf(`{"fence":%d,%s}`, fence, rest))
}

// lapse lets the lease of an effect have run out.
func (l *ledger) lapse(id string) {
	l.t.Helper()
	l.exec(`UPDATE tools.effects SET lease_until = clock_timestamp() - interval '1 minute' WHERE effect_id = $1 AND lease_until IS NOT NULL`, id)
}

func (l *ledger) exec(sql string, args ...any) {
	l.t.Helper()
	if _, err := l.db.Pool.Exec(context.Background(), sql, args...); err != nil {
		l.t.Fatalf("%s: %v", sql, err)
	}
}

func want(t *testing.T, what string, r reply, status int, code string) {
	t.Helper()
	if got := r.Code + r.Status; r.HTTP != status || code != "" && got != code {
		t.Errorf("%s: %d %s, want %d %s", what, r.HTTP, r.body, status, code)
	}
}

func TestOnce_ActRecordRepeat(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	args := `,"tool":"charge","args":{"amount":12345678901234567890.10,"to":"ann"}`
	p := l.proceed("invoice/7", "h1", args)
	const result = `{"charge":98765432109876543210,"fee":0.10}`
	r := l.record(p.EffectID, p.Fence, `"status":"succeeded","result":`+result+`,"receipt":{"id":"ch_1"}`)
	want(t, "the record", r, 200, "")
	if r.State != "succeeded" {
		t.Errorf("state %s", r.State)
	}
	want(t, "the same record again", l.record(p.EffectID, p.Fence, `"status":"succeeded","result":{"fee":0.1,"charge":98765432109876543210},"receipt":{"id":"ch_1"}`), 200, "")
	want(t, "another record", l.record(p.EffectID, p.Fence, `"status":"succeeded","result":{"charge":1}`), 409, "other_outcome")
	want(t, "a failure after it", l.record(p.EffectID, p.Fence, `"status":"failed"`), 409, "other_outcome")

	done := l.begin("invoice/7", "h2", `,"tool":"charge","args":{"to":"ann","amount":12345678901234567890.1}`)
	want(t, "the key again", done, 200, tools.OnceDone)
	if string(done.Result) != result {
		t.Errorf("stored result %s, want every digit of %s", done.Result, result)
	}
	want(t, "the key with a digit more", l.begin("invoice/7", "h2", `,"tool":"charge","args":{"to":"ann","amount":12345678901234567890.11}`), 409, "key_mismatch")
	if other := l.proceed("invoice/7", "h1", `,"tool":"mail"`); other.EffectID == p.EffectID {
		t.Error("another tool's key is the same effect")
	}
	shown := l.send(http.MethodGet, "/v1/effects/"+p.EffectID, "")
	if !strings.Contains(shown.body, `"tool":"program/charge"`) || !strings.Contains(string(shown.Receipts), "ch_1") {
		t.Errorf("the ledger shows %s", shown.body)
	}
	l.token = doortest.TokenIn("other", authn.Operator)
	want(t, "another namespace records", l.record(p.EffectID, p.Fence, `"status":"failed"`), 404, "not_found")
	if r := l.proceed("invoice/7", "h2", `,"tool":"charge"`); r.EffectID == p.EffectID {
		t.Error("another namespace shares the key")
	}
}

func TestOnce_SameHolderHasTheSameFence(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	first := l.proceed("k", "h1", `,"lease_seconds":3600`)
	again := l.proceed("k", "h1", `,"lease_seconds":3600`)
	if again.Fence != first.Fence || again.EffectID != first.EffectID {
		t.Errorf("fence %d then %d", first.Fence, again.Fence)
	}
	busy := l.begin("k", "h2")
	want(t, "another holder", busy, 200, tools.OnceBusy)
	if busy.Holder != "h1" || busy.RetryAfter < 3000 || busy.header.Get("Retry-After") == "" {
		t.Errorf("busy says %s", busy.body)
	}
	l.lapse(first.EffectID)
	// The same holder cannot tell either, once its lease is over.
	want(t, "the holder after its lease", l.begin("k", "h1"), 200, tools.OnceUnknown)
}

func TestOnce_Policies(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for name, tc := range map[string]struct{ first, second, want string }{
		"ask":                     {"ask", "ask", tools.OnceUnknown},
		"fail":                    {"fail", "fail", tools.OnceUnknown},
		"both retry":              {"retry", "retry", tools.OnceProceed},
		"only the one who acted":  {"retry", "ask", tools.OnceUnknown},
		"only the one who begins": {"ask", "retry", tools.OnceUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			key := "policy/" + name
			p := l.proceed(key, "h1", `,"on_doubt":"`+tc.first+`"`)
			l.lapse(p.EffectID)
			r := l.begin(key, "h2", `,"on_doubt":"`+tc.second+`"`)
			want(t, "the takeover", r, 200, tc.want)
			switch tc.want {
			case tools.OnceProceed:
				if r.Fence != p.Fence+1 {
					t.Errorf("fence %d after %d", r.Fence, p.Fence)
				}
			default:
				if !strings.Contains(r.Advice, "holdfast effects resolve "+p.EffectID) {
					t.Errorf("advice %q", r.Advice)
				}
			}
		})
	}
}

func TestOnce_ResolveSettles(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for verdict, wantStatus := range map[string]string{"happened": tools.OnceDone, "not_happened": tools.OnceProceed, "give_up": tools.OnceUnknown} {
		p := l.proceed("r/"+verdict, "h1")
		l.lapse(p.EffectID)
		want(t, "in doubt", l.begin("r/"+verdict, "h2"), 200, tools.OnceUnknown)
		body := `{"verdict":"` + verdict + `"}`
		if verdict == "happened" {
			body = `{"verdict":"happened","result":{"id":77777777777777777777}}`
		}
		want(t, "resolve", l.send(http.MethodPost, "/v1/effects/"+p.EffectID+"/resolve", body), 200, "")
		r := l.begin("r/"+verdict, "h3")
		want(t, "after "+verdict, r, 200, wantStatus)
		if verdict == "happened" && string(r.Result) != `{"id":77777777777777777777}` {
			t.Errorf("result %s", r.Result)
		}
		if verdict == "not_happened" && r.Fence <= p.Fence {
			t.Errorf("fence %d after %d", r.Fence, p.Fence)
		}
		late := l.record(p.EffectID, p.Fence, `"status":"succeeded","result":1`)
		want(t, "an outcome after the verdict "+verdict, late, 409, "fenced")
		if shown := l.send(http.MethodGet, "/v1/effects/"+p.EffectID, ""); !strings.Contains(string(shown.Receipts), `"late" : true`) && !strings.Contains(string(shown.Receipts), `"late":true`) {
			t.Errorf("the late outcome is not kept: %s", shown.Receipts)
		}
	}
}

func TestOnce_LateOutcomeSettlesAnOpenDoubt(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	p := l.proceed("k", "h1")
	l.lapse(p.EffectID)
	if err := l.service.LapseDue(t.Context()); err != nil { // nobody asked for the key
		t.Fatal(err)
	}
	if r := l.send(http.MethodGet, "/v1/effects?state=unknown", ""); !strings.Contains(r.body, p.EffectID) {
		t.Errorf("doubts: %s", r.body)
	}
	want(t, "renewing what is in doubt", l.send(http.MethodPost, "/v1/effects/"+p.EffectID+"/renew", `{"fence":1}`), 409, "fenced")
	want(t, "the late outcome", l.record(p.EffectID, p.Fence, `"status":"succeeded","result":"x"`), 200, "")
	want(t, "the key", l.begin("k", "h2"), 200, tools.OnceDone)
}

// An old holder that records after a takeover changes nothing.
func TestOnce_OldHolderIsFenced(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	old := l.proceed("k", "h1", `,"on_doubt":"retry"`)
	l.lapse(old.EffectID)
	young := l.proceed("k", "h2", `,"on_doubt":"retry"`)
	want(t, "the old holder records", l.record(old.EffectID, old.Fence, `"status":"succeeded","result":"old"`), 409, "fenced")
	want(t, "the old holder renews", l.send(http.MethodPost, "/v1/effects/"+old.EffectID+"/renew", `{"fence":1}`), 409, "fenced")
	want(t, "a fence that was never given", l.record(old.EffectID, 99, `"status":"succeeded"`), 409, "fenced")
	want(t, "the young holder renews", l.send(http.MethodPost, "/v1/effects/"+old.EffectID+"/renew", `{"fence":2,"lease_seconds":60}`), 200, "proceed")
	// The first attempt may have happened: a failure of the second proves nothing.
	r := l.record(young.EffectID, young.Fence, `"status":"failed","error":{"code":"declined","message":"no"}`)
	want(t, "the young holder fails", r, 200, "")
	if r.State != "unknown" {
		t.Errorf("state %s, want unknown: the first attempt may have happened", r.State)
	}
	want(t, "the same failure again", l.record(young.EffectID, young.Fence, `"status":"failed","error":{"code":"declined","message":"no"}`), 200, "")
	want(t, "another outcome of the same fence", l.record(young.EffectID, young.Fence, `"status":"succeeded"`), 409, "other_outcome")
	want(t, "begin by ask", l.begin("k", "h3"), 200, tools.OnceUnknown)
	third := l.proceed("k", "h3", `,"on_doubt":"retry"`)
	want(t, "the third", l.record(third.EffectID, third.Fence, `"status":"succeeded","result":3`), 200, "")
	if r := l.begin("k", "h4"); string(r.Result) != "3" {
		t.Errorf("result %s", r.Result)
	}
}

func TestOnce_FailedIsFree(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	p := l.proceed("k", "h1")
	want(t, "failed", l.record(p.EffectID, p.Fence, `"status":"failed"`), 200, "")
	next := l.proceed("k", "h2")
	if next.Fence != p.Fence+1 {
		t.Errorf("fence %d after %d", next.Fence, p.Fence)
	}
	want(t, "the first failure again, whose answer was lost", l.record(p.EffectID, p.Fence, `"status":"failed"`), 200, "")
	want(t, "the first changes its mind", l.record(p.EffectID, p.Fence, `"status":"succeeded"`), 409, "other_outcome")
}

func TestOnce_TwentyHoldersOneProceeds(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for round, prepare := range []func(key string){
		func(string) {},
		func(key string) { p := l.proceed(key, "x"); l.record(p.EffectID, p.Fence, `"status":"failed"`) },
		func(key string) { l.lapse(l.proceed(key, "x", `,"on_doubt":"retry"`).EffectID) },
	} {
		key := fmt.Sprintf("race/%d", round)
		prepare(key)
		var wg sync.WaitGroup
		got := make([]reply, 20)
		for i := range got {
			wg.Go(func() { got[i] = l.begin(key, fmt.Sprintf("h%d", i), `,"on_doubt":"retry"`) })
		}
		wg.Wait()
		n := map[string]int{}
		for _, r := range got {
			n[r.Status]++
		}
		if n[tools.OnceProceed] != 1 || n[tools.OnceBusy] != 19 {
			t.Errorf("round %d: %v, want one proceed and 19 busy", round, n)
		}
	}
}

func TestOnce_Invalid(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for what, body := range map[string]string{
		"no body":         ``,
		"nothing in it":   `{}`,
		"no holder":       `{"key":"k"}`,
		"a long key":      `{"holder":"h","key":"` + strings.Repeat("k", 501) + `"}`,
		"a line break":    `{"holder":"h","key":"a\nb"}`,
		"a slash":         `{"holder":"h","key":"k","tool":"a/b"}`,
		"another policy":  `{"holder":"h","key":"k","on_doubt":"hope"}`,
		"a long lease":    `{"holder":"h","key":"k","lease_seconds":3601}`,
		"a negative one":  `{"holder":"h","key":"k","lease_seconds":-1}`,
		"a huge one":      `{"holder":"h","key":"k","lease_seconds":9223372036854775807}`,
		"a name twice":    `{"holder":"h","key":"k","args":{"a":1,"a":2}}`,
		"an unknown name": `{"holder":"h","key":"k","hodler":"x"}`,
		"no run":          `{"holder":"h","key":"k","run_id":"7"}`,
		"a NUL":           `{"holder":"h","key":"k","args":"\u0000"}`,
	} {
		want(t, what, l.send(http.MethodPost, "/v1/effects", body), 422, "invalid_input")
	}
	p := l.proceed("k", "h")
	for what, rest := range map[string]string{
		"no status":             `"result":1`,
		"a status of our own":   `"status":"unknown"`,
		"a failure's result":    `"status":"failed","result":1`,
		"a success's error":     `"status":"succeeded","error":{"code":"x","message":"y"}`,
		"half a surrogate pair": `"status":"succeeded","result":"\ud800"`,
	} {
		want(t, what, l.record(p.EffectID, p.Fence, rest), 422, "invalid_input")
	}
	want(t, "no fence", l.record(p.EffectID, 0, `"status":"succeeded"`), 422, "invalid_input")
	want(t, "no such effect", l.record("e-00", 1, `"status":"succeeded"`), 404, "not_found")
	want(t, "a large body", l.send(http.MethodPut, "/v1/effects/"+p.EffectID, `{"fence":1,"status":"succeeded","result":"`+strings.Repeat("x", 1<<20)+`"}`), 413, "body_too_large")
}

func TestOnce_ToolCallsAreNotPrograms(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.exec(`INSERT INTO tools.effects (effect_id, namespace, tool, key, state, epoch, call_id, run_id, args, args_digest, attempt_id, worker, lease_until)
		VALUES ('e-1', 'default', 'pay', 'k', 'intent', 1, 'c', 'r', '{}', 'd', 'a', 'w', clock_timestamp())`)
	want(t, "recording a tool call's effect", l.record("e-1", 1, `"status":"succeeded"`), 409, "not_a_program_effect")
	want(t, "renewing it", l.send(http.MethodPost, "/v1/effects/e-1/renew", `{"fence":1}`), 409, "not_a_program_effect")
	l.exec(`UPDATE tools.effects SET lease_until = clock_timestamp() - interval '1 day'`)
	if err := l.service.LapseDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := l.send(http.MethodGet, "/v1/effects/e-1", ""); r.State != "intent" {
		t.Errorf("a tool call's intent became %s", r.State)
	}
}

func TestOnce_KeysExpire(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	ended := func(key string, days int) string {
		p := l.proceed(key, "h", `,"args":{"secret":"of old"}`)
		l.record(p.EffectID, p.Fence, `"status":"succeeded","result":{"r":1},"receipt":{"id":"x"}`)
		l.exec(`UPDATE tools.effects SET updated_at = clock_timestamp() - make_interval(days => $2) WHERE effect_id = $1`, p.EffectID, days)
		return p.EffectID
	}
	old, young := ended("old", 401), ended("young", 399)
	open := l.proceed("open", "h")
	l.exec(`UPDATE tools.effects SET updated_at = clock_timestamp() - interval '9 years', lease_until = clock_timestamp() - interval '9 years' WHERE effect_id = $1`, open.EffectID)
	if err := l.service.ExpireKeys(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, "the old key", l.begin("old", "h2", `,"args":{"secret":"of old"}`), 409, "expired_key")
	want(t, "the old key with other arguments", l.begin("old", "h2"), 409, "expired_key")
	want(t, "recording it", l.record(old, 2, `"status":"succeeded"`), 409, "fenced")
	if r := l.send(http.MethodGet, "/v1/effects/"+old, ""); r.State != "expired" || strings.Contains(r.body, "of old") || string(r.Receipts) != "[]" {
		t.Errorf("the tombstone holds %s", r.body)
	}
	want(t, "the young key", l.begin("young", "h2", `,"args":{"secret":"of old"}`), 200, tools.OnceDone)
	if r := l.send(http.MethodGet, "/v1/effects/"+young, ""); r.State != "succeeded" {
		t.Errorf("the young one is %s", r.State)
	}
	want(t, "an act that never ended", l.begin("open", "h2"), 200, tools.OnceUnknown)
}

func TestOnce_DamagedRecord(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for name, harm := range map[string]string{
		"its result is gone":         `result = NULL`,
		"its result is no text":      `result = '"\ud800"'`,
		"its result has a key twice": `result = '{"a":1,"a":2}'`,
		"its error is no problem":    `error = '17'`,
	} {
		t.Run(name, func(t *testing.T) {
			p := l.proceed(name, "h")
			l.record(p.EffectID, p.Fence, `"status":"succeeded","result":{"a":1}`)
			l.exec(`UPDATE tools.effects SET `+harm+` WHERE effect_id = $1`, p.EffectID)
			for range 2 {
				want(t, "the key", l.begin(name, "h2", `,"on_doubt":"retry"`), 409, "damaged")
			}
			r := l.send(http.MethodGet, "/v1/effects/"+p.EffectID, "")
			if r.Damaged == "" || len(r.Result) > 0 {
				t.Errorf("shown as %s", r.body)
			}
			if list := l.send(http.MethodGet, "/v1/effects", ""); list.HTTP != 200 || !strings.Contains(list.body, `"damaged":`) {
				t.Errorf("listed as %s", list.body)
			}
			want(t, "resolving it", l.send(http.MethodPost, "/v1/effects/"+p.EffectID+"/resolve", `{"verdict":"not_happened"}`), 409, "not_in_doubt")
		})
	}
}

// TestOnce_RandomHistories plays random histories of one key by five holders
// and holds each against what may never be: two holders that proceed in one
// epoch, a proceed after done, a result that changes.
func TestOnce_RandomHistories(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	policies := []string{"ask", "retry", "fail"}
	seen := map[string]int{}
	for history := range 60 {
		key := fmt.Sprintf("history/%d", history)
		owner := map[int64]string{}  // fence → holder
		fences := map[string]int64{} // holder → newest fence
		var id, done string
		var log []string
		for range 25 {
			holder := fmt.Sprintf("h%d", rnd.IntN(5))
			var r reply
			var step string
			switch n := rnd.IntN(12); {
			case n < 5 || id == "":
				step = "begin"
				r = l.begin(key, holder, `,"on_doubt":"`+policies[rnd.IntN(3)]+`"`)
				id = r.EffectID
				switch r.Status {
				case tools.OnceProceed:
					if done != "" {
						t.Fatalf("history %v: %s proceeds after done", log, holder)
					}
					if was := owner[r.Fence]; was != "" && was != holder {
						t.Fatalf("history %v: %s and %s proceed in epoch %d", log, was, holder, r.Fence)
					}
					for f := range owner {
						if f > r.Fence {
							t.Fatalf("history %v: fence %d after %d", log, r.Fence, f)
						}
					}
					owner[r.Fence], fences[holder] = holder, r.Fence
				case tools.OnceDone:
					if done == "" || string(r.Result) != done {
						t.Fatalf("history %v: done with %s, want %q", log, r.Result, done)
					}
				}
			case n < 8:
				status := []string{"succeeded", "failed"}[rnd.IntN(2)]
				result := fmt.Sprintf(`"%s/%d"`, holder, fences[holder])
				rest := `"status":"failed"`
				if status == "succeeded" {
					rest = `"status":"succeeded","result":` + result
				}
				step = "record " + status
				r = l.record(id, max(fences[holder], 1), rest)
				if newest := slices.Max(append(slices.Collect(maps.Keys(owner)), 0)); r.HTTP == 200 && r.State == "succeeded" && done == "" && max(fences[holder], 1) != newest {
					t.Fatalf("history %v: fence %d records, %d is the newest", log, max(fences[holder], 1), newest)
				}
				if r.HTTP == 200 && r.State == "succeeded" {
					if done != "" && done != string(r.Result) {
						t.Fatalf("history %v: the result %s became %s", log, done, r.Result)
					}
					done = string(r.Result)
				}
			case n < 9:
				step = "renew"
				r = l.send(http.MethodPost, "/v1/effects/"+id+"/renew", fmt.Sprintf(`{"fence":%d}`, max(fences[holder], 1)))
				if r.HTTP == 200 && done != "" {
					t.Fatalf("history %v: renewed after done", log)
				}
			case n < 11:
				step = "lapse"
				l.lapse(id)
			default:
				verdict := []string{"happened", "not_happened", "give_up"}[rnd.IntN(3)]
				step = "resolve " + verdict
				r = l.send(http.MethodPost, "/v1/effects/"+id+"/resolve", `{"verdict":"`+verdict+`"}`)
				if r.HTTP == 200 && verdict == "happened" && done == "" {
					done = string(r.Result)
				}
			}
			if r.HTTP >= 500 {
				t.Fatalf("history %v: %s: %d %s", log, step, r.HTTP, r.body)
			}
			seen[step+" "+r.Status+r.Code]++
			log = append(log, fmt.Sprintf("%s %s: %s%s%s/%d", holder, step, r.Status, r.Code, r.State, r.Fence))
		}
	}
	for _, must := range []string{"begin proceed", "begin done", "begin busy", "begin unknown", "record succeeded fenced", "record failed fenced"} {
		if seen[must] == 0 {
			t.Errorf("no history came to %q: %v", must, slices.Sorted(maps.Keys(seen)))
		}
	}
}

// What is judged is judged by the database's clock, and a takeover waits longer
// than the lease.
func TestOnce_TakeoverWaitsLongerThanTheLease(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	p := l.proceed("k", "h1", `,"on_doubt":"retry"`)
	l.exec(`UPDATE tools.effects SET lease_until = clock_timestamp() - interval '100 ms' WHERE effect_id = $1`, p.EffectID)
	begun := time.Now()
	want(t, "right after the lease", l.begin("k", "h2", `,"on_doubt":"retry"`), 200, tools.OnceBusy)
	want(t, "the holder right after its lease", l.begin("k", "h1", `,"on_doubt":"retry"`), 200, tools.OnceBusy)
	for deadline := begun.Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		r := l.begin("k", "h2", `,"on_doubt":"retry"`)
		if r.Status == tools.OnceProceed {
			break
		}
		if r.Status != tools.OnceBusy || time.Now().After(deadline) {
			t.Fatalf("%s", r.body)
		}
	}
	if waited := time.Since(begun); waited < 1500*time.Millisecond {
		t.Errorf("taken over %s after the lease", waited)
	}
}
