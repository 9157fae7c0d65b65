package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/holdfast-run/holdfast/internal/lifecycle"
)

// signalContext ends at the first SIGINT or SIGTERM. The second one ends the
// process at once, with the exit code that shells give an interrupted command.
func signalContext() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		select {
		case <-done:
			return
		case <-signals:
			cancel(lifecycle.ErrStopping)
		}
		select {
		case <-done:
		case s := <-signals:
			fmt.Fprintf(os.Stderr, "holdfast: %s again, leaving at once\n", s)
			os.Exit(130)
		}
	}()
	return ctx, sync.OnceFunc(func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	})
}
