package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Version is one immutable version of a definition.
type Version struct {
	Namespace string
	Kind      string // spec.KindAgent, ...
	Name      string
	Digest    events.Digest
	Body      json.RawMessage
}

// Catalog reads definitions. It is safe for concurrent use.
type Catalog struct {
	pool  *pgxpool.Pool
	keyed *pg.Keyed
	seen  *cache
	asks  flights
}

// New reads through pool, whose role must be granted the catalog's views.
func New(pool *pgxpool.Pool) *Catalog {
	return &Catalog{pool: pool, keyed: pg.NewKeyed(pool), seen: newCache(maxEntries, maxBytes)}
}

// Name is a definition by its name.
type Name struct{ Namespace, Kind, Name string }

const queryCurrent = `
SELECT i.n::int, c.digest
FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS i(namespace, kind, name, n)
JOIN catalog.v_current c ON c.namespace = i.namespace AND c.kind = i.kind AND c.name = i.name
LIMIT 100000`

// Current returns what a name means now. ErrNotFound when it means nothing.
// Callers who ask at the same time share a query, which begins after they asked.
func (c *Catalog) Current(ctx context.Context, namespace, kind, name string) (Version, error) {
	digests, err := c.Digests(ctx, Name{namespace, kind, name})
	if err != nil {
		return Version{}, err
	}
	if digests[0] == "" {
		return Version{}, fmt.Errorf("%s %q in namespace %s: %w", kind, name, namespace, ErrNotFound)
	}
	return c.Get(ctx, namespace, kind, digests[0])
}

// Digests returns which versions names mean, all at one moment, which is after the
// call; empty for a name that means nothing.
func (c *Catalog) Digests(ctx context.Context, names ...Name) ([]events.Digest, error) {
	return c.asks.do(ctx, names, c.current)
}

// readPatience is how long a question is asked again while Postgres comes back.
// After a restart each connection of the pool may fail once.
const readPatience = time.Second

// current asks for many names at once.
func (c *Catalog) current(ctx context.Context, names []Name) (map[Name]events.Digest, error) {
	var columns [3][]string
	for _, n := range names {
		columns[0], columns[1], columns[2] = append(columns[0], n.Namespace), append(columns[1], n.Kind), append(columns[2], n.Name)
	}
	means := make(map[Name]events.Digest, len(names))
	patient, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	err := pg.Retry(patient, func(context.Context) error { // patience ends no query
		b := &pgx.Batch{}
		b.Queue(queryCurrent, columns[0], columns[1], columns[2]).Query(func(rows pgx.Rows) error {
			var n int
			var digest string
			_, err := pgx.ForEachRow(rows, []any{&n, &digest}, func() error { means[names[n-1]] = events.Digest(digest); return nil })
			return err
		})
		return c.keyed.Send(ctx, b)
	})
	if err != nil {
		return nil, fmt.Errorf("read what %d names mean: %w", len(names), err)
	}
	return means, nil
}

const queryVersion = `
SELECT name, digest, body::text
FROM catalog.v_versions
WHERE namespace = $1 AND kind = $2 AND digest = $3
ORDER BY name
LIMIT 1`

// Get returns a version by its digest. ErrNotFound when the namespace does not
// have it, ErrCorrupt (a terminal fault) when its stored body is another.
func (c *Catalog) Get(ctx context.Context, namespace, kind string, digest events.Digest) (Version, error) {
	e, err := c.get(ctx, namespace, kind, digest)
	if err != nil {
		return Version{}, err
	}
	return e.version, nil
}

func (c *Catalog) get(ctx context.Context, namespace, kind string, digest events.Digest) (*entry, error) {
	if e := c.seen.get(key{namespace, kind, digest}); e != nil {
		return e, nil
	}
	return c.read(ctx, namespace, kind, fmt.Sprintf("%s version %s", kind, digest), queryVersion, namespace, kind, string(digest))
}

// read takes one row of name, digest and body and remembers it when it is sound.
func (c *Catalog) read(ctx context.Context, namespace, kind, what, query string, args ...any) (*entry, error) {
	var name, digest, body string
	err := c.pool.QueryRow(ctx, query, args...).Scan(&name, &digest, &body)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, fmt.Errorf("%s in namespace %s: %w", what, namespace, ErrNotFound)
	case err != nil:
		return nil, fmt.Errorf("read %s in namespace %s: %w", what, namespace, err)
	}
	v := Version{namespace, kind, name, events.Digest(digest), json.RawMessage(body)}
	if err := check(v); err != nil {
		return nil, err
	}
	return c.seen.add(v), nil
}

func check(v Version) error {
	if got := events.DigestOf(v.Body); got != v.Digest {
		return fault.Terminal("definition_corrupt", fmt.Errorf("%s %q in namespace %s is stored as %s but has %s: %w",
			v.Kind, v.Name, v.Namespace, v.Digest, got, ErrCorrupt))
	}
	return nil
}

// pageSize is how many names List takes at a time.
const pageSize = 500

const queryList = `
SELECT namespace, name, digest
FROM catalog.v_current
WHERE kind = $1 AND ($2::text = '' OR namespace = $2) AND (namespace, name) > ($3, $4)
ORDER BY namespace, name
LIMIT $5`

const queryBodies = `
SELECT v.namespace, v.name, v.digest, v.body::text
FROM unnest($2::text[], $3::text[]) AS want(namespace, digest)
JOIN catalog.v_versions v ON v.kind = $1 AND v.namespace = want.namespace AND v.digest = want.digest
ORDER BY v.namespace, v.name
LIMIT $4`

// List returns the current version of every name of a kind, ordered by
// namespace and name; of all namespaces when namespace is "". One damaged body
// must not hide the others: its Version has no Body, and Get says why.
func (c *Catalog) List(ctx context.Context, namespace, kind string) ([]Version, error) {
	var out []Version
	after := [2]string{}
	for {
		rows, err := c.pool.Query(ctx, queryList, kind, namespace, after[0], after[1], pageSize)
		if err != nil {
			return nil, fmt.Errorf("list %ss: %w", kind, err)
		}
		page, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Version, error) {
			v := Version{Kind: kind}
			return v, row.Scan(&v.Namespace, &v.Name, (*string)(&v.Digest))
		})
		if err != nil {
			return nil, fmt.Errorf("list %ss: %w", kind, err)
		}
		if err := c.bodies(ctx, kind, page); err != nil {
			return nil, err
		}
		out = append(out, page...)
		if len(page) < pageSize {
			return out, nil
		}
		last := page[len(page)-1]
		after = [2]string{last.Namespace, last.Name}
	}
}

// bodies fills in the bodies of a page, from memory where it can.
func (c *Catalog) bodies(ctx context.Context, kind string, page []Version) error {
	var namespaces, digests []string
	missing := map[key][]int{}
	for i := range page {
		v := &page[i]
		k := key{v.Namespace, kind, v.Digest}
		if e := c.seen.get(k); e != nil {
			v.Body = e.version.Body
			continue
		}
		if missing[k] == nil {
			namespaces, digests = append(namespaces, v.Namespace), append(digests, string(v.Digest))
		}
		missing[k] = append(missing[k], i)
	}
	if len(missing) == 0 {
		return nil
	}
	rows, err := c.pool.Query(ctx, queryBodies, kind, namespaces, digests, pageSize)
	if err != nil {
		return fmt.Errorf("read %ss: %w", kind, err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Version, error) {
		v, body := Version{Kind: kind}, ""
		err := row.Scan(&v.Namespace, &v.Name, (*string)(&v.Digest), &body)
		v.Body = json.RawMessage(body)
		return v, err
	})
	if err != nil {
		return fmt.Errorf("read %ss: %w", kind, err)
	}
	for _, v := range found {
		if check(v) != nil {
			continue
		}
		e := c.seen.add(v)
		for _, i := range missing[key{v.Namespace, kind, v.Digest}] {
			page[i].Body = e.version.Body
		}
	}
	return nil
}

// decoded returns the version as a value. It is decoded once and shared: treat
// it as read-only.
func decoded[T any](ctx context.Context, c *Catalog, namespace, kind string, digest events.Digest, pick func(*spec.Document) *T) (*T, error) {
	e, err := c.get(ctx, namespace, kind, digest)
	if err != nil {
		return nil, err
	}
	doc, err := e.decode()
	if err != nil {
		return nil, fmt.Errorf("%s %q %s in namespace %s: %w", kind, e.version.Name, digest, namespace, err)
	}
	if doc.Kind != kind || doc.Name != e.version.Name {
		return nil, fault.Terminal("definition_corrupt", fmt.Errorf("%s %q %s in namespace %s holds %s %q: %w",
			kind, e.version.Name, digest, namespace, doc.Kind, doc.Name, ErrCorrupt))
	}
	return pick(doc), nil
}

// Agent returns a version of an agent. Like its siblings it returns ErrNotFound
// when the namespace does not have it and ErrCorrupt when its body is damaged.
// The value is shared: do not change it.
func (c *Catalog) Agent(ctx context.Context, namespace string, digest events.Digest) (*spec.Agent, error) {
	return decoded(ctx, c, namespace, spec.KindAgent, digest, func(d *spec.Document) *spec.Agent { return d.Agent })
}

// Flow returns a version of a flow.
func (c *Catalog) Flow(ctx context.Context, namespace string, digest events.Digest) (*spec.Flow, error) {
	return decoded(ctx, c, namespace, spec.KindFlow, digest, func(d *spec.Document) *spec.Flow { return d.Flow })
}

// Tool returns a version of a tool.
func (c *Catalog) Tool(ctx context.Context, namespace string, digest events.Digest) (*spec.Tool, error) {
	return decoded(ctx, c, namespace, spec.KindTool, digest, func(d *spec.Document) *spec.Tool { return d.Tool })
}

// Model returns a version of a model.
func (c *Catalog) Model(ctx context.Context, namespace string, digest events.Digest) (*spec.Model, error) {
	return decoded(ctx, c, namespace, spec.KindModel, digest, func(d *spec.Document) *spec.Model { return d.Model })
}

// Webhook returns a version of a webhook.
func (c *Catalog) Webhook(ctx context.Context, namespace string, digest events.Digest) (*spec.Webhook, error) {
	return decoded(ctx, c, namespace, spec.KindWebhook, digest, func(d *spec.Document) *spec.Webhook { return d.Webhook })
}

// Schedule returns a version of a schedule.
func (c *Catalog) Schedule(ctx context.Context, namespace string, digest events.Digest) (*spec.Schedule, error) {
	return decoded(ctx, c, namespace, spec.KindSchedule, digest, func(d *spec.Document) *spec.Schedule { return d.Schedule })
}

// Budget returns a version of a budget.
func (c *Catalog) Budget(ctx context.Context, namespace string, digest events.Digest) (*spec.Budget, error) {
	return decoded(ctx, c, namespace, spec.KindBudget, digest, func(d *spec.Document) *spec.Budget { return d.Budget })
}

// MCPServer returns a version of an MCP server.
func (c *Catalog) MCPServer(ctx context.Context, namespace string, digest events.Digest) (*spec.MCPServer, error) {
	return decoded(ctx, c, namespace, spec.KindMCPServer, digest, func(d *spec.Document) *spec.MCPServer { return d.MCPServer })
}

// Channel returns a version of a channel.
func (c *Catalog) Channel(ctx context.Context, namespace string, digest events.Digest) (*spec.Channel, error) {
	return decoded(ctx, c, namespace, spec.KindChannel, digest, func(d *spec.Document) *spec.Channel { return d.Channel })
}
