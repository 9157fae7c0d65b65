package pg_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/pg"
)

func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func text(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) string {
	t.Helper()
	var s string
	if err := pool.QueryRow(t.Context(), sql, args...).Scan(&s); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return s
}

func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

const workersTable = `
CREATE SCHEMA desk;
CREATE TABLE desk.workers (
    name text PRIMARY KEY, beat timestamptz NOT NULL, fresh_since timestamptz NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(), pid int, detail text, skew_ms bigint, release text)`

// startBeat runs a heartbeat in desk.workers until t ends.
func startBeat(t *testing.T, c pg.Config, worker string, before ...func(*pg.Beat)) *pg.Beat {
	t.Helper()
	b := pg.NewBeat(c, "desk", worker, nil)
	for _, f := range before {
		f(b)
	}
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("run: %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Error("the heartbeat does not end with its context")
		}
		sctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Second)
		defer cancel()
		_ = b.Stop(sctx) // the database may be gone by now
	})
	return b
}

func key(i int) string { return fmt.Sprintf("start:%d", i) }
