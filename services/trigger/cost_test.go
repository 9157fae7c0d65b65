package trigger_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/trigger"
	"github.com/holdfast-run/holdfast/services/trigger/httpapi"
	"github.com/holdfast-run/holdfast/services/trigger/postgres"
	"github.com/holdfast-run/holdfast/services/trigger/webhook"
)

// What one accepted webhook may cost, on any machine.
const (
	mostTrips  = 1   // to Postgres: the insert, which looks whether webhook and agent still are what was assumed
	mostAllocs = 250 // from the door to the store and back
)

// trips counts the statements of a pool.
type trips struct {
	mu  sync.Mutex
	sql []string
}

func (c *trips) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sql = append(c.sql, strings.Join(strings.Fields(q.SQL), " "))
	return ctx
}

func (c *trips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// since forgets what was counted and returns it.
func (c *trips) since() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	sql := c.sql
	c.sql = nil
	return sql
}

type still struct{}

func (still) Kick()                     {}
func (still) Offer(events.Message)      {}
func (still) Run(context.Context) error { return nil }

// doorOf is the door of a service that nothing runs behind: no clock, no relay.
func doorOf(t testing.TB, store trigger.Store, definitions trigger.Definitions) http.Handler {
	t.Helper()
	svc, err := trigger.New(trigger.Config{}, trigger.Parts{Store: store, Definitions: definitions, Providers: webhook.All(), Relay: still{}, Secrets: resolve})
	if err != nil {
		t.Fatal(err)
	}
	d := door.New(door.Config{Title: "trigger", Version: "test"})
	httpapi.Register(d, svc)
	return d.Handler()
}

// signedOrder is a signed webhook.
func signedOrder(t testing.TB, id string) *http.Request {
	t.Helper()
	r := trigger.Request{Method: http.MethodPost, Header: http.Header{"Content-Type": {"application/json"}, "User-Agent": {"shop/1"}}, At: time.Now(),
		Body: []byte(`{"shop":"shop-17","price":12.50,"items":[{"sku":"A-1","count":2}],"note":"a body of about two hundred bytes, as small webhooks have them"}`)}
	if err := (webhook.Standard{}).Sign(&r, trigger.Check{Secrets: []string{secrets["HOOK_SECRET"]}}, id); err != nil {
		t.Fatal(err)
	}
	req := httptest.NewRequestWithContext(t.Context(), r.Method, "/hooks/orders", bytes.NewReader(r.Body))
	req.Header = r.Header
	return req
}

// An accepted webhook costs one round trip, and what it starts is still what the
// names mean when it comes.
func TestIntake_RoundTrips(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var counted trips
	pool, err := pg.Open(t.Context(), pg.Config{URL: w.db.URL, Role: role, MaxConns: 4, Tracer: &counted})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	h := doorOf(t, postgres.New(pool), newDefinitions(pool))
	n := 0
	send := func() {
		t.Helper()
		n++
		rec := httptest.NewRecorder()
		if h.ServeHTTP(rec, signedOrder(t, fmt.Sprintf("msg_%d", n))); rec.Code != http.StatusAccepted {
			t.Fatalf("%d %s", rec.Code, rec.Body)
		}
	}
	started := func(want string) {
		t.Helper()
		var ref string
		if err := w.db.Pool.QueryRow(t.Context(), `SELECT ref_name || ' ' || ref_digest FROM trigger.v_deliveries WHERE dedupe_key = $1`, fmt.Sprintf("msg_%d", n)).Scan(&ref); err != nil {
			t.Fatal(err)
		}
		if ref != want {
			t.Errorf("webhook %d started %s, want %s", n, ref, want)
		}
	}
	current := func(name string) string {
		t.Helper()
		var digest string
		if err := w.db.Pool.QueryRow(t.Context(), `SELECT digest FROM catalog.v_current WHERE kind = 'agent' AND name = $1`, name).Scan(&digest); err != nil {
			t.Fatal(err)
		}
		return name + " " + digest
	}
	send()
	send() // the first one learned what the webhook starts
	counted.since()
	for range 3 {
		send()
		if sql := counted.since(); len(sql) != mostTrips {
			t.Errorf("%d round trips, want %d:\n%s", len(sql), mostTrips, strings.Join(sql, "\n"))
		}
	}
	w.apply(t, `{apiVersion: holdfast/v1, kind: Agent, metadata: {name: check}, spec: {model: claude, instructions: Another way.}}`)
	send()
	started(current("check"))
	orders := func(rest string) {
		t.Helper()
		w.apply(t, `{apiVersion: holdfast/v1, kind: Webhook, metadata: {name: orders}, spec: {provider: standard, secrets: [{env: HOOK_SECRET}], agent: anything`+rest+`}}`)
	}
	orders("")
	send()
	started(current("anything"))
	orders(`, filter: "body.shop == 'another'"`)
	send() // filtered, and answered 202 as well
	if n := w.count(t, fmt.Sprintf("trigger.deliveries WHERE dedupe_key = 'msg_%d'", n)); n != 0 {
		t.Error("a filter that was added is not looked at")
	}
	orders("")
	send() // what the assumed filter keeps out, the present one may not
	started(current("anything"))
	send()
	counted.since()
	send()
	if sql := counted.since(); len(sql) != mostTrips {
		t.Errorf("%d round trips after the change, want %d:\n%s", len(sql), mostTrips, strings.Join(sql, "\n"))
	}
}

// costless is a store and a catalog that cost nothing.
type costless struct{ trigger.Store }

func (costless) Insert(_ context.Context, d trigger.Delivery) (trigger.Delivery, bool, error) {
	return d, true, nil
}

type fixed struct {
	trigger.Definitions
	hook trigger.Webhook
}

func (f fixed) Webhook(context.Context, string, string) (trigger.Webhook, error) { return f.hook, nil }

// fixedDefinitions are those of docs, without a database.
func fixedDefinitions(t testing.TB) fixed {
	t.Helper()
	parsed, err := spec.Parse("test.yaml", []byte(docs))
	if err != nil {
		t.Fatal(err)
	}
	var f fixed
	var check trigger.Target
	for _, d := range parsed {
		switch {
		case d.Kind == spec.KindWebhook && d.Name == "orders":
			f.hook = trigger.WebhookOf("default", d.Name, d.Digest, d.Webhook)
		case d.Kind == spec.KindAgent && d.Name == "check":
			check = trigger.TargetOf(events.Ref{Kind: d.Kind, Name: d.Name, Digest: d.Digest}, d.Agent.Input, nil)
		}
	}
	f.hook.Aimed = &check
	return f
}

// The memory that one accepted webhook takes does not depend on the machine. It
// does not run beside other tests, whose allocations would count.
func TestIntake_Allocations(t *testing.T) {
	h := doorOf(t, costless{}, fixedDefinitions(t))
	const runs = 200
	requests := make([]*http.Request, 0, runs+1)
	for i := range runs + 1 {
		requests = append(requests, signedOrder(t, fmt.Sprintf("msg_%d", i)))
	}
	next := 0
	allocs := testing.AllocsPerRun(runs, func() {
		rec := httptest.NewRecorder()
		if h.ServeHTTP(rec, requests[next]); rec.Code != http.StatusAccepted {
			t.Fatalf("%d %s", rec.Code, rec.Body)
		}
		next++
	})
	t.Logf("%.0f allocations", allocs)
	if most := float64(mostAllocs + raceAllocs); allocs > most {
		t.Errorf("a webhook takes %.0f allocations, want at most %.0f", allocs, most)
	}
}

// BenchmarkIntake is a webhook from the door to the store, without network and
// database.
func BenchmarkIntake(b *testing.B) {
	h := doorOf(b, costless{}, fixedDefinitions(b))
	request := signedOrder(b, "msg_1")
	body, err := io.ReadAll(request.Body)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		rec := httptest.NewRecorder()
		request.Body = io.NopCloser(bytes.NewReader(body))
		if h.ServeHTTP(rec, request); rec.Code != http.StatusAccepted {
			b.Fatalf("%d %s", rec.Code, rec.Body)
		}
	}
}
