package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/pg"
)

// row is what the limits write: the body of a webhook under a key that sorts.
type row struct{ id, body string }

const (
	limitTable = `CREATE SCHEMA bench; CREATE TABLE bench.rows (id text PRIMARY KEY, body text NOT NULL)`
	limitOne   = `INSERT INTO bench.rows (id, body) VALUES ($1, $2)`
	limitMany  = `INSERT INTO bench.rows (id, body) SELECT id, body FROM unnest($1::text[], $2::text[]) AS i(id, body)`
)

// measureLimits fills in what the machine can do without Holdfast.
func measureLimits(ctx context.Context, c Config, pool *pgxpool.Pool, m meter, r *Report) error {
	if _, err := pool.Exec(ctx, limitTable); err != nil {
		return err
	}
	var number atomic.Int64
	next := func() row {
		n := number.Add(1)
		return row{fmt.Sprintf("%012d", n), string(appendBody(nil, int(n)))}
	}
	single := func(ctx context.Context) error {
		n := next()
		_, err := pool.Exec(ctx, limitOne, n.id, n.body)
		return err
	}
	group := bareGroup(pool)
	merged := func(ctx context.Context) error {
		_, err := group.Do(ctx, next())
		return err
	}
	for _, l := range []struct {
		name    string
		clients int
		do      func(context.Context) error
		into    *Row
	}{
		{"one row per commit", few, single, &r.Limits.SingleFew},
		{"one row per commit", many, single, &r.Limits.SingleMany},
		{"group commit of one row", many, merged, &r.Limits.Group},
	} {
		fmt.Fprintf(c.Progress, "limit: %s, %d clients ...\n", l.name, l.clients)
		if _, err := hammer(ctx, l.clients, c.Duration/10, l.do); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		begun, err := m.read()
		if err != nil {
			return err
		}
		s, err := hammer(ctx, l.clients, c.Duration, l.do)
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		ended, err := m.read()
		if err != nil {
			return err
		}
		s.cpu = ended.since(begun)
		*l.into = s.row(l.clients)
	}
	if err := group.Stop(ctx); err != nil {
		return err
	}
	if err := measureRows(ctx, c, pool, m, r); err != nil {
		return err
	}
	fmt.Fprintf(c.Progress, "limit: requests answered without any work, %d senders ...\n", many)
	s, err := bareHTTP(ctx, c.Duration)
	r.Limits.HTTP = s.row(many)
	return err
}

// measureRows fills in how fast the database takes what one start writes.
func measureRows(ctx context.Context, c Config, pool *pgxpool.Pool, m meter, r *Report) error {
	const name = "group commit of a start's rows"
	fmt.Fprintf(c.Progress, "limit: %s, %d clients ...\n", name, many)
	insert := c.Insert(pool)
	var number atomic.Int64
	do := func(ctx context.Context) error { return insert(ctx, appendBody(nil, int(number.Add(1)))) }
	if _, err := hammer(ctx, many, c.Duration/10, do); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	begun, err := m.read()
	if err != nil {
		return err
	}
	s, err := hammer(ctx, many, c.Duration, do)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	ended, err := m.read()
	if err != nil {
		return err
	}
	s.cpu = ended.since(begun)
	r.Limits.Rows = s.row(many)
	return nil
}

// bareGroup is the least that a group commit can do.
func bareGroup(pool *pgxpool.Pool) *pg.Group[row, struct{}] {
	return &pg.Group[row, struct{}]{
		Name: "bench",
		Key:  func(r row) string { return r.id },
		Many: func(ctx context.Context, items []row) ([]struct{}, error) {
			ids, bodies := make([]string, len(items)), make([]string, len(items))
			for i, r := range items {
				ids[i], bodies[i] = r.id, r.body
			}
			_, err := pool.Exec(ctx, limitMany, ids, bodies)
			return make([]struct{}, len(items)), err
		},
		One: func(ctx context.Context, r row) (struct{}, error) {
			_, err := pool.Exec(ctx, limitOne, r.id, r.body)
			return struct{}{}, err
		},
	}
}

// bareHTTP is a server that reads the same requests and answers at once: what
// the loopback, the HTTP library and the senders cost by themselves.
func bareHTTP(ctx context.Context, d time.Duration) (sample, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return sample{}, err
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the sender sees what is wrong
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, `{"run_id":"00000000-0000-7000-8000-000000000000","status":"queued"}`+"\n")
	})}
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(l) }) // ends with ErrServerClosed
	defer wg.Wait()
	defer server.Close()
	if _, err := flood(ctx, l.Addr().String(), many, d/10); err != nil {
		return sample{}, err
	}
	return flood(ctx, l.Addr().String(), many, d)
}
