package pgtest

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgdev"
)

// Server is a whole Postgres of one test, which may stop and start it.
type Server struct {
	t   testing.TB
	c   pgdev.Config
	url config.Secret
	dev *pgdev.Server // nil while stopped
}

// NewServer starts a server with a migrated database, until t ends. It takes
// more than a second: use New unless the test needs Postgres to go away.
func NewServer(t testing.TB) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "holdfast-pgtest-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, c: pgdev.Config{Dir: filepath.Join(dir, "pg")}}
	if _, _, err := pgdev.Installed(t.Context()); err != nil {
		missing(t, err)
	}
	s.Start()
	t.Cleanup(s.Stop)
	schemas, err := Schemas()
	if err != nil {
		t.Fatal(err)
	}
	if err := pg.Migrate(t.Context(), s.URL(), schemas); err != nil {
		t.Fatal(err)
	}
	return s
}

// URL connects as superuser. It is the same after every start.
func (s *Server) URL() config.Secret { return s.url }

// Start starts the server again and returns when it answers.
func (s *Server) Start() {
	s.t.Helper()
	if s.dev != nil {
		return
	}
	dev, err := pgdev.Start(s.t.Context(), s.c)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.url != "" && s.url != dev.URL() {
		s.t.Fatalf("the server came back at another address: the path of %s is too long", s.c.Dir)
	}
	s.dev, s.url = dev, dev.URL()
}

// Stop ends the server: sessions are cut, as in a fast shutdown.
func (s *Server) Stop() {
	s.t.Helper()
	if s.dev == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), 20*time.Second)
	defer cancel()
	if err := s.dev.Stop(ctx); err != nil {
		s.t.Error(err)
	}
	s.dev = nil
}
