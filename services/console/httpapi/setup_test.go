package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/internal/bustest"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
	"github.com/holdfast-run/holdfast/services/console/httpapi"
	"github.com/holdfast-run/holdfast/services/console/postgres"
)

// rig is a console on a real database and a real bus.
type rig struct {
	t    *testing.T
	url  string
	db   *pgxpool.Pool // as superuser: plays the other services
	bus  *bus.Bus
	door *door.Door
	pool *pgxpool.Pool // of the console
}

func setup(t *testing.T) *rig {
	t.Helper()
	db := pgtest.New(t)
	return start(t, db.Pool, db.Open(t, "holdfast_console"), bustest.New(t))
}

func start(t *testing.T, super, pool *pgxpool.Pool, b *bus.Bus, change ...func(*door.Config)) *rig {
	t.Helper()
	store := postgres.New(pool)
	s := console.New(console.Config{
		Store: store, Relay: store.NewRelay(b.Publish, nil), Tail: b, Pools: []string{bustest.Pool},
		Streams: console.LagFunc(func(ctx context.Context, stream, durable string) (console.Lag, error) {
			l, err := b.Lag(ctx, stream, durable)
			return console.Lag{Pending: l.Pending, AckPending: l.AckPending, Redelivered: l.Redelivered}, err
		}),
	})
	c := door.Config{Title: "console", Version: "test", Verifier: doortest.Verifier(), SignIn: httpapi.SignInPath, Log: bustest.Log(t)}
	for _, f := range change {
		f(&c)
	}
	d := door.New(c)
	httpapi.Register(d, s)
	srv := httptest.NewServer(d.Handler())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run console: %v", err)
		}
		srv.CloseClientConnections()
		srv.Close()
	})
	return &rig{t: t, url: srv.URL, db: super, bus: b, door: d, pool: pool}
}

func (r *rig) exec(sql string, args ...any) {
	r.t.Helper()
	if _, err := r.db.Exec(r.t.Context(), sql, args...); err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
}

// accept is what the trigger does for a start.
func (r *rig) accept(namespace, agent string, labels string) events.RunID {
	r.t.Helper()
	id := events.NewRunID()
	r.exec(`WITH a AS (INSERT INTO trigger.announcements (run_id) VALUES ($2)) INSERT INTO trigger.deliveries (delivery_id, namespace, source_kind, source_name, request_digest, run_id, ref_kind, ref_name, ref_digest, input, labels, principal)
		VALUES (gen_random_uuid(), $1, 'api', 'maria', 'd', $2, 'agent', $3, 'sha256:x', '{"id":9007199254740993}', $4, 'maria')`, namespace, id, agent, labels)
	return id
}

// take is what a runner does first: the run row and its first fact.
func (r *rig) take(namespace string, id events.RunID, agent, labels string) {
	r.t.Helper()
	r.exec(`INSERT INTO runner.runs (run_id, namespace, kind, name, digest, status, seq, input, labels, trigger, accepted_at)
		VALUES ($1, $2, 'agent', $3, 'sha256:x', 'running', 1, '{"id":9007199254740993}', $4, '{"kind":"api"}', clock_timestamp())`, id, namespace, agent, labels)
	r.exec(`INSERT INTO runner.journal (run_id, seq, kind, status, cause, inbound, worker, at, data)
		VALUES ($1, 1, 'run_started', 'running', 'start:' || $1, true, 'w', clock_timestamp(), '{"a": 1.10}')`, id)
}

// step appends one fact, and publishes it when asked to.
func (r *rig) step(id events.RunID, status string, publish bool) events.RunEvent {
	r.t.Helper()
	e := events.RunEvent{RunID: id, Kind: "tool_completed", Status: status, Worker: "w", Data: json.RawMessage(`{"n":12345678901234567890}`)}
	err := r.db.QueryRow(r.t.Context(), `
		WITH run AS (UPDATE runner.runs SET seq = seq + 1, status = $2, updated_at = clock_timestamp(),
			ended_at = CASE WHEN $2 IN ('completed','failed','cancelled','expired') THEN clock_timestamp() END
			WHERE run_id = $1 RETURNING seq, namespace)
		INSERT INTO runner.journal (run_id, seq, kind, status, cause, inbound, worker, at, data)
		SELECT $1, seq, 'tool_completed', $2, 'c' || seq, true, 'w', clock_timestamp(), $3 FROM run
		RETURNING seq, cause, at, (SELECT namespace FROM run)`, id, status, e.Data).Scan(&e.Seq, &e.Cause, &e.At, &e.Namespace)
	if err != nil {
		r.t.Fatal(err)
	}
	e.At = e.At.UTC()
	if publish {
		r.publish(e)
	}
	return e
}

func (r *rig) publish(e events.RunEvent) {
	r.t.Helper()
	data, err := events.Marshal(e)
	if err != nil {
		r.t.Fatal(err)
	}
	id := fmt.Sprintf("%s:%d:0", e.RunID, e.Seq)
	if err := r.bus.Publish(r.t.Context(), events.Message{Subject: events.RunEventSubject(e.RunID), MsgID: id, ID: id, Source: "/services/runner",
		Type: events.TypeRunEvent, About: string(e.RunID), Time: e.At, Namespace: e.Namespace, Data: data}); err != nil {
		r.t.Fatal(err)
	}
}

// do sends a request as role in a namespace and returns status, header and body.
func (r *rig) do(method, path, token, body string, header ...string) (int, http.Header, string) {
	r.t.Helper()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, in)
	if err != nil {
		r.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(raw)
}

// get decodes the answer of a request that must succeed.
func get[T any](r *rig, method, path string, role authn.Role, body string, header ...string) T {
	r.t.Helper()
	status, _, raw := r.do(method, path, doortest.Token(role), body, header...)
	if status/100 != 2 {
		r.t.Fatalf("%s %s: %d %s", method, path, status, raw)
	}
	var out T
	dec := json.NewDecoder(strings.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&out); err != nil {
		r.t.Fatalf("%s %s: %v: %s", method, path, err, raw)
	}
	return out
}

// sse is one event of a stream.
type sse struct{ id, event, data string }

// listen opens a stream and returns its events; the channel closes with it.
func (r *rig) listen(ctx context.Context, path, token, last string) <-chan sse {
	r.t.Helper()
	req, err := http.NewRequestWithContext(ctx, "GET", r.url+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	if ct := res.Header.Get("Content-Type"); res.StatusCode != 200 || ct != "text/event-stream" {
		r.t.Fatalf("%s: %d %s", path, res.StatusCode, ct)
	}
	out := make(chan sse, 10000)
	go func() {
		defer close(out)
		defer res.Body.Close()
		lines := bufio.NewScanner(res.Body)
		lines.Buffer(nil, 1<<20)
		var e sse
		var data bytes.Buffer
		for lines.Scan() {
			line := lines.Text()
			name, value, _ := strings.Cut(line, ": ")
			switch {
			case line == "":
				e.data = strings.TrimSuffix(data.String(), "\n")
				if e.id != "" || e.event != "" || e.data != "" {
					out <- e
				}
				e = sse{}
				data.Reset()
			case name == "id":
				e.id = value
			case name == "event":
				e.event = value
			case name == "data":
				data.WriteString(value + "\n")
			}
		}
	}()
	return out
}

func next(t *testing.T, c <-chan sse) sse {
	t.Helper()
	select {
	case e, ok := <-c:
		if !ok {
			t.Fatal("the stream ended")
		}
		return e
	case <-time.After(20 * time.Second):
		t.Fatal("no event within 20 s")
	}
	return sse{}
}

// eventually polls until ok or the deadline.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not within a minute: %s", what)
}
