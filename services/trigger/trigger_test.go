package trigger_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/internal/bustest"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/internal/lifecycle"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/trigger"
	"github.com/holdfast-run/holdfast/services/trigger/cron"
	"github.com/holdfast-run/holdfast/services/trigger/httpapi"
	"github.com/holdfast-run/holdfast/services/trigger/inbox"
	"github.com/holdfast-run/holdfast/services/trigger/postgres"
	"github.com/holdfast-run/holdfast/services/trigger/webhook"
)

const role = "holdfast_trigger"

// docs is what most tests apply.
const docs = `
apiVersion: holdfast/v1
kind: Model
metadata: {name: claude}
spec: {provider: anthropic, model: claude-test, apiKey: {env: ANTHROPIC_API_KEY}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: check}
spec:
  model: claude
  instructions: Check one shop.
  input:
    type: object
    required: [shop]
    properties: {shop: {type: string}, price: {type: number}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: anything}
spec: {model: claude, instructions: Take anything.}
---
apiVersion: holdfast/v1
kind: Flow
metadata: {name: night}
spec:
  steps:
    - {name: check, agent: anything}
---
apiVersion: holdfast/v1
kind: Webhook
metadata: {name: orders}
spec:
  provider: standard
  secrets: [{env: OLD_SECRET}, {env: HOOK_SECRET}]
  agent: check
  input: {shop: "${body.shop}", price: "${body.price}"}
  labels: {shop: "${body.shop}"}
---
apiVersion: holdfast/v1
kind: Webhook
metadata: {name: raw}
spec: {provider: none, agent: anything}
---
apiVersion: holdfast/v1
kind: Webhook
metadata: {name: keyed}
spec: {provider: none, agent: anything, dedupe: "${body.event.channel}/${body.event.ts}"}
---
apiVersion: holdfast/v1
kind: Webhook
metadata: {name: github}
spec: {provider: github, secrets: [{env: GITHUB_SECRET}], agent: anything}
`

var hookKey = []byte("thirty-two bytes of secret, really")

var secrets = map[string]string{
	"HOOK_SECRET":   "whsec_" + base64.StdEncoding.EncodeToString(hookKey),
	"OLD_SECRET":    "whsec_" + base64.StdEncoding.EncodeToString([]byte("the secret before")),
	"GITHUB_SECRET": "It's a Secret to Everybody",
	"SENDER_SECRET": senderSecret,
	"BASIC_SECRET":  "user:" + senderSecret,
	"OTHER_BASIC":   "other:secret",
}

func resolve(ref spec.SecretRef) (string, error) {
	return ref.Resolve(func(name string) (string, bool) { v, ok := secrets[name]; return v, ok }, nil)
}

// world is a database and a JetStream with definitions applied.
type world struct {
	db   *pgtest.DB
	nats *bustest.Server
}

func setup(t *testing.T) *world {
	t.Helper()
	w := &world{db: pgtest.New(t), nats: bustest.NewServer(t)}
	w.apply(t, docs)
	return w
}

// apply stores documents as current versions, as the console does.
func (w *world) apply(t *testing.T, text string) { applyTo(t, w.db.Pool, text) }

func applyTo(t *testing.T, pool *pgxpool.Pool, text string) {
	t.Helper()
	parsed, err := spec.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range parsed {
		namespace := d.Namespace
		if namespace == "" {
			namespace = spec.DefaultNamespace
		}
		_, err := pool.Exec(t.Context(), `
			WITH version AS (
				INSERT INTO catalog.versions (namespace, kind, name, digest, body, created_by) VALUES ($1, $2, $3, $4, $5, 'test')
				ON CONFLICT DO NOTHING)
			INSERT INTO catalog.current (namespace, kind, name, digest, version, updated_by) VALUES ($1, $2, $3, $4, 1, 'test')
			ON CONFLICT (namespace, kind, name) DO UPDATE SET digest = $4, version = catalog.current.version + 1, updated_at = clock_timestamp()`,
			namespace, d.Kind, d.Name, string(d.Digest), []byte(d.Body))
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) remove(t *testing.T, kind, name string) {
	t.Helper()
	if _, err := w.db.Pool.Exec(t.Context(), `DELETE FROM catalog.current WHERE kind = $1 AND name = $2`, kind, name); err != nil {
		t.Fatal(err)
	}
}

// replica is one running trigger service with its door.
type replica struct {
	t    *testing.T
	svc  *trigger.Service
	door *door.Door
	url  string
	bus  *bus.Bus
	stop func()

	metrics *telemetry.Telemetry
	peer    *replica // takes every second request
	turn    atomic.Int64
}

// pair runs two replicas on the world's database and NATS. What is sent to the
// pair goes to one and the other in turn.
func (w *world) pair(t *testing.T) *replica {
	t.Helper()
	r := w.start(t)
	r.peer = w.start(t)
	one, two := r.stop, r.peer.stop
	r.stop = func() { one(); two() }
	return r
}

// address is where the next request goes.
func (r *replica) address() string {
	if r.peer != nil && r.turn.Add(1)%2 == 0 {
		return r.peer.url
	}
	return r.url
}

// start runs a replica until t ends or stop is called.
func (w *world) start(t *testing.T) *replica {
	t.Helper()
	return run(t, w.db.Open(t, role), w.nats.Connect(t))
}

func run(t *testing.T, pool *pgxpool.Pool, b *bus.Bus) *replica {
	t.Helper()
	tel := telemetry.Discard()
	metrics, err := trigger.NewMetrics(tel)
	if err != nil {
		t.Fatal(err)
	}
	store := postgres.New(pool).Measure(metrics)
	svc, err := trigger.New(trigger.Config{SyncEvery: 200 * time.Millisecond}, trigger.Parts{
		Store:       store,
		Definitions: newDefinitions(pool),
		Providers:   webhook.All(),
		Planner:     cron.Planner{},
		Relay:       store.Relay(b, bustest.Log(t)),
		Cancels:     store.CancelRelay(b.Publish, bustest.Log(t)),
		Signals:     store.SignalRelay(b.Publish, bustest.Log(t)),
		Inbox:       inbox.New(b),
		Tail:        b,
		Secrets:     resolve,
		Metrics:     metrics,
		Log:         bustest.Log(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	d := door.New(door.Config{Title: "trigger", Version: "test", Verifier: doortest.Verifier(), Log: bustest.Log(t)})
	httpapi.Register(d, svc)
	srv := httptest.NewServer(d.Handler())

	ctx, cancel := context.WithCancelCause(context.WithoutCancel(t.Context()))
	if err := svc.Start(ctx); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- svc.Run(ctx) }()
	r := &replica{t: t, svc: svc, door: d, url: srv.URL, bus: b, metrics: tel}
	r.stop = sync.OnceFunc(func() {
		srv.Close()
		grace, end := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
		defer end()
		if err := svc.Stop(grace); err != nil {
			t.Error(err)
		}
		cancel(lifecycle.ErrStopping)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

// answer is what a door said.
type answer struct {
	status int
	header http.Header
	body   []byte
	RunID  string `json:"run_id"`
	Status string `json:"status"`
	URL    string `json:"status_url"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
	Errors []struct {
		Field   string `json:"field"`
		Message string `json:"message"`
	} `json:"errors"`
}

// post sends a request; header is pairs of name and value.
func (r *replica) post(path, body string, header ...string) answer {
	r.t.Helper()
	return r.send(http.MethodPost, path, []byte(body), header...)
}

func (r *replica) send(method, path string, body []byte, header ...string) answer {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.address()+path, bytes.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Error(err)
		return answer{}
	}
	defer res.Body.Close()
	return readAnswer(r.t, res)
}

func readAnswer(t *testing.T, res *http.Response) answer {
	t.Helper()
	a := answer{status: res.StatusCode, header: res.Header}
	var err error
	if a.body, err = io.ReadAll(res.Body); err != nil {
		t.Error(err)
	}
	_ = json.Unmarshal(a.body, &a) // not every answer is an object
	return a
}

// api sends an authorized request of the given role in the namespace default.
func (r *replica) api(who authn.Role, method, path, body string, header ...string) answer {
	r.t.Helper()
	header = append(header, "Authorization", "Bearer "+doortest.Token(who))
	if body != "" {
		header = append(header, "Content-Type", "application/json")
	}
	return r.send(method, path, []byte(body), header...)
}

// signed are the headers of Standard Webhooks for a body.
func signed(id, body string, at time.Time) []string {
	seconds := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, hookKey)
	mac.Write([]byte(id + "." + seconds + "." + body))
	return []string{
		"Content-Type", "application/json", "Webhook-Id", id, "Webhook-Timestamp", seconds,
		"Webhook-Signature", "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)),
	}
}

// starts collects the start messages of RUNS, as a runner would take them.
type starts struct {
	mu   sync.Mutex
	msgs []events.Received
}

// collect consumes RUNS until t ends. land, when set, also records each start
// where the runner's view shows it.
func (w *world) collect(t *testing.T, land bool) *starts {
	t.Helper()
	s := &starts{}
	b := w.nats.Connect(t)
	c, err := b.Consume(t.Context(), bus.Consumption{
		Stream: events.StreamRuns, Durable: events.ConsumerRunner, Workers: 4,
		Handle: func(ctx context.Context, m events.Received) error {
			if land {
				if _, err := w.db.Pool.Exec(ctx, `
					INSERT INTO runner.journal (run_id, seq, kind, status, cause, inbound, worker, at, data)
					VALUES ($1, 1, 'run_started', 'queued', $2, true, 'test', clock_timestamp(), '{}')
					ON CONFLICT DO NOTHING`, m.About, m.ID); err != nil {
					return err
				}
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.msgs = append(s.msgs, m)
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop(context.WithoutCancel(t.Context())) })
	return s
}

func (s *starts) all() []events.Received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]events.Received(nil), s.msgs...)
}

// exactly waits for n start messages and then watches for a moment that no more
// arrive. It returns the bodies.
func (s *starts) exactly(t *testing.T, n int) []events.StartRun {
	t.Helper()
	until(t, fmt.Sprintf("%d start messages", n), func() bool { return len(s.all()) >= n })
	for end := time.Now().Add(1200 * time.Millisecond); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if got := len(s.all()); got > n {
			t.Fatalf("%d start messages, want %d", got, n)
		}
	}
	var bodies []events.StartRun
	for _, m := range s.all() {
		var body events.StartRun
		if err := events.Decode(m.Message, &body); err != nil {
			t.Fatal(err)
		}
		if m.ID != "start:"+string(body.RunID) || m.Subject != events.RunSubject(body.RunID, events.RunStart) {
			t.Errorf("start of run %s has id %s and subject %s", body.RunID, m.ID, m.Subject)
		}
		bodies = append(bodies, body)
	}
	return bodies
}

// until polls for a condition.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if done() {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("waited a minute for %s", what)
		}
	}
}

func (w *world) count(t *testing.T, from string) (n int) {
	t.Helper()
	if err := w.db.Pool.QueryRow(t.Context(), "SELECT count(*) FROM "+from).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// publish sends a plain message as another program would, without our envelope.
func (w *world) publish(t *testing.T, subject, body string, header ...string) {
	t.Helper()
	nc, err := nats.Connect(w.nats.URL().Reveal())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	m := &nats.Msg{Subject: subject, Data: []byte(body), Header: nats.Header{}}
	for i := 0; i < len(header); i += 2 {
		m.Header.Set(header[i], header[i+1])
	}
	if _, err := nc.RequestMsg(m, 5*time.Second); err != nil { // JetStream answers with a PubAck
		t.Fatal(err)
	}
}

// tokenOfOther is an operator of the namespace other.
var tokenOfOther = doortest.TokenIn("other", authn.Operator)

const operator = authn.Operator
