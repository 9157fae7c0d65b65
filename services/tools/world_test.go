package tools_test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/internal/bustest"
	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/tools"
	"github.com/holdfast-run/holdfast/services/tools/inbox"
	"github.com/holdfast-run/holdfast/services/tools/kind"
	"github.com/holdfast-run/holdfast/services/tools/postgres"
)

// The test binary is also the tools process that tests kill.
const (
	envWorker  = "TOOLS_TEST_WORKER"
	envDB      = "TOOLS_TEST_DB"
	envNATS    = "TOOLS_TEST_NATS"
	envOutside = "HOLDFAST_TOOL_OUTSIDE"
	envToken   = "HOLDFAST_SECRET_CANARY"
	canary     = "canary-7f3a9c51e2d84b60"
)

func TestMain(m *testing.M) {
	if os.Getenv(envWorker) == "" {
		flag.Parse()
		// Most of a test is waiting for beats, leases and redeliveries.
		if n := flag.Lookup("test.parallel"); n.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
			_ = flag.Set("test.parallel", strconv.Itoa(max(6, runtime.GOMAXPROCS(0))))
		}
		os.Exit(m.Run())
	}
	if err := workerProcess(); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

// workerProcess runs the service until its standard input closes.
func workerProcess() error {
	ctx := context.Background()
	b, err := bus.Connect(ctx, bus.Config{URL: config.Secret(os.Getenv(envNATS)), Name: "worker"})
	if err != nil {
		return err
	}
	p, err := startService(ctx, config.Secret(os.Getenv(envDB)), b, slog.New(slog.DiscardHandler), kinds(os.LookupEnv))
	if err != nil {
		return err
	}
	fmt.Println("ready", p.name)
	_, _ = io.Copy(io.Discard, os.Stdin)
	return p.stop()
}

const toolYAML = `
apiVersion: holdfast/v1
kind: Tool
metadata: {name: pay}
spec:
  description: pays, at a place that knows no keys
  input: {type: object}
  effect: write
  timeout: 2s
  http: {method: POST, url: "${env.HOLDFAST_TOOL_OUTSIDE}/plain"}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: pay_slow}
spec:
  description: pays, and takes its time
  input: {type: object}
  effect: write
  timeout: 60s
  http: {method: POST, url: "${env.HOLDFAST_TOOL_OUTSIDE}/plain"}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: pay_silent}
spec:
  description: pays, and nobody is asked
  input: {type: object}
  effect: write
  inDoubt: fail
  http: {method: POST, url: "${env.HOLDFAST_TOOL_OUTSIDE}/plain"}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: pay_key}
spec:
  description: pays, at a place that honours keys
  input: {type: object}
  effect: write
  inDoubt: retry
  timeout: 2s
  http: {method: POST, url: "${env.HOLDFAST_TOOL_OUTSIDE}/honour"}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: refund}
spec:
  description: refunds a charge once
  input: {type: object}
  effect: write
  key: "refund/${args.charge}"
  http: {method: POST, url: "${env.HOLDFAST_TOOL_OUTSIDE}/plain"}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: gated}
spec:
  description: needs a yes
  input: {type: object}
  effect: write
  approval: always
  http: {method: POST, url: "${env.HOLDFAST_TOOL_OUTSIDE}/plain"}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: look}
spec:
  description: reads
  input: {type: object}
  effect: read
  timeout: 2s
  http: {url: "${env.HOLDFAST_TOOL_OUTSIDE}/look/${args.what}"}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: secretive}
spec:
  description: sends a secret and has it echoed
  input: {type: object}
  effect: write
  inDoubt: retry
  http:
    method: POST
    url: "${env.HOLDFAST_TOOL_OUTSIDE}/echo"
    headers: {Authorization: "Bearer ${secret.token}"}
    secrets: {token: {env: HOLDFAST_SECRET_CANARY}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: gone}
spec:
  description: nobody listens there
  input: {type: object}
  effect: write
  http: {method: POST, url: "http://127.0.0.1:1/"}
`

// definitions is what the catalog would hold.
type definitions struct {
	byDigest map[events.Digest]*spec.Tool
	byName   map[string]events.Digest
}

var _ tools.Definitions = definitions{}

func (d definitions) Tool(_ context.Context, _ string, digest events.Digest) (*spec.Tool, error) {
	if t, ok := d.byDigest[digest]; ok {
		return t, nil
	}
	return nil, tools.ErrNoDefinition
}

var defs = sync.OnceValue(func() definitions {
	docs, err := spec.Parse("tools.yaml", []byte(toolYAML))
	if err != nil {
		panic(err)
	}
	d := definitions{map[events.Digest]*spec.Tool{}, map[string]events.Digest{}}
	for _, doc := range docs {
		d.byDigest[doc.Digest], d.byName[doc.Name] = doc.Tool, doc.Digest
	}
	return d
})

func kinds(lookup func(string) (string, bool)) []tools.Kind {
	allow, err := egress.ParseAllow([]string{"127.0.0.0/8"})
	if err != nil {
		panic(err)
	}
	return kind.All(kind.Config{Egress: egress.New(egress.Config{Allow: allow}), LookupEnv: lookup, ReadFile: os.ReadFile})
}

// process is one tools process, real or played inside the test.
type process struct {
	name    string
	service *tools.Service
	beat    *pg.Beat
	store   *postgres.Store
	stop    func() error
}

// startService starts what cmd would. heart, when given, stands between the
// service and its heartbeat.
func startService(ctx context.Context, url config.Secret, b *bus.Bus, log *slog.Logger, kinds []tools.Kind, heart ...func(tools.Heart) tools.Heart) (*process, error) {
	pool, err := pg.Open(ctx, pg.Config{URL: url, Role: "holdfast_tools", MaxConns: 8})
	if err != nil {
		return nil, err
	}
	p := &process{name: pg.WorkerName("tools"), store: postgres.New(pool)}
	p.beat = pg.NewBeat(pg.Config{URL: url, Role: "holdfast_tools"}, "tools", p.name, log)
	if err := p.beat.Start(ctx); err != nil {
		return nil, err
	}
	relay := p.store.NewRelay(b.Publish)
	beating := tools.Heart(p.beat)
	for _, f := range heart {
		beating = f(beating)
	}
	p.service, err = tools.New(tools.Config{Worker: p.name, Slots: 16, SweepEvery: 200 * time.Millisecond}, tools.Deps{
		Store: p.store, Controls: p.store, Reader: p.store, Tools: defs(), Kinds: kinds, Bus: b, Heart: beating,
		Consume: inbox.Consume(b, p.beat.Holding), Kick: relay.Kick, Log: log,
	})
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(ctx)
	var loops sync.WaitGroup
	for _, run := range []func(context.Context) error{p.beat.Run, relay.Run, p.service.Run} {
		loops.Go(func() { _ = run(running) })
	}
	if err := p.service.Start(ctx); err != nil {
		cancel()
		return nil, err
	}
	var once sync.Once
	p.stop = func() error {
		var err error
		once.Do(func() {
			stopping, done := context.WithTimeout(context.Background(), 5*time.Second)
			defer done()
			err = p.service.Stop(stopping)
			cancel()
			if serr := p.beat.Stop(stopping); err == nil {
				err = serr
			}
		})
		cancel()
		loops.Wait()
		pool.Close()
		return err
	}
	return p, nil
}

// world is one test's Postgres, JetStream, outside world and runs.
type world struct {
	t       *testing.T
	db      *pgtest.DB
	nats    *bustest.Server
	bus     *bus.Bus
	outside *outside

	mu      sync.Mutex
	answers []events.ToolCompleted
	ids     map[string]int // ce-id → how often it was delivered
	minted  int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOn(t, pgtest.New(t))
}

func newWorldOn(t *testing.T, db *pgtest.DB) *world {
	t.Helper()
	w := &world{t: t, db: db, nats: bustest.NewServer(t), outside: newOutside(t), ids: map[string]int{}}
	w.bus = w.nats.Connect(t)
	_, err := w.bus.Consume(t.Context(), bus.Consumption{
		Stream: events.StreamRuns, Durable: events.ConsumerRunner, Workers: 8,
		Handle: func(_ context.Context, m events.Received) error {
			var c events.ToolCompleted
			if err := events.Decode(m.Message, &c); err != nil {
				return err
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.answers = append(w.answers, c)
			w.ids[m.ID]++
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) lookup(name string) (string, bool) {
	switch name {
	case envOutside:
		return w.outside.URL, true
	case envToken:
		return canary, true
	}
	return "", false
}

// start plays a tools process inside the test.
func (w *world) start(wrap ...func(tools.Kind) tools.Kind) *process {
	w.t.Helper()
	ks := kinds(w.lookup)
	for i := range ks {
		for _, f := range wrap {
			ks[i] = f(ks[i])
		}
	}
	return w.startWith(ks)
}

func (w *world) startWith(ks []tools.Kind, heart ...func(tools.Heart) tools.Heart) *process {
	w.t.Helper()
	p, err := startService(w.t.Context(), w.db.URL, w.nats.Connect(w.t), bustest.Log(w.t), ks, heart...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := p.stop(); err != nil {
			w.t.Error(err)
		}
	})
	return p
}

// forked is a real tools process.
type forked struct {
	*os.Process
	dead <-chan struct{} // closed when it has ended
}

// fork starts a real tools process that dies at the failpoints.
func (w *world) fork(failpoints string) forked {
	w.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envWorker+"=1", envDB+"="+w.db.URL.Reveal(), envNATS+"="+w.nats.URL().Reveal(),
		envOutside+"="+w.outside.URL, envToken+"="+canary, "HOLDFAST_FAILPOINTS="+failpoints)
	in, err := cmd.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "ready ") {
		w.t.Fatalf("worker said %q: %v", line, err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	w.t.Cleanup(func() {
		_ = in.Close()
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
	})
	return forked{cmd.Process, ended}
}

// killed sends c to a real process that dies at the failpoint, then starts a
// survivor and lets the message come back.
func (w *world) killed(c events.CallTool, point string) {
	w.t.Helper()
	p := w.fork(fmt.Sprintf("%s[%s]=kill", point, c.CallID))
	w.send(c, "")
	select {
	case <-p.dead:
	case <-time.After(20 * time.Second):
		w.t.Fatalf("the worker did not die at %s\n%s", point, w.rows())
	}
	w.start()
}

// call makes a call of a new run; index tells calls of one run apart.
func (w *world) call(tool, args string) events.CallTool {
	w.mu.Lock()
	w.minted++
	n := w.minted
	w.mu.Unlock()
	return callOf(w.t, events.NewRunID(), n, tool, args)
}

func callOf(t testing.TB, run events.RunID, seq int, tool, args string) events.CallTool {
	t.Helper()
	canonical, err := events.Canonical([]byte(args))
	if err != nil {
		t.Fatal(err)
	}
	digest, ok := defs().byName[tool]
	if !ok {
		t.Fatalf("no tool %s", tool)
	}
	id := events.NewCallID(run, int64(seq), 0)
	return events.CallTool{
		CallID: id, RunID: run, Namespace: "default", Tool: tool, ToolDigest: digest,
		Args: canonical, ArgsDigest: events.DigestOf(canonical), Key: fmt.Sprintf("%s/%d/0/%s", run, seq, tool),
	}
}

// send publishes a call. A suffix makes its message id fresh, as a nudge's.
func (w *world) send(c events.CallTool, suffix string) {
	w.t.Helper()
	body, err := events.Marshal(c)
	if err != nil {
		w.t.Fatal(err)
	}
	id := "call:" + string(c.CallID)
	w.publish(events.Message{Subject: events.ToolSubject("default", c.CallID), MsgID: id + suffix, ID: id, Source: "/test",
		Type: events.TypeCallTool, Namespace: c.Namespace, Data: body})
}

func (w *world) control(id string, c events.ControlTool) {
	w.t.Helper()
	body, err := events.Marshal(c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.publish(events.Message{Subject: events.ToolControlSubject(c.CallID), MsgID: id, ID: id, Source: "/test",
		Type: events.TypeControlTool, Namespace: "default", Data: body})
}

func (w *world) publish(m events.Message) {
	w.t.Helper()
	if err := w.bus.Publish(w.t.Context(), m); err != nil {
		w.t.Fatal(err)
	}
}

// answersOf lists what the run of a call has heard about it.
func (w *world) answersOf(id events.CallID) []events.ToolCompleted {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []events.ToolCompleted
	for _, a := range w.answers {
		if a.CallID == id {
			out = append(out, a)
		}
	}
	return out
}

// answer waits until the call's last answer has the status.
func (w *world) answer(id events.CallID, status string) events.ToolCompleted {
	w.t.Helper()
	var last events.ToolCompleted
	w.until(fmt.Sprintf("call %s is %s", id, status), func() bool {
		all := w.answersOf(id)
		if len(all) == 0 {
			return false
		}
		last = all[len(all)-1]
		return last.Status == status
	})
	return last
}

func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("waited 30 s: %s; answers %+v; arrivals %d\n%s", what, w.answers, w.outside.arrivals.Load(), w.rows())
		}
	}
}

// idle waits until no message of the pools is left.
func (w *world) idle() {
	w.t.Helper()
	w.until("the tool streams are empty", func() bool {
		for _, durable := range []string{events.ToolConsumer("default"), events.ConsumerToolCtl} {
			lag, err := w.bus.Lag(w.t.Context(), events.StreamTools, durable)
			if err != nil || lag.Pending+lag.AckPending > 0 {
				return false
			}
		}
		return true
	})
}

// rows prints the ledger for a failed test.
func (w *world) rows() string {
	var out string
	err := w.db.Pool.QueryRow(context.Background(), `
SELECT coalesce((SELECT string_agg(format('call %s %s %s acting %s', tool, call_id, status, acting), E'\n') FROM tools.calls), '') || E'\n' ||
       coalesce((SELECT string_agg(format('effect %s %s epoch %s worker %s attempt %s next %s', tool, state, epoch, worker, attempt_id, next_attempt_at), E'\n') FROM tools.effects), '') || E'\n' ||
       coalesce((SELECT string_agg(format('worker %s beat %s fresh %s', name, clock_timestamp() - beat, clock_timestamp() - fresh_since), E'\n') FROM tools.workers WHERE beat > '-infinity'), '')`).Scan(&out)
	if err != nil {
		return err.Error()
	}
	return out
}

func (w *world) count(query string, args ...any) int {
	w.t.Helper()
	var n int
	if err := w.db.Pool.QueryRow(w.t.Context(), query, args...).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (w *world) effect(c events.CallTool) (state string, epoch int64) {
	w.t.Helper()
	err := w.db.Pool.QueryRow(w.t.Context(), `SELECT state, epoch FROM tools.v_effects e WHERE e.effect_id = (SELECT effect_id FROM tools.calls WHERE call_id = $1)`,
		string(c.CallID)).Scan(&state, &epoch)
	if err != nil {
		w.t.Fatal(err)
	}
	return state, epoch
}

func (w *world) wantEffects(c events.CallTool, want int) {
	w.t.Helper()
	if got := w.outside.effects(c); got != want {
		w.t.Errorf("%s %s: %d effects outside, want %d", c.Tool, c.Args, got, want)
	}
}

// outside is the other side: it counts what it did, by arguments.
type outside struct {
	*httptest.Server
	arrivals atomic.Int64

	mu    sync.Mutex
	done  map[string]int             // path and body → effects
	known map[string]json.RawMessage // Idempotency-Key → answer
	keys  map[string]map[string]bool // body → keys that came with it
	seen  map[string]int             // body → arrivals
	gate  map[string]chan struct{}   // body → answers wait for it
}

func newOutside(t *testing.T) *outside {
	o := &outside{done: map[string]int{}, known: map[string]json.RawMessage{}, keys: map[string]map[string]bool{}, seen: map[string]int{}, gate: map[string]chan struct{}{}}
	o.Server = httptest.NewServer(o)
	t.Cleanup(func() {
		o.mu.Lock()
		for _, g := range o.gate {
			select {
			case <-g:
			default:
				close(g)
			}
		}
		o.mu.Unlock()
		o.Server.Close()
	})
	return o
}

// hold makes requests with these arguments wait, after their effect, until the
// returned function is called.
func (o *outside) hold(c events.CallTool) (release func()) {
	g := make(chan struct{})
	o.mu.Lock()
	o.gate[string(c.Args)] = g
	o.mu.Unlock()
	return sync.OnceFunc(func() { close(g) })
}

// ServeHTTP acts and answers. args.mode chooses how: "" answers, "422" refuses,
// "500" acts and says so, "flaky" is 503 twice without acting, "429" once.
func (o *outside) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	o.arrivals.Add(1)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if strings.HasPrefix(r.URL.Path, "/look/") {
		body = []byte(r.URL.Path)
	}
	var args struct{ Mode string }
	_ = json.Unmarshal(body, &args)
	key := r.Header.Get("Idempotency-Key")

	o.mu.Lock()
	o.seen[string(body)]++
	seen, gate := o.seen[string(body)], o.gate[string(body)]
	if o.keys[string(body)] == nil {
		o.keys[string(body)] = map[string]bool{}
	}
	o.keys[string(body)][key] = true
	answer, repeat := o.known[key]
	repeat = repeat && r.URL.Path == "/honour"
	acts := !repeat && args.Mode != "422" && !(args.Mode == "flaky" && seen <= 2) && !(args.Mode == "429" && seen == 1)
	if acts {
		o.done[string(body)]++
		answer = fmt.Appendf(nil, `{"receipt":"r-%d","amount":9007199254740993}`, o.arrivals.Load())
		if r.URL.Path == "/echo" {
			answer = fmt.Appendf(nil, `{"you_sent":%q}`, r.Header.Get("Authorization"))
		}
		o.known[key] = answer
	}
	o.mu.Unlock()
	if gate != nil {
		<-gate
	}
	switch {
	case args.Mode == "422":
		http.Error(rw, `{"error":"no such charge"}`, http.StatusUnprocessableEntity)
	case args.Mode == "500" && !repeat:
		http.Error(rw, "sorry "+r.Header.Get("Authorization"), http.StatusInternalServerError)
	case args.Mode == "429" && seen == 1:
		rw.Header().Set("Retry-After", "1")
		rw.WriteHeader(http.StatusTooManyRequests)
	case !acts && !repeat:
		rw.WriteHeader(http.StatusServiceUnavailable)
	default:
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write(answer)
	}
}

func (o *outside) body(c events.CallTool) string {
	if c.Tool == "look" {
		var args struct{ What string }
		_ = json.Unmarshal(c.Args, &args)
		return "/look/" + args.What
	}
	return string(c.Args)
}

func (o *outside) effects(c events.CallTool) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.done[o.body(c)]
}

func (o *outside) requests(c events.CallTool) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seen[o.body(c)]
}

func (o *outside) keysOf(c events.CallTool) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []string
	for k := range o.keys[o.body(c)] {
		out = append(out, k)
	}
	return out
}
