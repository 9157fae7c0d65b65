// Package bustest gives a test a JetStream of its own: an embedded server with
// the streams and consumers of Holdfast, on a free port.
package bustest

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/natsdev"
	"github.com/holdfast-run/holdfast/internal/telemetry"
)

// Pool is the tool pool that New provisions.
const Pool = "default"

// New starts a server and returns a connection to it, provisioned for the pool
// "default". Both end with t.
func New(t testing.TB) *bus.Bus {
	t.Helper()
	return NewServer(t).Connect(t)
}

// Server is a JetStream of one test, which may stop and start it.
type Server struct {
	t    testing.TB
	dir  string
	port int
	dev  *natsdev.Server // nil while stopped
}

// NewServer starts a server that ends with t.
func NewServer(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, dir: filepath.Join(t.TempDir(), "nats")}
	s.Start()
	t.Cleanup(s.Stop)
	return s
}

// Connect returns a connection of its own, as another process would have,
// provisioned for the pool "default". It closes with t.
func (s *Server) Connect(t testing.TB) *bus.Bus {
	t.Helper()
	b, err := bus.Connect(t.Context(), bus.Config{URL: s.URL(), Name: t.Name(), Log: Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if err := b.Provision(t.Context(), []string{Pool}); err != nil {
		t.Fatal(err)
	}
	return b
}

// URL is where clients connect, the same after every start.
func (s *Server) URL() config.Secret {
	if s.dev == nil {
		s.t.Fatal("bustest: the server is stopped")
	}
	return s.dev.URL()
}

// Start starts the server again, on the same port with the same data.
func (s *Server) Start() {
	s.t.Helper()
	if s.dev != nil {
		return
	}
	// A client's outgoing connection may hold the port for a moment.
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		dev, err := natsdev.Start(s.t.Context(), natsdev.Config{Dir: s.dir, Port: s.port})
		if err == nil {
			s.dev, s.port = dev, dev.Port()
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatal(err)
		}
	}
}

// Stop ends the server; clients see a closed connection.
func (s *Server) Stop() {
	if s.dev == nil {
		return
	}
	s.dev.Stop()
	s.dev = nil
}

// Wipe stops the server, deletes everything that it stored and starts it.
func (s *Server) Wipe() {
	s.t.Helper()
	s.Stop()
	if err := os.RemoveAll(s.dir); err != nil {
		s.t.Fatal(err)
	}
	s.Start()
}

// Log returns a logger that writes to t's output, which shows when t fails.
func Log(t testing.TB) *slog.Logger {
	return telemetry.NewLogger(t.Output(), "debug", "text")
}
