package doortest

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/door"
)

// Serve runs d on a real server of this machine until t ends.
func Serve(t *testing.T, d *door.Door) *door.Server {
	t.Helper()
	s := door.NewServer("127.0.0.1:0", d.Handler())
	Run(t, s)
	return s
}

// Run runs s until t ends.
func Run(t *testing.T, s *door.Server) {
	t.Helper()
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		stop, end := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
		defer end()
		if err := s.Stop(stop); err != nil {
			t.Errorf("stop: %v", err)
		}
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
}
