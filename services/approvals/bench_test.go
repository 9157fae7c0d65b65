package approvals_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/internal/bustest"
	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
	"github.com/holdfast-run/holdfast/services/approvals/httpapi"
	"github.com/holdfast-run/holdfast/services/approvals/postgres"
)

// bench is one approvals process with its door, on a database and a JetStream
// that stand for the rest of the world.
type bench struct {
	t       testing.TB
	admin   *pgxpool.Pool // superuser
	bus     *bus.Bus
	service *approvals.Service
	relay   *postgres.Announcer
	notices *approvals.Notifier
	book    *book // of channels
	url     string
	runner  *runner
	metrics *telemetry.Telemetry
}

// setup starts everything.
func setup(t testing.TB) *bench {
	t.Helper()
	db := pgtest.New(t)
	b := build(t, db.URL, bustest.New(t))
	b.admin = db.Pool
	b.start()
	b.listen()
	return b
}

// build makes a process that does nothing by itself yet.
func build(t testing.TB, database config.Secret, bus *bus.Bus) *bench {
	t.Helper()
	pool, err := pg.Open(t.Context(), pg.Config{URL: database, Role: "holdfast_approvals", AppName: "approvals-test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return buildOn(t, pool, bus)
}

// buildOn makes it over a pool.
func buildOn(t testing.TB, pool *pgxpool.Pool, bus *bus.Bus) *bench {
	t.Helper()
	store := postgres.New(pool)
	b := &bench{t: t, bus: bus, relay: store.NewAnnouncer(bus.Publish), metrics: telemetry.Discard()}
	counts, err := approvals.NewMetrics(b.metrics)
	if err != nil {
		t.Fatal(err)
	}
	b.relay.Log = bustest.Log(t)
	b.book = &book{}
	b.notices = approvals.NewNotifier(approvals.NotifierDeps{Notices: store, Digests: store, Channels: channels(b.book), Definition: b.book.channel, Links: store, Requests: store, PublicURL: func() string { return b.url }, Log: bustest.Log(t), Metrics: counts})
	b.service = approvals.New(approvals.Config{ProposeAfter: 3}, approvals.Deps{
		Inbox: store, Decider: store, Reader: store, Groups: store, Audit: store, Grants: store, Announce: b.relay, Notifier: b.notices, Resends: store, Links: store,
		Channels:  approvals.Channels{Definition: b.book.channel, Clicks: clicks(b.book)},
		PublicURL: func() string { return b.url },
		Tools:     refundTool, Log: bustest.Log(t), Metrics: counts,
	})
	d := door.New(door.Config{Title: "approvals", Version: "test", Log: bustest.Log(t), Verifier: authn.Static{
		"ann": {Name: "ann", Namespace: "default", Role: authn.Approver},
		"ben": {Name: "ben", Namespace: "default", Role: authn.Approver},
		"fin": {Name: "fin", Namespace: "default", Role: authn.Approver, Groups: []string{"finance"}},
		"max": {Name: "max", Namespace: "default", Role: authn.Approver, Groups: []string{"finance", "leads"}},
		"vic": {Name: "vic", Namespace: "default", Role: authn.Viewer},
		"opa": {Name: "opa", Namespace: "default", Role: authn.Operator},
		"zoe": {Name: "zoe", Namespace: "other", Role: authn.Admin},
		"adm": {Name: "adm", Namespace: "default", Role: authn.Admin},
	}})
	httpapi.Register(d, b.service)
	srv := httptest.NewServer(d.Handler())
	t.Cleanup(srv.Close)
	b.url = srv.URL
	return b
}

// start lets the process work: messages, the expiry sweep and the relay.
func (b *bench) start() {
	b.t.Helper()
	c, err := b.bus.Consume(b.t.Context(), bus.Consumption{
		Stream: events.StreamApprovals, Durable: events.ConsumerApprovals, Workers: 8,
		Handle: b.service.Handle, Reject: b.service.Reject,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() { _ = b.service.Run(ctx) })
	wg.Go(func() { _ = b.relay.Run(ctx) })
	wg.Go(func() { _ = b.notices.Run(ctx) })
	b.t.Cleanup(func() {
		_ = c.Stop(ctx)
		cancel()
		wg.Wait()
	})
}

// runner records what the real runner would be told.
type runner struct {
	mu  sync.Mutex
	got []events.Received
}

// listen takes the runner's place.
func (b *bench) listen() {
	b.t.Helper()
	r := &runner{}
	c, err := b.bus.Consume(b.t.Context(), bus.Consumption{
		Stream: events.StreamRuns, Durable: events.ConsumerRunner, Workers: 4,
		Handle: func(_ context.Context, m events.Received) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.got = append(r.got, m)
			return nil
		},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = c.Stop(context.WithoutCancel(b.t.Context())) })
	b.runner = r
}

// told returns what the runner has been told about one request.
func (b *bench) told(id events.ApprovalID) (out []events.Received) {
	b.runner.mu.Lock()
	defer b.runner.mu.Unlock()
	for _, m := range b.runner.got {
		if m.ID == "decision:"+string(id) {
			out = append(out, m)
		}
	}
	return out
}

// decision waits until the runner has been told and returns what.
func (b *bench) decision(id events.ApprovalID) events.ApprovalDecision {
	b.t.Helper()
	eventually(b.t, "the runner is told about "+string(id), func() bool { return len(b.told(id)) > 0 })
	var d events.ApprovalDecision
	if err := events.Decode(b.told(id)[0].Message, &d); err != nil {
		b.t.Fatal(err)
	}
	return d
}

// as returns a client that does not repeat what fails.
func (b *bench) as(who string) *client.Client {
	b.t.Helper()
	c, err := client.New(client.Config{Server: b.url, Token: who, Attempts: 1})
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// question is an ask about a fresh call.
func question(change ...func(*events.AskApproval)) events.AskApproval {
	run := events.NewRunID()
	call := events.NewCallID(run, 2, 0)
	a := events.AskApproval{
		ApprovalID: events.NewApprovalID(call, "a", 2), Kind: events.ApprovalAction, RunID: run, CallID: call,
		Namespace: "default", Agent: "pricing", Tool: "propose_price", ToolDigest: "sha256:t00l",
		Args:   json.RawMessage(`{"id":9007199254740993,"price":"24.90"}`),
		Digest: events.BindDigest("propose_price", "sha256:t00l", events.DigestOf([]byte(run)), "always"),
		Key:    "price/" + string(run), Summary: "Shop A: 24.90 → 22.90", Labels: map[string]string{"shop": "A"},
	}
	for _, c := range change {
		c(&a)
	}
	return a
}

func doubt(a *events.AskApproval) {
	a.Kind, a.Epoch, a.ApprovalID = events.ApprovalDoubt, 1, events.NewApprovalID(a.CallID, "d", 3)
}

func expiresIn(d time.Duration) func(*events.AskApproval) {
	return func(a *events.AskApproval) { a.ExpiresAfterMs = d.Milliseconds() }
}

// send publishes an ask or a withdrawal as the runner does.
func (b *bench) send(typ, what, cause, msgID string, id events.ApprovalID, body any) {
	b.t.Helper()
	data, err := events.Marshal(body)
	if err != nil {
		b.t.Fatal(err)
	}
	err = b.bus.Publish(b.t.Context(), events.Message{
		Subject: events.ApprovalSubject(id, what), MsgID: msgID, ID: cause, Source: "/services/runner",
		Type: typ, About: string(id), Namespace: "default", Data: data,
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// publish asks and does not wait.
func (b *bench) publish(a events.AskApproval, msgID string) {
	b.t.Helper()
	b.send(events.TypeAskApproval, events.ApprovalAsk, "ask:"+string(a.ApprovalID), msgID, a.ApprovalID, a)
}

func (b *bench) withdraw(a events.AskApproval, reason string) {
	b.t.Helper()
	cause := "withdraw:" + string(a.ApprovalID)
	b.send(events.TypeWithdraw, events.ApprovalWithdraw, cause, cause, a.ApprovalID,
		events.WithdrawApproval{ApprovalID: a.ApprovalID, RunID: a.RunID, Reason: reason})
}

// ask asks and returns when the request can be seen.
func (b *bench) ask(change ...func(*events.AskApproval)) events.AskApproval {
	b.t.Helper()
	a := question(change...)
	b.publish(a, "ask:"+string(a.ApprovalID))
	b.waitState(a.ApprovalID, approvals.StatePending)
	return a
}

func (b *bench) show(id events.ApprovalID) client.Approval {
	b.t.Helper()
	a, err := b.as("vic").Approval(b.t.Context(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	return a
}

func (b *bench) waitState(id events.ApprovalID, state string) client.Approval {
	b.t.Helper()
	var a client.Approval
	eventually(b.t, fmt.Sprintf("%s is %s", id, state), func() bool {
		var err error
		a, err = b.as("vic").Approval(b.t.Context(), id)
		return err == nil && a.State == state
	})
	return a
}

// idle waits until the queue of approvals is empty and nothing is in work.
func (b *bench) idle() {
	b.t.Helper()
	eventually(b.t, "APPROVALS is empty", func() bool {
		lag, err := b.bus.Lag(b.t.Context(), events.StreamApprovals, events.ConsumerApprovals)
		return err == nil && lag.Pending == 0 && lag.AckPending == 0
	})
}

// count runs a query that returns one number, as superuser.
func (b *bench) count(query string, args ...any) (n int) {
	b.t.Helper()
	if err := b.admin.QueryRow(b.t.Context(), query, args...).Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

func (b *bench) exec(query string, args ...any) {
	b.t.Helper()
	if _, err := b.admin.Exec(b.t.Context(), query, args...); err != nil {
		b.t.Fatal(err)
	}
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("it did not happen in a minute: %s", what)
}
