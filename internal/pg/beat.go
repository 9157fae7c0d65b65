package pg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/telemetry"
)

// The times that takeover hangs on. They belong together: FreshFor plus
// BeatEvery stays below DeadAfter, else a stall of a second would let a live
// worker be judged dead.
const (
	BeatEvery  = 500 * time.Millisecond  // between two beats
	FreshFor   = 900 * time.Millisecond  // a worker with an older beat starts no model call and no act
	HoldFor    = 1200 * time.Millisecond // a worker with an older beat sends no InProgress
	DeadAfter  = 1500 * time.Millisecond // a worker with an older beat may be taken over; the SQL says it too
	GraceAfter = 2 * time.Second         // how long a worker must have been fresh before it may take over
)

// beatTimeout ends a statement on a line that went silent. A stalled Postgres
// answers late beats in order, so there is no hurry.
const beatTimeout = 3 * time.Second

// workerRetention is how long rows of dead workers are kept for people to read.
const workerRetention = "7 days"

var errBeatStopped = errors.New("the heartbeat was stopped")

// Beat writes the heartbeat of one worker to <schema>.workers, every 500 ms on
// a connection of its own, so that it never waits behind other statements. It
// reconnects by itself for as long as it runs.
//
// The table, which the service's migration creates:
//
//	CREATE TABLE <schema>.workers (
//	    name        text PRIMARY KEY,
//	    beat        timestamptz NOT NULL,   -- '-infinity' after an orderly stop
//	    fresh_since timestamptz NOT NULL,   -- since when no beat came late
//	    started_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
//	    pid         int,
//	    detail      text,
//	    skew_ms     bigint,                 -- how far the worker's own clock is ahead
//	    release     text                    -- of the program that beats
//	);
//
// A row that is absent belongs to a dead worker too: rows are deleted a week
// after their last beat. In SQL compare beat with a time and never subtract it
// from one: Postgres before 17 cannot subtract an infinite time.
//
//	beat < clock_timestamp() - interval '1.5 s'   -- dead
//
// Beat satisfies the life cycle's Service. It is safe for concurrent use.
type Beat struct {
	config Config
	schema string
	worker string
	detail *string
	of     *string // the release
	log    *slog.Logger
	clock  func() time.Time // the worker's own, only told to people

	// db guards the connection; only one statement is under way.
	db   sync.Mutex
	conn *pgx.Conn

	mu      sync.Mutex
	last    time.Time     // just before the last confirmed statement was sent; zero before the first
	beaten  chan struct{} // closed and replaced by every confirmed beat
	stopped bool

	now  chan struct{} // asks Run for a beat at once
	done chan struct{} // closed by Stop
}

// NewBeat returns the heartbeat of worker, whose name comes from WorkerName.
// MaxConns of c has no meaning here. log may be nil.
func NewBeat(c Config, schema, worker string, log *slog.Logger) *Beat {
	if !schemaName.MatchString(schema) {
		panic(fmt.Sprintf("pg: %q is not a schema name", schema))
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if c.AppName == "" {
		c.AppName = worker
	}
	return &Beat{
		config: c, schema: schema, worker: worker, log: log.With("worker", worker), clock: time.Now,
		beaten: make(chan struct{}), now: make(chan struct{}, 1), done: make(chan struct{}),
	}
}

// Describe says for people and views what the worker does; it belongs before
// Start.
func (b *Beat) Describe(detail string) { b.detail = &detail }

// Release says for people which release of the program beats; it belongs before Start.
func (b *Beat) Release(version string) { b.of = &version }

// Name says what the heartbeat is called in the life cycle.
func (b *Beat) Name() string { return b.schema + "-heartbeat" }

// Start writes the first beat. It returns when the database has confirmed it,
// and retries a database that is away until ctx ends.
func (b *Beat) Start(ctx context.Context) error {
	err := Retry(ctx, func(ctx context.Context) error {
		if err := b.prune(ctx); err != nil {
			return err
		}
		return b.beat(ctx)
	})
	if err != nil {
		return fmt.Errorf("first heartbeat of %s: %w", b.worker, err)
	}
	return nil
}

// Run beats until ctx ends or Stop is called. A database that is away is logged
// once and then tried again at every beat.
func (b *Beat) Run(ctx context.Context) error {
	t := time.NewTicker(BeatEvery)
	defer t.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-b.done:
			return nil
		case <-t.C:
		case <-b.now:
		}
		err := b.beat(ctx)
		switch {
		case errors.Is(err, errBeatStopped) || ctx.Err() != nil:
			return nil
		case err != nil && !failing:
			b.log.Warn("heartbeat failed", telemetry.KeyErr, err)
		case err == nil && failing:
			b.log.Info("heartbeat is back")
		}
		failing = err != nil
	}
}

// stopPatience bounds how long Stop tries to reach the database.
const stopPatience = 2 * time.Second

// Stop ends Run and marks the row stopped, so that other workers take over at
// once. It tries for two seconds at most. From here on Fresh and Holding are false. It may be called twice.
func (b *Beat) Stop(ctx context.Context) error {
	b.mu.Lock()
	if !b.stopped {
		b.stopped = true
		close(b.done)
	}
	b.mu.Unlock()

	// A Postgres that is away must not eat the whole grace period: without the
	// mark the others judge by the beat's age, a little later.
	ctx, cancel := context.WithTimeout(ctx, stopPatience)
	defer cancel()
	b.db.Lock()
	defer b.db.Unlock()
	err := Retry(ctx, func(ctx context.Context) error {
		_, err := b.exec(ctx, `UPDATE `+b.schema+`.workers SET beat = '-infinity' WHERE name = $1`, b.worker)
		return err
	})
	b.drop()
	if err != nil {
		return fmt.Errorf("mark %s stopped: %w", b.worker, err)
	}
	return nil
}

// Age is the time since the last beat that the database confirmed, counted on
// the monotonic clock from before its statement was sent, so it is never too
// young. It is the longest duration before the first beat and after Stop.
func (b *Beat) Age() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped || b.last.IsZero() {
		return math.MaxInt64
	}
	return time.Since(b.last)
}

// Fresh reports whether this worker may start a model call or an act.
func (b *Beat) Fresh() bool { return b.Age() < FreshFor }

// Holding reports whether this worker may still say InProgress about what it holds.
func (b *Beat) Holding() bool { return b.Age() < HoldFor }

// WaitFresh returns at once when the beat is fresh, else it asks for a beat and
// waits for its confirmation until ctx ends. After a wait the caller must read
// its claim again: somebody may have taken it over.
func (b *Beat) WaitFresh(ctx context.Context) error {
	for {
		b.mu.Lock()
		fresh := !b.stopped && !b.last.IsZero() && time.Since(b.last) < FreshFor
		beaten, stopped := b.beaten, b.stopped
		b.mu.Unlock()
		switch {
		case fresh:
			return nil
		case stopped:
			return errBeatStopped
		}
		select {
		case b.now <- struct{}{}:
		default:
		}
		select {
		case <-beaten:
		case <-b.done:
		case <-ctx.Done():
			return fmt.Errorf("wait for a heartbeat of %s: %w", b.worker, context.Cause(ctx))
		}
	}
}

// beat writes one beat. A row that was marked stopped is not revived: a
// statement that was delayed on its way may arrive after Stop.
func (b *Beat) beat(ctx context.Context) error {
	query := `
INSERT INTO ` + b.schema + `.workers AS w (name, beat, fresh_since, pid, detail, skew_ms, release)
VALUES ($1, clock_timestamp(), clock_timestamp(), $2, $3, extract(epoch FROM $4::timestamptz - clock_timestamp()) * 1000, $5)
ON CONFLICT (name) DO UPDATE
SET beat = clock_timestamp(), skew_ms = EXCLUDED.skew_ms,
    -- a clock that stepped back must not keep the living from being fresh until it is there again
    fresh_since = CASE WHEN w.beat < clock_timestamp() - interval '1.5 s' OR w.fresh_since > clock_timestamp() THEN clock_timestamp() ELSE w.fresh_since END
WHERE w.beat > '-infinity'`
	b.db.Lock()
	defer b.db.Unlock()
	b.mu.Lock()
	stopped := b.stopped
	b.mu.Unlock()
	if stopped {
		return errBeatStopped
	}
	if err := b.ensure(ctx); err != nil {
		return err
	}
	sent := time.Now() // before the statement: the reply says that the beat is at least this young
	n, err := b.exec(ctx, query, b.worker, os.Getpid(), b.detail, b.clock(), b.of)
	if err != nil {
		return err
	}
	if n == 0 {
		return errBeatStopped
	}
	b.mu.Lock()
	b.last = sent
	close(b.beaten)
	b.beaten = make(chan struct{})
	b.mu.Unlock()
	return nil
}

// prune deletes the rows of workers that are long dead.
func (b *Beat) prune(ctx context.Context) error {
	b.db.Lock()
	defer b.db.Unlock()
	_, err := b.exec(ctx, `
DELETE FROM `+b.schema+`.workers
WHERE beat < clock_timestamp() - interval '`+workerRetention+`' AND started_at < clock_timestamp() - interval '`+workerRetention+`'`)
	return err
}

// exec runs one statement within beatTimeout. A connection that failed is
// dropped: the next statement opens another. b.db is held.
func (b *Beat) exec(ctx context.Context, query string, args ...any) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, beatTimeout)
	defer cancel()
	if err := b.ensure(ctx); err != nil {
		return 0, err
	}
	tag, err := b.conn.Exec(ctx, query, args...)
	if err != nil {
		b.drop()
		return 0, err
	}
	return tag.RowsAffected(), nil
}

// ensure opens the connection when there is none. b.db is held.
func (b *Beat) ensure(ctx context.Context) error {
	if b.conn != nil && !b.conn.IsClosed() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, beatTimeout)
	defer cancel()
	conn, err := b.config.connect(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	b.conn = conn
	return nil
}

// drop closes the connection. b.db is held.
func (b *Beat) drop() {
	if b.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = b.conn.Close(ctx)
	b.conn = nil
}
