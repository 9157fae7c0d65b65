// Package catalog reads definitions: immutable versions by digest, and which
// version a name means now. Every service reads the same views with its own
// role; only the console writes them.
package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// ErrNotFound says that no such name or version is in the namespace.
var ErrNotFound = errors.New("no such definition")

// ErrDamaged says that a stored body is not the one its digest names.
var ErrDamaged = errors.New("definition is damaged")

// Version is one immutable version of a definition.
type Version struct {
	Namespace string
	Kind      string // spec.KindAgent, ...
	Name      string
	Digest    events.Digest
	Body      json.RawMessage // canonical JSON
}

// Catalog reads definitions through pool. It is safe for concurrent use.
type Catalog struct {
	pool *pgxpool.Pool

	mu      sync.Mutex
	decoded map[key]*spec.Document
}

type key struct {
	namespace, kind string
	digest          events.Digest
}

// most bounds the decoded versions that are kept. They never change, so any
// may go.
const most = 2000

// New returns a catalog that reads through pool.
func New(pool *pgxpool.Pool) *Catalog {
	return &Catalog{pool: pool, decoded: map[key]*spec.Document{}}
}

const current = `
SELECT v.namespace, v.kind, v.name, v.digest, v.body
FROM catalog.v_current c JOIN catalog.v_versions v USING (namespace, kind, name, digest)
WHERE c.namespace = $1 AND c.kind = $2 AND c.name = $3`

// Current returns the version that a name means now; ErrNotFound when it means
// none. It always asks the database.
func (c *Catalog) Current(ctx context.Context, namespace, kind, name string) (Version, error) {
	v, err := c.one(ctx, current, namespace, kind, name)
	if err != nil {
		return Version{}, fmt.Errorf("%s %q in namespace %s: %w", kind, name, namespace, err)
	}
	return v, nil
}

const byDigest = `
SELECT namespace, kind, name, digest, body FROM catalog.v_versions
WHERE namespace = $1 AND kind = $2 AND digest = $3 LIMIT 1`

// Get returns the version with a digest, whether a name still means it or not.
func (c *Catalog) Get(ctx context.Context, namespace, kind string, digest events.Digest) (Version, error) {
	v, err := c.one(ctx, byDigest, namespace, kind, string(digest))
	if err != nil {
		return Version{}, fmt.Errorf("%s %s in namespace %s: %w", kind, digest, namespace, err)
	}
	return v, nil
}

const list = `
SELECT v.namespace, v.kind, v.name, v.digest, v.body
FROM catalog.v_current c JOIN catalog.v_versions v USING (namespace, kind, name, digest)
WHERE c.kind = $1 AND ($2 = '' OR c.namespace = $2) AND (c.namespace, c.name) > ($3, $4)
ORDER BY c.namespace, c.name LIMIT 500`

// List returns what all names of a kind mean now, in the order of namespace and
// name; namespace "" is all of them.
func (c *Catalog) List(ctx context.Context, namespace, kind string) ([]Version, error) {
	var out []Version
	for last := (Version{}); ; last = out[len(out)-1] {
		rows, err := c.pool.Query(ctx, list, kind, namespace, last.Namespace, last.Name)
		if err != nil {
			return nil, fmt.Errorf("list %s definitions: %w", kind, err)
		}
		page, err := pgx.CollectRows(rows, scan)
		if err != nil {
			return nil, fmt.Errorf("list %s definitions: %w", kind, err)
		}
		out = append(out, page...)
		if len(page) < 500 {
			return out, nil
		}
	}
}

func (c *Catalog) one(ctx context.Context, query string, args ...any) (Version, error) {
	rows, err := c.pool.Query(ctx, query, args...)
	if err != nil {
		return Version{}, err
	}
	v, err := pgx.CollectExactlyOneRow(rows, scan)
	if errors.Is(err, pgx.ErrNoRows) {
		return Version{}, ErrNotFound
	}
	return v, err
}

func scan(row pgx.CollectableRow) (v Version, err error) {
	err = row.Scan(&v.Namespace, &v.Kind, &v.Name, &v.Digest, &v.Body)
	return v, err
}

// document decodes a version, once per process.
func (c *Catalog) document(ctx context.Context, namespace, kind string, digest events.Digest) (*spec.Document, error) {
	k := key{namespace, kind, digest}
	c.mu.Lock()
	d := c.decoded[k]
	c.mu.Unlock()
	if d != nil {
		return d, nil
	}
	v, err := c.Get(ctx, namespace, kind, digest)
	if err != nil {
		return nil, err
	}
	if got := events.DigestOf(v.Body); got != digest {
		return nil, fmt.Errorf("%s %s in namespace %s: its body has digest %s: %w", kind, v.Name, namespace, got, ErrDamaged)
	}
	if d, err = spec.Decode(v.Body); err != nil {
		return nil, fmt.Errorf("%s %s in namespace %s: %w: %w", kind, v.Name, namespace, ErrDamaged, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for old := range c.decoded {
		if len(c.decoded) < most {
			break
		}
		delete(c.decoded, old)
	}
	c.decoded[k] = d
	return d, nil
}

// Agent returns the agent with a digest. The result is shared: do not change it.
func (c *Catalog) Agent(ctx context.Context, namespace string, d events.Digest) (*spec.Agent, error) {
	return of(c, ctx, namespace, spec.KindAgent, d, func(x *spec.Document) *spec.Agent { return x.Agent })
}

// Flow is Agent for flows.
func (c *Catalog) Flow(ctx context.Context, namespace string, d events.Digest) (*spec.Flow, error) {
	return of(c, ctx, namespace, spec.KindFlow, d, func(x *spec.Document) *spec.Flow { return x.Flow })
}

// Tool is Agent for tools.
func (c *Catalog) Tool(ctx context.Context, namespace string, d events.Digest) (*spec.Tool, error) {
	return of(c, ctx, namespace, spec.KindTool, d, func(x *spec.Document) *spec.Tool { return x.Tool })
}

// Model is Agent for models.
func (c *Catalog) Model(ctx context.Context, namespace string, d events.Digest) (*spec.Model, error) {
	return of(c, ctx, namespace, spec.KindModel, d, func(x *spec.Document) *spec.Model { return x.Model })
}

// Webhook is Agent for webhooks.
func (c *Catalog) Webhook(ctx context.Context, namespace string, d events.Digest) (*spec.Webhook, error) {
	return of(c, ctx, namespace, spec.KindWebhook, d, func(x *spec.Document) *spec.Webhook { return x.Webhook })
}

// Schedule is Agent for schedules.
func (c *Catalog) Schedule(ctx context.Context, namespace string, d events.Digest) (*spec.Schedule, error) {
	return of(c, ctx, namespace, spec.KindSchedule, d, func(x *spec.Document) *spec.Schedule { return x.Schedule })
}

// Budget is Agent for budgets.
func (c *Catalog) Budget(ctx context.Context, namespace string, d events.Digest) (*spec.Budget, error) {
	return of(c, ctx, namespace, spec.KindBudget, d, func(x *spec.Document) *spec.Budget { return x.Budget })
}

func of[T any](c *Catalog, ctx context.Context, namespace, kind string, d events.Digest, part func(*spec.Document) *T) (*T, error) {
	doc, err := c.document(ctx, namespace, kind, d)
	if err != nil {
		return nil, err
	}
	v := part(doc)
	if v == nil {
		return nil, fmt.Errorf("%s %s in namespace %s is a %s: %w", kind, d, namespace, doc.Kind, ErrDamaged)
	}
	return v, nil
}
