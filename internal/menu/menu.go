// Package menu reads the numbers beside the entries of the console's menu, through the
// function that the console's schema has for the doors of all services. They are counted
// at most once a second for all who ask in this process.
package menu

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/web"
)

const (
	countedFor = time.Second // how long numbers count, for whoever asks
	keptFor    = time.Minute // how long those that nobody asks for stay in memory
	most       = 2000        // rows that are looked at for a number
)

// Counter reads numbers through a pool whose role is that of a service with a door. It
// is safe for concurrent use.
type Counter struct {
	pool  *pgxpool.Pool
	mu    sync.Mutex
	known map[string]*numbers
}

type numbers struct {
	mu     sync.Mutex // held while they are read
	counts []web.Count
	at     time.Time
}

// New returns a counter that reads through pool.
func New(pool *pgxpool.Pool) *Counter { return &Counter{pool: pool, known: map[string]*numbers{}} }

const count = `SELECT running, more, approvals, doubts, stops FROM catalog.menu($1, $2)`

// Counts are the numbers of a namespace, at most a second old.
func (c *Counter) Counts(ctx context.Context, namespace string) ([]web.Count, error) {
	n := c.of(namespace)
	n.mu.Lock()
	defer n.mu.Unlock()
	if time.Since(n.at) < countedFor {
		return n.counts, nil
	}
	m := web.Numbers{Most: most}
	if err := c.pool.QueryRow(ctx, count, namespace, most).Scan(&m.Running, &m.More, &m.Approvals, &m.Doubts, &m.Stops); err != nil {
		return nil, fmt.Errorf("count for the menu: %w", err)
	}
	n.counts, n.at = m.Counts(), time.Now()
	return n.counts, nil
}

// of returns the numbers of a namespace and forgets others that are old.
func (c *Counter) of(namespace string) *numbers {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.known[namespace]; n != nil {
		return n
	}
	for name, n := range c.known {
		if n.mu.TryLock() {
			if time.Since(n.at) > keptFor {
				delete(c.known, name)
			}
			n.mu.Unlock()
		}
	}
	n := &numbers{}
	c.known[namespace] = n
	return n
}
