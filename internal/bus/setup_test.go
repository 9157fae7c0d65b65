package bus_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/natsdev"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// server is a NATS server that can be stopped and started on its port.
type server struct {
	t    *testing.T
	dir  string
	port int
	run  *natsdev.Server
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, dir: t.TempDir(), port: freePort(t)}
	s.start()
	t.Cleanup(func() {
		if s.run != nil {
			s.run.Stop()
		}
	})
	return s
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func (s *server) start() {
	s.t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		run, err := natsdev.Start(s.t.Context(), natsdev.Config{Dir: s.dir, Port: s.port})
		if err == nil {
			s.run = run
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond) // the old listener may linger
	}
}

func (s *server) stop() {
	s.run.Stop()
	s.run = nil
}

// wipe loses all data; the server must be stopped.
func (s *server) wipe() {
	s.t.Helper()
	if err := os.RemoveAll(s.dir); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) url() string {
	return (&url.URL{Scheme: "nats", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))}).String()
}

// connect makes a Bus of its own: one process, as far as the bus knows.
func (s *server) connect(name string) *bus.Bus {
	s.t.Helper()
	cfg := bus.Config{URL: config.Secret(s.url()), Name: name}
	if os.Getenv("HOLDFAST_TEST_LOG") != "" {
		cfg.Log = telemetry.NewLogger(os.Stderr, "debug", "text").With("bus", name)
	}
	b, err := bus.Connect(s.t.Context(), cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(b.Close)
	return b
}

func (s *server) provisioned(name string) *bus.Bus {
	s.t.Helper()
	b := s.connect(name)
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer cancel()
	if err := b.Provision(ctx, []string{"default"}); err != nil {
		s.t.Fatal(err)
	}
	return b
}

// raw is a plain JetStream client beside the Bus.
func (s *server) raw() (*nats.Conn, jetstream.JetStream) {
	s.t.Helper()
	nc, err := nats.Connect(s.url())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		s.t.Fatal(err)
	}
	return nc, js
}

// fact is a RUNS message for the consumer "runner".
func fact(i int) events.Message {
	run := events.NewRunID()
	id := fmt.Sprintf("signal:%d", i)
	return events.Message{
		Subject: events.RunSubject(run, events.RunSignal), MsgID: id, ID: id, Source: "/test",
		Type: events.TypeSignalRun, About: string(run), Namespace: "default", Data: []byte(`{}`),
	}
}

func publish(t *testing.T, b *bus.Bus, ms ...events.Message) {
	t.Helper()
	for _, m := range ms {
		if err := b.Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
}

func consume(t *testing.T, b *bus.Bus, c bus.Consumption) *bus.Consumer {
	t.Helper()
	if c.Stream == "" {
		c.Stream, c.Durable = events.StreamRuns, events.ConsumerRunner
	}
	k, err := b.Consume(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, k, 0) })
	return k
}

func stop(t *testing.T, k *bus.Consumer, grace time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), grace)
	defer cancel()
	if err := k.Stop(ctx); err != nil {
		t.Error(err)
	}
}

func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// empty reports whether nothing is left for the durable.
func empty(t *testing.T, b *bus.Bus, durable string) func() bool {
	return func() bool {
		lag, err := b.Lag(t.Context(), events.StreamRuns, durable)
		return err == nil && lag.Pending == 0 && lag.AckPending == 0
	}
}

// log collects what handlers saw.
type log struct {
	mu   sync.Mutex
	seen []string
}

func (l *log) add(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = append(l.seen, s)
}

func (l *log) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.seen)
}

func (l *log) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.seen...)
}
