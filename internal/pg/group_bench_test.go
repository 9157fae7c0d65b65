package pg_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgdev"
)

// BenchmarkGroup commits one small row at a time from 1, 64 and 512 goroutines,
// through a Group and by a commit each, on a Postgres with fsync. Only the ratio
// of two neighbours says something.
func BenchmarkGroup(b *testing.B) {
	pool := durable(b)
	g := notes(pool)
	var n atomic.Int64
	for _, clients := range []int{1, 64, 512} {
		for name, put := range map[string]func(context.Context, note) (string, error){"merged": g.Do, "each": g.One} {
			b.Run(fmt.Sprintf("%s/%d", name, clients), func(b *testing.B) {
				var left atomic.Int64
				left.Store(int64(b.N))
				var wg sync.WaitGroup
				b.ResetTimer()
				for range clients {
					wg.Go(func() {
						for left.Add(-1) >= 0 {
							if _, err := put(b.Context(), note{id: fmt.Sprintf("b%012d", n.Add(1)), n: "1", body: `{"a": 1}`}); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}

// durable is a pool of a server that loses nothing, unlike the tests'.
func durable(b *testing.B) *pgxpool.Pool {
	b.Helper()
	s, err := pgdev.Start(b.Context(), pgdev.Config{Dir: filepath.Join(b.TempDir(), "postgres")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(b.Context()), 20*time.Second)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			b.Error(err)
		}
	})
	pool, err := pg.Open(b.Context(), pg.Config{URL: s.URL(), MaxConns: 64})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	if _, err := pool.Exec(b.Context(), notesTable); err != nil {
		b.Fatal(err)
	}
	return pool
}
