package pg_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgtest"
)

func contains(err error, s string) bool { return err != nil && strings.Contains(err.Error(), s) }

const (
	isDead = `SELECT (beat < clock_timestamp() - interval '1.5 s')::text FROM desk.workers WHERE name = $1`
	since  = `SELECT fresh_since::text FROM desk.workers WHERE name = $1`
)

func TestBeat_KeepsFresh(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db.Pool, workersTable)
	b := startBeat(t, pg.Config{URL: db.URL}, "desk-1", func(b *pg.Beat) { b.Release("v1.2.3") })
	if got := text(t, db.Pool, `SELECT release FROM desk.workers WHERE name = $1`, "desk-1"); got != "v1.2.3" {
		t.Errorf("the release is said to be %q", got)
	}
	if !b.Fresh() || !b.Holding() {
		t.Fatalf("not fresh after Start: age %v", b.Age())
	}
	first := text(t, db.Pool, since, "desk-1")
	for end := time.Now().Add(2500 * time.Millisecond); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if !b.Fresh() {
			t.Fatalf("age %v", b.Age())
		}
		if text(t, db.Pool, isDead, "desk-1") != "false" {
			t.Fatal("looks dead")
		}
	}
	if got := text(t, db.Pool, since, "desk-1"); got != first {
		t.Errorf("fresh_since moved from %s to %s without a gap", first, got)
	}
}

// A worker that stops in order may be taken over at once, and cannot come back.
func TestBeat_Stop(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db.Pool, workersTable)
	b := startBeat(t, pg.Config{URL: db.URL}, "desk-1")
	for range 2 {
		if err := b.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := text(t, db.Pool, isDead, "desk-1"); got != "true" {
		t.Error("a stopped worker looks alive")
	}
	if b.Fresh() || b.Holding() {
		t.Error("a stopped worker thinks that it is fresh")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := b.WaitFresh(ctx); err == nil {
		t.Error("WaitFresh after Stop returned nil")
	}
	// A beat that was delayed on its way must not revive the row.
	again := pg.NewBeat(pg.Config{URL: db.URL}, "desk", "desk-1", nil)
	if err := again.Start(t.Context()); err == nil {
		t.Error("a stopped name could start again")
	}
	if got := text(t, db.Pool, isDead, "desk-1"); got != "true" {
		t.Error("a late beat revived a stopped worker")
	}
}

// A worker that dies is seen dead after 1.5 s, by the database's clock.
func TestBeat_DeadIsSeen(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db.Pool, workersTable)
	b := pg.NewBeat(pg.Config{URL: db.URL}, "desk", "desk-1", nil)
	if err := b.Start(t.Context()); err != nil { // one beat, then silence
		t.Fatal(err)
	}
	begin := time.Now()
	eventually(t, 3*time.Second, "seen dead", func() bool { return text(t, db.Pool, isDead, "desk-1") == "true" })
	if took := time.Since(begin); took < 1300*time.Millisecond || took > 1800*time.Millisecond {
		t.Errorf("seen dead after %v, want about 1.5s", took)
	}
	if b.Holding() || b.Fresh() {
		t.Errorf("the silent worker still holds: age %v", b.Age())
	}
	// Its next beat starts a new fresh time: it must wait before it takes over.
	old := text(t, db.Pool, since, "desk-1")
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := text(t, db.Pool, since, "desk-1"); got == old {
		t.Error("fresh_since did not move over the gap")
	}
}

// A stalled statement makes the beat old, never young: the age counts from
// before the statement was sent.
func TestBeat_AgeCountsFromBeforeTheStatement(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db.Pool, workersTable)
	b := startBeat(t, pg.Config{URL: db.URL}, "desk-1")
	// The row is locked for 1.3 s: the beat that waits is confirmed late.
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM desk.workers FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	eventually(t, 3*time.Second, "not holding", func() bool { return !b.Holding() })
	waited := make(chan error, 1)
	go func() { waited <- b.WaitFresh(t.Context()) }()
	begin := time.Now()
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > 600*time.Millisecond {
		t.Errorf("fresh %v after the stall, want soon", took)
	}
	if !b.Fresh() {
		t.Errorf("age %v after WaitFresh", b.Age())
	}
}

func TestBeat_SurvivesKilledConnection(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db.Pool, workersTable)
	b := startBeat(t, pg.Config{URL: db.URL, AppName: "beat-victim"}, "desk-1")
	for range 3 {
		exec(t, db.Pool, "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'beat-victim' AND datname = current_database()")
		time.Sleep(pg.BeatEvery) // at least one beat meets the dead line
		if err := b.WaitFresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if !b.Holding() {
		t.Errorf("age %v", b.Age())
	}
}

func TestBeat_SurvivesRestartOfPostgres(t *testing.T) {
	t.Parallel()
	s := pgtest.NewServer(t)
	pool, err := pg.Open(t.Context(), pg.Config{URL: s.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	exec(t, pool, workersTable)
	b := startBeat(t, pg.Config{URL: s.URL()}, "desk-1")
	s.Stop()
	eventually(t, 3*time.Second, "not holding while Postgres is away", func() bool { return !b.Holding() })
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := b.WaitFresh(ctx); err == nil {
		t.Error("fresh without a database")
	}
	s.Start()
	begin := time.Now()
	if err := b.WaitFresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("fresh %v after the restart", took)
	}
	// A pool opened before comes back too.
	if err := pg.Retry(t.Context(), func(ctx context.Context) error {
		_, err := pool.Exec(ctx, "SELECT 1")
		return err
	}); err != nil {
		t.Error(err)
	}
}

func TestBeat_PrunesRowsOfTheLongDead(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db.Pool, workersTable)
	exec(t, db.Pool, `INSERT INTO desk.workers VALUES
		('ancient', now() - interval '8 days', now(), now() - interval '9 days'),
		('ancient-stopped', '-infinity', now(), now() - interval '9 days'),
		('stopped', '-infinity', now(), now()),
		('long-lived', now(), now(), now() - interval '30 days')`)
	startBeat(t, pg.Config{URL: db.URL}, "new")
	if got := text(t, db.Pool, "SELECT string_agg(name, ' ' ORDER BY name) FROM desk.workers"); got != "long-lived new stopped" {
		t.Errorf("rows left: %s", got)
	}
}

func TestWorkerName(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 50 {
		n := pg.WorkerName("runner")
		if seen[n] || !strings.HasPrefix(n, "runner-") || !validToken(n) {
			t.Fatalf("name %q", n)
		}
		seen[n] = true
	}
	if n := pg.WorkerName(strings.Repeat("ü x.", 100)); !validToken(n) {
		t.Errorf("name %q is no subject token", n)
	}
}
