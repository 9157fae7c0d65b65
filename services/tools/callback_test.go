package tools_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/tools"
	"github.com/holdfast-run/holdfast/services/tools/kind"
)

// The keys that the definition of every test's agent signs with.
var (
	newKey      = []byte("a key of thirty-two bytes, newer")
	oldKey      = []byte("a key of thirty-two bytes, older")
	callbackEnv = map[string]string{
		"HOLDFAST_SECRET_NEW": "whsec_" + base64.StdEncoding.EncodeToString(newKey),
		"HOLDFAST_SECRET_OLD": "whsec_" + base64.StdEncoding.EncodeToString(oldKey),
	}
)

const callbackDigest = events.Digest("sha256:00000000000000000000000000000000000000000000000000000000000000ca")

// callbacks is what cmd would wire, with the catalog played.
func callbacks(ends tools.Ends) tools.Callbacks {
	return tools.Callbacks{Ends: ends, Definition: func(_ context.Context, _, _ string, d events.Digest) (*spec.Callback, error) {
		if d != callbackDigest {
			return nil, tools.ErrNoDefinition
		}
		return &spec.Callback{Secrets: []spec.SecretRef{{Env: "HOLDFAST_SECRET_NEW"}, {Env: "HOLDFAST_SECRET_OLD"}}}, nil
	}}
}

// withEnds gives the kind that posts the store that it reads.
func withEnds(kinds []tools.Kind, ends tools.Ends) []tools.Kind {
	allow, err := egress.ParseAllow([]string{"127.0.0.0/8"})
	if err != nil {
		panic(err)
	}
	posts := kind.All(kind.Config{Egress: egress.New(egress.Config{Allow: allow}), Ends: ends,
		LookupEnv: func(name string) (string, bool) { v, ok := callbackEnv[name]; return v, ok }})
	isCallback := func(k tools.Kind) bool { return k.Name() == tools.BuiltinCallback }
	out := slices.DeleteFunc(slices.Clone(kinds), isCallback)
	return append(out, posts[slices.IndexFunc(posts, isCallback)])
}

// post is one request that a receiver got.
type post struct {
	header http.Header
	body   []byte
}

// receiver is somebody's server. It keeps an event once, by its webhook-id, and
// checks every signature without our code.
type receiver struct {
	*httptest.Server
	t      *testing.T
	answer func(n int, w http.ResponseWriter) // n is the number of the request

	mu    sync.Mutex
	posts []post
	kept  map[string]bool
}

func newReceiver(t *testing.T, answer func(n int, w http.ResponseWriter)) *receiver {
	r := &receiver{t: t, answer: answer, kept: map[string]bool{}}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	r.mu.Lock()
	r.posts = append(r.posts, post{req.Header.Clone(), body})
	n := len(r.posts)
	r.kept[req.Header.Get("webhook-id")] = true
	r.mu.Unlock()
	if r.answer != nil {
		r.answer(n, w)
	}
}

func (r *receiver) all() []post {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.posts)
}

// signed checks what a receiver with key would check. Source: Standard Webhooks
// spec, "Verifying signatures".
func signed(t *testing.T, p post, key []byte) {
	t.Helper()
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", p.header.Get("Webhook-Id"), p.header.Get("Webhook-Timestamp"), p.body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	if !slices.Contains(strings.Split(p.header.Get("Webhook-Signature"), " "), want) {
		t.Errorf("no signature of that key in %q", p.header.Get("Webhook-Signature"))
	}
	var at int64
	if _, err := fmt.Sscan(p.header.Get("Webhook-Timestamp"), &at); err != nil || time.Since(time.Unix(at, 0)).Abs() > time.Minute {
		t.Errorf("timestamp %q", p.header.Get("Webhook-Timestamp"))
	}
}

// ended makes a run that ended age ago, as the runner leaves it, and returns the
// call that posts it.
func (w *world) ended(url, output string, age time.Duration) events.CallTool {
	w.t.Helper()
	run := events.NewRunID()
	_, err := w.db.Pool.Exec(w.t.Context(), `
		INSERT INTO runner.runs (run_id, namespace, kind, name, digest, status, seq, input, output, labels, trigger, callback,
			model_calls, tool_calls, tokens, accepted_at, ended_at)
		VALUES ($1, 'default', 'agent', 'clerk', $2, 'completed', 7, '{}', $3::text::json, '{"night":"1"}', '{"kind":"api"}', $4, 2, 1, 345,
			clock_timestamp() - interval '100 hours', clock_timestamp() - $5::bigint * interval '1 millisecond')`,
		string(run), string(callbackDigest), output, url, age.Milliseconds())
	if err != nil {
		w.t.Fatal(err)
	}
	args, err := events.Canonical(fmt.Appendf(nil, `{"url":%q,"kind":"agent","name":"clerk"}`, url))
	if err != nil {
		w.t.Fatal(err)
	}
	return events.CallTool{CallID: events.NewCallID(run, 7, 0), RunID: run, Namespace: "default", Tool: events.CallbackTool,
		ToolDigest: callbackDigest, Args: args, ArgsDigest: events.DigestOf(args), Key: events.CallbackKey(run, 7)}
}

// post sends the call to the pool of callbacks.
func (w *world) post(c events.CallTool, suffix string) {
	w.t.Helper()
	body, err := events.Marshal(c)
	if err != nil {
		w.t.Fatal(err)
	}
	id := "call:" + string(c.CallID)
	w.publish(events.Message{Subject: events.ToolSubject(events.PoolCallbacks, c.CallID), MsgID: id + suffix, ID: id, Source: "/test",
		Type: events.TypeCallTool, Namespace: c.Namespace, Data: body})
}

// shown is what the run shows of its callback.
type shown struct {
	State    string
	Attempts int
	Wait     time.Duration // until the next attempt, from the end of the last
	Error    string
}

func (w *world) shown(c events.CallTool) shown {
	w.t.Helper()
	var s shown
	var wait *float64
	var failure *string
	err := w.db.Pool.QueryRow(w.t.Context(), `SELECT v.state, v.attempts, extract(epoch FROM v.next_attempt_at - e.updated_at)::float8, v.last_error
		FROM tools.v_callbacks v LEFT JOIN tools.effects e ON e.effect_id = v.effect_id WHERE v.run_id = $1`, string(c.RunID)).Scan(&s.State, &s.Attempts, &wait, &failure)
	if err != nil {
		return shown{Error: err.Error()}
	}
	if wait != nil {
		s.Wait = time.Duration(*wait * float64(time.Second))
	}
	if failure != nil {
		s.Error = *failure
	}
	return s
}

// waits waits until attempt n has ended and another is to come, and returns how
// long that will be.
func (w *world) waits(c events.CallTool, n int) shown {
	w.t.Helper()
	var s shown
	w.until(fmt.Sprintf("attempt %d has failed", n), func() bool {
		s = w.shown(c)
		return s.State == "retrying" && s.Attempts == n && s.Wait > 0
	})
	return s
}

// pass lets the time pass until the next attempt is due.
func (w *world) pass(c events.CallTool) {
	w.t.Helper()
	if _, err := w.db.Pool.Exec(w.t.Context(), `UPDATE tools.effects SET next_attempt_at = clock_timestamp(), wake_at = clock_timestamp()
		WHERE run_id = $1 AND next_attempt_at IS NOT NULL`, string(c.RunID)); err != nil {
		w.t.Fatal(err)
	}
}

func TestCallback_IsSignedByEveryKeyAndKeepsDigits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	r := newReceiver(t, nil)
	large := `{"n":9007199254740993.10,"text":"` + strings.Repeat("ä", 3<<20) + `"}`
	c := w.ended(r.URL+"/in?a=1", large, time.Second)
	w.post(c, "")
	if a := w.answer(c.CallID, events.CallSucceeded); string(a.Result) != `{"status":200}` {
		t.Errorf("answer %s", a.Result)
	}
	got := r.all()
	if len(got) != 1 {
		t.Fatalf("%d requests", len(got))
	}
	signed(t, got[0], newKey)
	signed(t, got[0], oldKey)
	if id := got[0].header.Get("webhook-id"); id != string(c.CallID) {
		t.Errorf("webhook-id %q, want %s", id, c.CallID)
	}
	var body struct {
		Type      string    `json:"type"`
		Timestamp time.Time `json:"timestamp"`
		Data      struct {
			RunID     string            `json:"run_id"`
			Namespace string            `json:"namespace"`
			Status    string            `json:"status"`
			Agent     string            `json:"agent"`
			Output    json.RawMessage   `json:"output"`
			Labels    map[string]string `json:"labels"`
			EndedAt   time.Time         `json:"ended_at"`
			Usage     events.RunUsage   `json:"usage"`
		} `json:"data"`
	}
	if err := json.Unmarshal(got[0].body, &body); err != nil {
		t.Fatal(err)
	}
	d := body.Data
	if string(d.Output) != large {
		t.Errorf("an output of %d bytes became %d bytes: %.60s", len(large), len(d.Output), d.Output)
	}
	if body.Type != "run.ended" || d.RunID != string(c.RunID) || d.Namespace != "default" || d.Status != "completed" || d.Agent != "clerk" ||
		d.Labels["night"] != "1" || !body.Timestamp.Equal(d.EndedAt) || d.Usage != (events.RunUsage{ModelCalls: 2, ToolCalls: 1, Tokens: 345}) {
		d.Output = nil
		t.Errorf("body %+v", body)
	}
	if s := w.shown(c); s.State != "delivered" || s.Attempts != 1 || s.Error != "" {
		t.Errorf("shown %+v", s)
	}
	w.post(c, ":n1") // asked again, it is answered from the ledger
	w.until("the answer comes again", func() bool { return len(w.answersOf(c.CallID)) == 2 })
	if n := len(r.all()); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
	w.keepsSecrets()
}

// keepsSecrets looks for keys in everything that the ledger keeps.
func (w *world) keepsSecrets() {
	w.t.Helper()
	for _, secret := range callbackEnv {
		n := w.count(`SELECT (SELECT count(*) FROM tools.effects e WHERE e::text LIKE '%' || $1 || '%') + (SELECT count(*) FROM tools.calls c WHERE c::text LIKE '%' || $1 || '%')
			+ (SELECT count(*) FROM tools.receipts r WHERE r::text LIKE '%' || $1 || '%')`, strings.TrimPrefix(secret, "whsec_"))
		if n != 0 {
			w.t.Errorf("%d rows hold a secret", n)
		}
	}
}

// Every attempt has the same id, and the pauses between them are the schedule's,
// kept in a row.
func TestCallback_IsRepeatedOnSchedule(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	r := newReceiver(t, func(n int, rw http.ResponseWriter) {
		switch n {
		case 4:
			rw.Header().Set("Location", "/elsewhere")
			rw.WriteHeader(http.StatusTemporaryRedirect)
		case 5:
			rw.WriteHeader(http.StatusNotFound)
		case 8:
			rw.Header().Set("Retry-After", "14400") // four hours are less than the schedule's six
			rw.WriteHeader(http.StatusTooManyRequests)
		case 9:
		default:
			http.Error(rw, "sorry "+callbackEnv["HOLDFAST_SECRET_OLD"], http.StatusInternalServerError)
		}
	})
	c := w.ended(r.URL+"/in", `1`, time.Second)
	w.post(c, "")
	for i, want := range []time.Duration{5 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 6 * time.Hour, 6 * time.Hour, 6 * time.Hour} {
		s := w.waits(c, i+1)
		if s.Wait < want-time.Second || s.Wait > want+want/5+time.Second {
			t.Errorf("after attempt %d: %s, want %s and up to a fifth more", i+1, s.Wait, want)
		}
		if !strings.Contains(s.Error, "HTTP ") {
			t.Errorf("after attempt %d the error is %q", i+1, s.Error)
		}
		w.pass(c)
	}
	w.answer(c.CallID, events.CallSucceeded)
	got := r.all()
	if len(got) != 9 || len(r.kept) != 1 {
		t.Errorf("%d requests with %d ids, want 9 with one", len(got), len(r.kept))
	}
	for _, p := range got {
		signed(t, p, newKey)
	}
	if n := w.count(`SELECT count(*) FROM tools.receipts`); n != 9 {
		t.Errorf("%d receipts, want one per attempt", n)
	}
	w.keepsSecrets()
}

func TestCallback_HonoursRetryAfter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	r := newReceiver(t, func(_ int, rw http.ResponseWriter) {
		rw.Header().Set("Retry-After", "3000")
		rw.WriteHeader(http.StatusServiceUnavailable)
	})
	c := w.ended(r.URL, `1`, time.Second)
	w.post(c, "")
	if s := w.waits(c, 1); s.Wait < 49*time.Minute || s.Wait > 61*time.Minute {
		t.Errorf("waits %s, want fifty minutes and up to a fifth more", s.Wait)
	}
}

func TestCallback_ReceiverIsDownThenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	r := newReceiver(t, nil)
	address := r.Listener.Addr().String()
	r.Close()
	c := w.ended("http://"+address+"/in", `1`, time.Second)
	w.post(c, "")
	if s := w.waits(c, 1); !strings.Contains(s.Error, "nothing was sent") {
		t.Errorf("error %q", s.Error)
	}
	var up *receiver
	w.until("the address is free", func() bool {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return false
		}
		up = &receiver{t: t, kept: map[string]bool{}}
		up.Server = httptest.NewUnstartedServer(up)
		_ = up.Listener.Close()
		up.Listener = l
		up.Start()
		return true
	})
	t.Cleanup(up.Close)
	w.pass(c)
	w.answer(c.CallID, events.CallSucceeded)
	if n := len(up.all()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// A worker dies after the receiver has answered and before that is recorded: it
// is posted again under the same id, and the receiver counts one.
func TestCallback_KilledBetweenActAndRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := newReceiver(t, nil)
	c := w.ended(r.URL, `1`, time.Second)
	p := w.fork(fmt.Sprintf("tools.acted[%s]=kill", c.CallID))
	w.post(c, "")
	select {
	case <-p.dead:
	case <-time.After(20 * time.Second):
		t.Fatalf("the worker did not die\n%s", w.rows())
	}
	w.start()
	w.answer(c.CallID, events.CallSucceeded)
	got := r.all()
	if len(got) != 2 || len(r.kept) != 1 {
		t.Errorf("%d requests with %d ids, want 2 with one", len(got), len(r.kept))
	}
	for _, p := range got {
		signed(t, p, newKey)
	}
	if string(got[0].body) != string(got[1].body) {
		t.Errorf("the bodies differ: %s and %s", got[0].body, got[1].body)
	}
}

// The last attempt is made when 72 h are over by the database's clock; then it
// has failed, nobody is asked, and nothing is tried any more.
func TestCallback_GivesUpAfter72Hours(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	r := newReceiver(t, func(_ int, rw http.ResponseWriter) { rw.WriteHeader(http.StatusBadGateway) })
	c := w.ended(r.URL, `1`, 72*time.Hour-8*time.Second)
	w.post(c, "")
	w.waits(c, 1)
	w.pass(c) // instead of a minute, what is left of the 72 h
	if s := w.waits(c, 2); s.Wait > 8*time.Second {
		t.Errorf("waits %s, and less than 8 s were left", s.Wait)
	}
	a := w.answer(c.CallID, events.CallUnknown) // by itself
	if a.InDoubt != tools.DoubtFail || a.Error == nil || a.Error.Code != "http_502" {
		t.Errorf("answer %+v", a)
	}
	if s := w.shown(c); s.State != "failed" || s.Attempts != 3 || !strings.Contains(s.Error, "502") || s.Wait != 0 {
		t.Errorf("shown %+v", s)
	}
	w.idleOf(events.PoolCallbacks)
	if n := len(r.all()); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
}

func TestCallback_410EndsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	r := newReceiver(t, func(_ int, rw http.ResponseWriter) { rw.WriteHeader(http.StatusGone) })
	c := w.ended(r.URL, `1`, time.Second)
	w.post(c, "")
	if a := w.answer(c.CallID, events.CallFailed); a.Error == nil || a.Error.Code != "http_410" {
		t.Errorf("answer %+v", a)
	}
	if s := w.shown(c); s.State != "failed" || s.Attempts != 1 {
		t.Errorf("shown %+v", s)
	}
}

// The run says where to; a message that says otherwise, or that comes from
// another namespace or too early, posts nothing.
func TestCallback_PostsOnlyWhatTheRunSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	r := newReceiver(t, nil)
	for name, change := range map[string]func(c *events.CallTool){
		"another namespace": func(c *events.CallTool) { c.Namespace = "other" },
		"another address": func(c *events.CallTool) {
			c.Args = json.RawMessage(strings.Replace(string(c.Args), "/in", "/theirs", 1))
			c.ArgsDigest = events.DigestOf(c.Args)
		},
		"a version that is not stored": func(c *events.CallTool) { c.ToolDigest = events.DigestOf(nil) },
		"a run that has not ended": func(c *events.CallTool) {
			if _, err := w.db.Pool.Exec(t.Context(), `UPDATE runner.runs SET ended_at = NULL WHERE run_id = $1`, string(c.RunID)); err != nil {
				t.Error(err)
			}
		},
	} {
		c := w.ended(r.URL+"/in", `1`, time.Second)
		change(&c)
		w.post(c, "")
		if a := w.answer(c.CallID, events.CallFailed); a.Error == nil || a.Error.Code != tools.CodeNoCallback {
			t.Errorf("%s: answer %+v", name, a)
		}
	}
	if n := len(r.all()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

func (w *world) idleOf(pool string) {
	w.t.Helper()
	w.until("the pool is empty", func() bool {
		lag, err := w.bus.Lag(w.t.Context(), events.StreamTools, events.ToolConsumer(pool))
		return err == nil && lag.Pending+lag.AckPending == 0
	})
}
