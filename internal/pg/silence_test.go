package pg_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/linetest"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgtest"
)

// Connections are dropped without a word: those that lie idle, and those at which a
// statement or a transaction waits. Nobody waits for ever, and the next try works.
func TestCaseC07_SilentLinesAreGivenUp(t *testing.T) {
	t.Parallel()
	line, url := linetest.Postgres(t, pgtest.New(t).URL.Reveal())
	pool, err := pg.Open(t.Context(), pg.Config{URL: config.Secret(url), MaxConns: 2, Silence: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	t.Cleanup(line.Close) // whoever still waits hears of the end
	// what waits at a silent line must end, and not because its caller gave up
	ends := func(t *testing.T, f func(context.Context) error) {
		t.Helper()
		done := make(chan error, 1)
		go func() { done <- f(context.WithoutCancel(t.Context())) }()
		select {
		case err := <-done:
			if !pg.Transient(err) {
				t.Errorf("%v is not worth a retry", err)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("it still waits")
		}
	}
	works := func(t *testing.T) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := pg.Retry(ctx, func(ctx context.Context) error { _, err := pool.Exec(ctx, "SELECT 1"); return err }); err != nil {
			t.Errorf("the next statement: %v", err)
		}
	}
	t.Run("in a statement", func(t *testing.T) {
		ends(t, func(ctx context.Context) error {
			return pg.InTx(ctx, pool, func(tx pgx.Tx) error {
				line.Forget()
				_, err := tx.Exec(ctx, "SELECT 1")
				return err
			})
		})
		works(t)
	})
	t.Run("in a commit", func(t *testing.T) {
		ends(t, func(ctx context.Context) error {
			return pg.InTx(ctx, pool, func(tx pgx.Tx) error {
				line.Forget()
				return nil
			})
		})
		works(t)
	})
	t.Run("idle", func(t *testing.T) {
		works(t)
		line.Forget()
		works(t)
	})
	t.Run("while it is connected", func(t *testing.T) {
		line.Forget()
		line.Hold()
		ends(t, func(ctx context.Context) error { _, err := pool.Exec(ctx, "SELECT 1"); return err })
		line.Pass()
		works(t)
	})
	t.Run("a statement that takes its time", func(t *testing.T) {
		if _, err := pool.Exec(t.Context(), "SELECT pg_sleep(0.2)"); err != nil {
			t.Error(err)
		}
	})
}
