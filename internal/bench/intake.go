package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/natsdev"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgdev"
)

// Webhook is the name of the webhook that Config.Prepare defines. Its provider
// is standard, its secret is in the environment variable SecretEnv.
const (
	Webhook   = "bench"
	SecretEnv = "HOLDFAST_WEBHOOK_BENCH_SECRET"
)

// Config says how intake is measured.
type Config struct {
	// Binary is the holdfast that is measured.
	Binary string
	// Env is the environment of its process; settings of Holdfast are left out.
	Env []string
	// Prepare migrates an empty database and defines the webhook.
	Prepare func(ctx context.Context, database config.Secret) error
	// Insert returns what stores a start with body as its input, as the door does
	// once it has read a request. It gets a pool of the service's role.
	Insert   func(*pgxpool.Pool) func(ctx context.Context, body []byte) error
	Senders  []int         // at once; one level each
	Duration time.Duration // of each row
	// Progress says what is measured now; nil says nothing.
	Progress io.Writer
}

// levels of the clients that the limits are measured with.
const (
	few  = 1
	many = 64
)

// Intake measures how many signed webhooks the trigger's door accepts. It ends by
// itself: each row takes Duration and what it needs to settle.
func Intake(ctx context.Context, c Config) (_ *Report, err error) {
	if c.Progress == nil {
		c.Progress = io.Discard
	}
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o711); err != nil { // the server's user must pass through
		return nil, err
	}
	database, err := pgdev.Start(ctx, pgdev.Config{Dir: filepath.Join(dir, "postgres")})
	if err != nil {
		return nil, err
	}
	defer func() {
		sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		err = errors.Join(err, database.Stop(sctx), os.RemoveAll(filepath.Dir(database.DataDir())))
	}()
	nats, err := natsdev.Start(ctx, natsdev.Config{Dir: filepath.Join(dir, "nats")})
	if err != nil {
		return nil, err
	}
	defer nats.Stop()
	if err := c.Prepare(ctx, database.URL()); err != nil {
		return nil, fmt.Errorf("prepare the database: %w", err)
	}
	pool, err := pg.Open(ctx, pg.Config{URL: database.URL(), MaxConns: many + 2, AppName: "holdfast-bench"})
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	m, err := newMeter(database.DataDir())
	if err != nil {
		return nil, err
	}
	r := &Report{CPUs: runtime.NumCPU(), Postgres: database.Version(), Duration: c.Duration}
	r.Load[0] = load()
	if err := measureLimits(ctx, c, pool, m, r); err != nil {
		return nil, err
	}
	d, err := openDoor(ctx, c, dir, database.URL(), nats.URL())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.close(ctx)) }()
	m.door = d.cmd.Process.Pid
	if err := measureDoor(ctx, c, pool, d, m, r); err != nil {
		return nil, err
	}
	r.Load[1] = load()
	r.judge()
	return r, nil
}

// measureDoor runs one level after the other.
func measureDoor(ctx context.Context, c Config, pool *pgxpool.Pool, d *doorProcess, m meter, r *Report) error {
	for _, senders := range c.Senders {
		fmt.Fprintf(c.Progress, "webhooks, %d senders ...\n", senders)
		if _, err := pool.Exec(ctx, "TRUNCATE trigger.announcements, trigger.deliveries, trigger.attempts"); err != nil {
			return err
		}
		if _, err := flood(ctx, d.addr, senders, c.Duration/10); err != nil { // connections, plans, pages
			return fmt.Errorf("%d senders: %w\n%s", senders, err, d.tail())
		}
		if err := settle(ctx, pool); err != nil {
			return err
		}
		before, err := readCounters(ctx, pool)
		if err != nil {
			return err
		}
		begun, err := m.read()
		if err != nil {
			return err
		}
		s, err := flood(ctx, d.addr, senders, c.Duration)
		if err != nil {
			return fmt.Errorf("%d senders: %w\n%s", senders, err, d.tail())
		}
		if err := settle(ctx, pool); err != nil {
			return err
		}
		ended, err := m.read()
		if err != nil {
			return err
		}
		s.cpu = ended.since(begun)
		after, err := readCounters(ctx, pool)
		if err != nil {
			return err
		}
		if got := after.deliveries - before.deliveries; got != int64(len(s.took)) {
			return fmt.Errorf("%d senders: %d webhooks were answered 202 and %d are stored", senders, len(s.took), got)
		}
		r.Intake = append(r.Intake, intakeRow(senders, s, before, after))
	}
	return nil
}

// settle waits until the relay has announced every start, so that its share is in
// the counts, 20 s at most.
func settle(ctx context.Context, pool *pgxpool.Pool) error {
	deadline := time.Now().Add(20 * time.Second)
	for {
		var open int64
		if err := pool.QueryRow(ctx, "SELECT count(*) FROM trigger.announcements WHERE announced_at IS NULL").Scan(&open); err != nil {
			return err
		}
		if open == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d starts are not announced after 20 s", open)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// counters are what the database has counted.
type counters struct {
	commits    int64 // transactions that wrote
	wal        int64 // bytes
	deliveries int64
}

// Transactions that write have numbers of their own, which count at once;
// pg_stat_database lags by seconds and counts reads too.
const queryCounters = `
SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint, (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint,
	(SELECT count(*) FROM trigger.deliveries)`

func readCounters(ctx context.Context, pool *pgxpool.Pool) (c counters, err error) {
	err = pool.QueryRow(ctx, queryCounters).Scan(&c.commits, &c.wal, &c.deliveries)
	return c, err
}
