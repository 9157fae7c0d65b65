package pg_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgtest"
)

// Backends are killed while statements run. The rows are inserted without
// forgiving a conflict, so a retry without a look would show as an error.
func TestGroup_BackendsKilledInFlight(t *testing.T) {
	t.Parallel()
	db := setupNotes(t)
	pool, err := pg.Open(t.Context(), pg.Config{URL: db.URL, AppName: "victim", MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	g := notes(pool)

	ctx, stop := context.WithCancel(t.Context())
	var killed atomic.Int64
	killer := make(chan struct{})
	go func() {
		defer close(killer)
		for ctx.Err() == nil {
			var n int64
			err := db.Pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE pg_terminate_backend(pid))
				FROM pg_stat_activity WHERE application_name = 'victim' AND datname = current_database() AND state = 'active'`).Scan(&n)
			if err != nil && ctx.Err() == nil {
				t.Errorf("kill: %v", err)
				return
			}
			killed.Add(n)
			time.Sleep(2 * time.Millisecond)
		}
	}()

	var next, written atomic.Int64
	deadline := time.Now().Add(15 * time.Second) // the number below ends it much earlier
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for time.Now().Before(deadline) && (killed.Load() < 15 || next.Load() < 4000) {
				n := clean(int(next.Add(1)))
				if got, err := g.Do(t.Context(), n); err != nil || got != n.id {
					t.Errorf("%s: %q, %v", n.id, got, err)
					return
				}
				written.Add(1)
			}
		})
	}
	wg.Wait()
	stop()
	<-killer
	if got, want := text(t, db.Pool, "SELECT count(*)::text FROM desk.notes"), fmt.Sprint(written.Load()); got != want {
		t.Errorf("%s rows, %s were confirmed", got, want)
	}
	if killed.Load() < 5 {
		t.Errorf("only %d backends were killed in flight: this shows nothing", killed.Load())
	}
	t.Logf("%d backends killed in flight, %d rows", killed.Load(), written.Load())
}

// cutter loses replies: when armed, the next answer of the server is read whole,
// so that the statement is done, thrown away, and the line breaks.
type cutter struct {
	armed atomic.Bool
	cuts  atomic.Int64
}

type cutConn struct {
	net.Conn
	c *cutter
}

func (c *cutConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil && c.c.armed.CompareAndSwap(true, false) {
		c.c.cuts.Add(1)
		return 0, errors.Join(io.ErrUnexpectedEOF, c.Close())
	}
	return n, err
}

func (c *cutter) pool(t *testing.T, db *pgtest.DB) *pgxpool.Pool {
	t.Helper()
	pc, err := pgxpool.ParseConfig(db.URL.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	pc.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &cutConn{conn, c}, err
	}
	// As pg.Open has it: one round trip a statement.
	pc.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	pool, err := pgxpool.NewWithConfig(t.Context(), pc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// The line breaks after the statement: every row is there, and the re-read says so.
func TestGroup_LostReplyIsReadAgain(t *testing.T) {
	t.Parallel()
	db := setupNotes(t)
	cut := &cutter{}
	g := notes(cut.pool(t, db))
	var reread atomic.Int64
	many, one, found := g.Many, g.One, g.Found
	var calls atomic.Int64
	arm := func() {
		if calls.Add(1)%5 == 0 { // the statement is described by then, so its only reply is cut
			cut.armed.Store(true)
		}
	}
	g.Many = func(ctx context.Context, items []note) ([]string, error) {
		arm()
		return many(ctx, items)
	}
	g.One = func(ctx context.Context, n note) (string, error) {
		arm()
		return one(ctx, n)
	}
	g.Found = func(ctx context.Context, items []note) ([]*string, error) {
		there, err := found(ctx, items)
		for _, f := range there {
			if f != nil {
				reread.Add(1)
			}
		}
		return there, err
	}
	const workers, each = 20, 50
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				n := clean(w*each + i)
				if got, err := g.Do(t.Context(), n); err != nil || got != n.id {
					t.Errorf("%s: %q, %v", n.id, got, err)
				}
			}
		})
	}
	wg.Wait()
	if got, want := text(t, db.Pool, "SELECT count(*)::text FROM desk.notes"), fmt.Sprint(workers*each); got != want {
		t.Errorf("%s rows, want %s", got, want)
	}
	if cut.cuts.Load() == 0 || reread.Load() == 0 {
		t.Errorf("%d replies cut, %d items read again: this shows nothing", cut.cuts.Load(), reread.Load())
	}
	t.Logf("%d replies cut, %d items read again", cut.cuts.Load(), reread.Load())
}

// countUp adds to shared rows, in the order of the array.
const countUp = `
INSERT INTO desk.counts (id, n)
SELECT id, 1 FROM unnest($1::text[]) AS i(id)
ON CONFLICT (id) DO UPDATE SET n = desk.counts.n + 1`

// Two processes change the same rows all the time and never lock each other out.
func TestGroup_TwoProcessesShareRows(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db.Pool, "CREATE SCHEMA desk")
	exec(t, db.Pool, "CREATE TABLE desk.counts (id text PRIMARY KEY, n int NOT NULL)")
	const rows, rounds = 200, 40
	var statements atomic.Int64
	process := func() *pg.Group[string, bool] {
		pool := db.Open(t, "")
		return &pg.Group[string, bool]{
			Name: "counts", Key: func(id string) string { return id },
			Many: func(ctx context.Context, ids []string) ([]bool, error) {
				statements.Add(1)
				_, err := pool.Exec(ctx, countUp, ids)
				return make([]bool, len(ids)), err
			},
		}
	}
	groups := []*pg.Group[string, bool]{process(), process()}
	var wg sync.WaitGroup
	for p, g := range groups {
		for i := range rows {
			wg.Go(func() {
				for range rounds {
					if _, err := g.Do(t.Context(), fmt.Sprintf("row-%03d", (i*7+p*91)%rows)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	if got, want := text(t, db.Pool, "SELECT sum(n)::text FROM desk.counts"), fmt.Sprint(2*rows*rounds); got != want {
		t.Errorf("the rows add up to %s, want %s", got, want)
	}
	for _, g := range groups {
		if err := g.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
	// Statistics of a session are written when it ends, or within a second.
	eventually(t, 10*time.Second, "the statistics count the commits", func() bool {
		return text(t, db.Pool, "SELECT (xact_commit > $1)::text FROM pg_stat_database WHERE datname = current_database()", statements.Load()/2) == "true"
	})
	if got := text(t, db.Pool, "SELECT deadlocks::text FROM pg_stat_database WHERE datname = current_database()"); got != "0" {
		t.Errorf("%s deadlocks, want none", got)
	}
}
