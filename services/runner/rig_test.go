package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/internal/bustest"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/runner"
	"github.com/holdfast-run/holdfast/services/runner/inbox"
	"github.com/holdfast-run/holdfast/services/runner/postgres"
)

const documents = `
apiVersion: holdfast/v1
kind: Model
metadata: {name: scripted}
spec: {provider: anthropic, model: scripted, apiKey: {env: KEY}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: look}
spec:
  description: looks
  effect: read
  input: {type: object, properties: {n: {type: integer}}}
  http: {method: GET, url: "http://127.0.0.1/look"}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: change}
spec:
  description: changes
  effect: write
  approval: always
  input: {type: object, properties: {n: {type: integer}}, additionalProperties: false}
  http: {method: POST, url: "http://127.0.0.1/change", body: "${args}"}
---
apiVersion: holdfast/v1
kind: Budget
metadata: {name: night}
spec: {limit: 4000, alertAt: [50, 100]}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: clerk}
spec: {model: scripted, instructions: work, tools: [look, change], budget: {toolCalls: 12}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: saver}
spec: {model: scripted, instructions: work, maxTokens: 100, budget: {pools: [night]}}
---
apiVersion: holdfast/v1
kind: Flow
metadata: {name: round}
spec:
  steps:
    - {name: each, agent: clerk, forEach: "${input.items}", limit: 3, onFailure: continue}
    - {name: sum, agent: clerk, needs: [each], input: {seen: "${steps.each.outputs}"}}
`

// definitions is the catalog of a test: every version ever applied, by digest.
type definitions struct {
	mu      sync.Mutex
	byHash  map[events.Digest]spec.Document
	current map[string]events.Digest
}

func newDefinitions(t *testing.T, text string) *definitions {
	t.Helper()
	d := &definitions{byHash: map[events.Digest]spec.Document{}, current: map[string]events.Digest{}}
	d.apply(t, text)
	return d
}

func (d *definitions) apply(t *testing.T, text string) {
	t.Helper()
	docs, err := spec.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, doc := range docs {
		d.byHash[doc.Digest] = doc
		d.current[doc.Kind+"/"+doc.Name] = doc.Digest
	}
}

func (d *definitions) get(digest events.Digest) (spec.Document, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	doc, ok := d.byHash[digest]
	if !ok {
		return doc, fmt.Errorf("%s: %w", digest, runner.ErrDefinition)
	}
	return doc, nil
}

func (d *definitions) Agent(_ context.Context, _ string, h events.Digest) (*spec.Agent, error) {
	doc, err := d.get(h)
	return doc.Agent, err
}
func (d *definitions) Flow(_ context.Context, _ string, h events.Digest) (*spec.Flow, error) {
	doc, err := d.get(h)
	return doc.Flow, err
}
func (d *definitions) Tool(_ context.Context, _ string, h events.Digest) (*spec.Tool, error) {
	doc, err := d.get(h)
	return doc.Tool, err
}
func (d *definitions) Model(_ context.Context, _ string, h events.Digest) (*spec.Model, error) {
	doc, err := d.get(h)
	return doc.Model, err
}
func (d *definitions) Budget(_ context.Context, _ string, h events.Digest) (*spec.Budget, error) {
	doc, err := d.get(h)
	return doc.Budget, err
}

func (d *definitions) CurrentDigest(_ context.Context, _, kind, name string) (events.Digest, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	digest, ok := d.current[kind+"/"+name]
	if !ok {
		return "", fmt.Errorf("%s %s: %w", kind, name, runner.ErrDefinition)
	}
	return digest, nil
}

func (d *definitions) CurrentDigests(_ context.Context, _ string, names []events.Ref) ([]events.Digest, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]events.Digest, 0, len(names))
	for _, n := range names {
		out = append(out, d.current[n.Kind+"/"+n.Name])
	}
	return out, nil
}

// script is a model of the test: it answers by the conversation and counts.
type script struct {
	answer func(ctx context.Context, r runner.Request, n int) (runner.Answer, error)
	mu     sync.Mutex
	calls  map[events.RunID]int
}

func (s *script) Answer(ctx context.Context, r runner.Request) (runner.Answer, error) {
	s.mu.Lock()
	if s.calls == nil {
		s.calls = map[events.RunID]int{}
	}
	s.calls[r.RunID]++
	n := s.calls[r.RunID]
	s.mu.Unlock()
	return s.answer(ctx, r, n)
}

func (s *script) count(id events.RunID) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[id]
}

// said is an answer without calls; asks is one with calls.
func said(text string) runner.Answer {
	return runner.Answer{Model: "scripted", StopReason: "end_turn", Text: text, Usage: events.Usage{InputTokens: 10, OutputTokens: 5},
		Raw: fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, text)}
}

func asks(calls ...runner.ModelCall) runner.Answer {
	for i := range calls {
		if calls[i].ProviderID == "" {
			calls[i].ProviderID = fmt.Sprintf("toolu_%d", i)
		}
		if calls[i].Args == nil {
			calls[i].Args = json.RawMessage(`{}`)
		}
	}
	return runner.Answer{Model: "scripted", StopReason: "tool_use", Calls: calls, Usage: events.Usage{InputTokens: 10, OutputTokens: 5}, Raw: `{"content":[]}`}
}

// rig is the runner's world: real Postgres, real JetStream, and a test that
// plays the other services.
type rig struct {
	t    *testing.T
	db   *pgtest.DB
	nats *bustest.Server
	link func(testing.TB) *bus.Bus
	bus  *bus.Bus
	defs *definitions
	sql  *pgxpool.Pool
	// metrics are those of all workers.
	metrics *telemetry.Telemetry
	// reader is what form of journals the workers that start next understand; zero
	// means this release's.
	reader int
	// log is where the workers that start next write; nil means the test's output.
	log *slog.Logger
	// cached is how many runs they keep in memory; zero means as many as usual.
	cached int
	// unread says that the test leaves journals behind that cannot be read.
	unread bool
	// wrap stands between the workers that start next and their store; nil for none.
	wrap func(runner.Store) runner.Store
	// sends stands between the workers that start next and NATS; nil for none.
	sends func(runner.Publisher) runner.Publisher
}

func newRig(t *testing.T) *rig {
	t.Helper()
	t.Parallel()
	nats := bustest.NewServer(t)
	db := pgtest.New(t)
	r := &rig{t: t, db: db, nats: nats, link: nats.Connect, bus: nats.Connect(t), defs: newDefinitions(t, documents), sql: db.Pool, metrics: telemetry.Discard()}
	t.Cleanup(r.checkJournals)
	return r
}

// worker is one runner process, except that it shares the test's.
type worker struct {
	*runner.Service
	name     string
	beat     *pg.Beat
	stopBeat context.CancelFunc
	frozen   bool
	inbox    *inbox.Inbox
	mu       sync.Mutex
}

type option func(*runner.Config)

func (r *rig) worker(m runner.Model, opts ...option) *worker {
	r.t.Helper()
	cfg := runner.Config{ModelSlots: 16, MaxAttempts: 5, DoctorEvery: time.Hour}
	for _, o := range opts {
		o(&cfg)
	}
	w := &worker{name: pg.WorkerName("runner")}
	pgConfig := pg.Config{URL: r.db.URL, Role: "holdfast_runner"}
	log := r.log
	if log == nil {
		log = bustest.Log(r.t)
	}
	w.beat = pg.NewBeat(pgConfig, "runner", w.name, log)
	if err := w.beat.Start(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	w.stopBeat = cancel
	var background sync.WaitGroup
	background.Go(func() { _ = w.beat.Run(ctx) })
	link := r.link(r.t)
	store := postgres.New(r.db.Open(r.t, "holdfast_runner"))
	if r.reader > 0 {
		store.ReadAs(r.reader)
	}
	var runs runner.Store = store
	if r.wrap != nil {
		runs = r.wrap(store)
	}
	metrics, err := runner.NewMetrics(r.metrics)
	if err != nil {
		r.t.Fatal(err)
	}
	var out runner.Publisher = link
	if r.sends != nil {
		out = r.sends(link)
	}
	w.Service = runner.New(cfg, runner.Deps{Worker: w.name, Store: runs, Bus: out, Heart: w.beat, Defs: r.defs, Model: m, Live: link, Log: log, CachedRuns: r.cached, Metrics: metrics})
	background.Go(func() { _ = w.Run(ctx) })
	w.inbox = inbox.New(link, w.Service, cfg, store, w.holding)
	if err := w.inbox.Start(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		cancel()
		background.Wait()
		stop, done := context.WithTimeout(context.WithoutCancel(ctx), 100*time.Millisecond)
		defer done()
		_ = w.inbox.Stop(stop) // handlers that never end are cut
	})
	return w
}

func (w *worker) holding() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.frozen && w.beat.Holding()
}

// mute sends no InProgress any more: the worker lives, its messages come back.
func (w *worker) mute() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frozen = true
}

// freeze makes the others see a dead process: no heartbeat, no InProgress.
func (w *worker) freeze() {
	w.mute()
	w.stopBeat()
}

// start publishes a start, as a trigger would, and returns the run's id.
func (r *rig) start(kind, name, input string) events.RunID {
	r.t.Helper()
	id := events.NewRunID()
	r.startAs(id, kind, name, input)
	return id
}

func (r *rig) startAs(id events.RunID, kind, name, input string) {
	r.t.Helper()
	digest, err := r.defs.CurrentDigest(r.t.Context(), "", kind, name)
	if err != nil {
		r.t.Fatal(err)
	}
	r.publish(events.RunSubject(id, events.RunStart), "start:"+string(id), events.TypeStartRun, events.StartRun{
		RunID: id, Namespace: "default", Ref: events.Ref{Kind: kind, Name: name, Digest: digest}, Input: json.RawMessage(input),
		Trigger: events.Trigger{Kind: "api"}, Principal: "tester", AcceptedAt: time.Now().UTC(),
	})
}

func (r *rig) publish(subject, id, typ string, body any, nudge ...string) {
	r.t.Helper()
	data, err := events.Marshal(body)
	if err != nil {
		r.t.Fatal(err)
	}
	m := events.Message{Subject: subject, MsgID: id, ID: id, Source: "/test", Type: typ, Namespace: "default", Time: time.Now().UTC(), Data: data}
	for _, n := range nudge {
		m.MsgID += n
	}
	// A service that the test plays may be at it when the test is over, and tries again
	// while a cluster has no leader.
	for deadline := time.Now().Add(60 * time.Second); r.t.Context().Err() == nil; {
		err := r.bus.Publish(r.t.Context(), m)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			r.t.Error(err)
			return
		}
	}
}

func (r *rig) command(id events.RunID, what string, c events.Command) {
	r.t.Helper()
	if c.ID == "" {
		c.ID = fmt.Sprintf("%s-%s", what, id)
	}
	c.RunID, c.Principal = id, "op"
	r.publish(events.RunSubject(id, what), "command:"+c.ID, events.TypeCommandRun, c)
}

// receive consumes another service's stream and keeps what arrives.
func receive[T any](r *rig, stream, durable string, react func(T)) *box[T] {
	r.t.Helper()
	b := &box[T]{}
	k, err := r.link(r.t).Consume(r.t.Context(), bus.Consumption{Stream: stream, Durable: durable, Workers: 8, Handle: func(_ context.Context, m events.Received) error {
		var body T
		if err := events.Decode(m.Message, &body); err != nil {
			return err
		}
		b.add(body)
		if react != nil {
			react(body)
		}
		return nil
	}})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = k.Stop(context.WithoutCancel(r.t.Context())) })
	return b
}

type box[T any] struct {
	mu  sync.Mutex
	got []T
}

func (b *box[T]) add(v T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got = append(b.got, v)
}

func (b *box[T]) all() []T {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]T(nil), b.got...)
}

// tools plays the tools service: every call succeeds with result.
func (r *rig) tools(result string) *box[events.CallTool] {
	return receive(r, events.StreamTools, events.ToolConsumer("default"), func(c events.CallTool) {
		if result != "" {
			r.finish(c, events.CallSucceeded, result)
		}
	})
}

func (r *rig) finish(c events.CallTool, status, result string) {
	done := events.ToolCompleted{CallID: c.CallID, RunID: c.RunID, Tool: c.Tool, Status: status, Key: c.Key, Epoch: 1}
	if result != "" {
		done.Result = json.RawMessage(result)
	}
	if status == events.CallUnknown {
		done.InDoubt = "ask"
	}
	r.publish(events.RunSubject(c.RunID, events.RunToolCompleted), fmt.Sprintf("tool:%s:%s:1", c.CallID, status), events.TypeToolCompleted, done)
}

// approvals plays the approvals service; each request gets decision, or waits
// when decision is empty.
func (r *rig) approvals(decision string) *box[events.AskApproval] {
	return receive(r, events.StreamApprovals, events.ConsumerApprovals, func(a events.AskApproval) {
		if decision != "" && a.Kind != "" {
			r.decide(a, decision)
		}
	})
}

func (r *rig) decide(a events.AskApproval, decision string) {
	now := time.Now().UTC()
	r.publish(events.RunSubject(a.RunID, events.RunApprovalDecided), "decision:"+string(a.ApprovalID), events.TypeApprovalDecided, events.ApprovalDecision{
		ApprovalID: a.ApprovalID, Kind: a.Kind, RunID: a.RunID, CallID: a.CallID, Decision: decision, Digest: a.Digest, By: "maria", DecidedAt: now, ValidUntil: now.Add(time.Hour),
	})
}

func (r *rig) status(id events.RunID) string {
	var s string
	if err := r.sql.QueryRow(r.t.Context(), `SELECT status FROM runner.v_runs WHERE run_id = $1`, string(id)).Scan(&s); err != nil {
		return "no row"
	}
	return s
}

// reaches waits until the run has the status.
func (r *rig) reaches(id events.RunID, want string) {
	r.t.Helper()
	r.eventually("run "+string(id)+" is "+want, func() bool { return r.status(id) == want }, func() string { return r.status(id) + "\n" + r.journalText(id) })
}

func (r *rig) eventually(what string, ok func() bool, now func() string) {
	r.t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			r.t.Fatalf("never: %s; now: %s", what, now())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

type row struct {
	Seq    int64
	Kind   string
	Status string
	Cause  string
	Worker string
	Data   json.RawMessage
}

func (r *rig) journal(id events.RunID) []row {
	r.t.Helper()
	rows, err := r.sql.Query(r.t.Context(), `SELECT seq, kind, status, cause, worker, data FROM runner.v_events WHERE run_id = $1 ORDER BY seq`, string(id))
	if err != nil {
		r.t.Fatal(err)
	}
	defer rows.Close()
	var out []row
	for rows.Next() {
		var x row
		if err := rows.Scan(&x.Seq, &x.Kind, &x.Status, &x.Cause, &x.Worker, &x.Data); err != nil {
			r.t.Fatal(err)
		}
		out = append(out, x)
	}
	return out
}

func (r *rig) kinds(id events.RunID) []string {
	var out []string
	for _, x := range r.journal(id) {
		out = append(out, x.Kind)
	}
	return out
}

func (r *rig) journalText(id events.RunID) string {
	s := ""
	for _, x := range r.journal(id) {
		s += fmt.Sprintf("%d %s %s cause=%s worker=%s %.300s\n", x.Seq, x.Kind, x.Status, x.Cause, x.Worker, x.Data)
	}
	return s
}

// eventSeqs reads the numbers of the run's events from the EVENTS stream.
func (r *rig) eventSeqs(ids ...events.RunID) map[events.RunID]map[int64]int {
	r.t.Helper()
	out := map[events.RunID]map[int64]int{}
	for _, id := range ids {
		out[id] = map[int64]int{}
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	var mu sync.Mutex
	_, _, last, err := r.bus.EventsState(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.bus.TailEvents(ctx, 1, func(m events.Received) {
			var e events.RunEvent
			if events.Decode(m.Message, &e) == nil && m.Type == events.TypeRunEvent {
				mu.Lock()
				if seqs := out[e.RunID]; seqs != nil {
					seqs[e.Seq]++
				}
				mu.Unlock()
			}
			if m.StreamSeq >= last {
				cancel()
			}
		})
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		r.t.Error("the events stream was not read to its end")
	}
	mu.Lock()
	defer mu.Unlock()
	return out
}
