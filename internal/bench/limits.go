package bench

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-run/holdfast/internal/pg"
)

// Names of the limits.
const (
	limitCommit  = "commit"
	limitGroup   = "group"
	limitPublish = "publish"
	limitStart   = "start"
	limitHTTP    = "http"
)

// LimitDocs say what the limits are.
var LimitDocs = []StageDoc{
	{limitCommit, "one row per commit: a table of two columns, an INSERT per transaction, a connection per client"},
	{limitGroup, "group commit of one row: the same row, merged as internal/pg/group.go merges"},
	{limitPublish, "a message of the size of a webhook stored by JetStream and confirmed, as many on their way as there are clients"},
	{limitStart, "group commit of a start's rows: what the door stores for a webhook, by the door's own statement, without a request"},
	{limitHTTP, "HTTP answered without work: the same requests to a server that answers 202 at once"},
}

// limitsWorkload is what the machine can do without Holdfast.
var limitsWorkload = Workload{Name: "limits", Unit: "operations", Doc: "What the machine does without Holdfast.", run: measureLimits}

// pair is what the limits write: the body of a webhook under a key that sorts.
type pair struct{ id, body string }

const (
	limitTable = `CREATE SCHEMA bench; CREATE TABLE bench.rows (id text PRIMARY KEY, body text NOT NULL)`
	limitOne   = `INSERT INTO bench.rows (id, body) VALUES ($1, $2)`
	limitMany  = `INSERT INTO bench.rows (id, body) SELECT id, body FROM unnest($1::text[], $2::text[]) AS i(id, body)`
)

const limitStream = "BENCH"

func measureLimits(ctx context.Context, l *lab) error {
	if _, err := l.pool.Exec(ctx, limitTable); err != nil {
		return err
	}
	if _, err := l.js.CreateStream(ctx, jetstream.StreamConfig{Name: limitStream, Subjects: []string{"bench.>"}, Storage: jetstream.FileStorage}); err != nil {
		return err
	}
	var number atomic.Int64
	next := func() pair {
		n := number.Add(1)
		return pair{fmt.Sprintf("%012d", n), string(appendBody(nil, int(n)))}
	}
	single := func(ctx context.Context) error {
		n := next()
		_, err := l.pool.Exec(ctx, limitOne, n.id, n.body)
		return err
	}
	group := bareGroup(l.pool)
	merged := func(ctx context.Context) error {
		_, err := group.Do(ctx, next())
		return err
	}
	publish := func(ctx context.Context) error {
		n := next()
		_, err := l.js.PublishMsg(ctx, &nats.Msg{Subject: "bench." + n.id, Data: []byte(n.body), Header: nats.Header{jetstream.MsgIDHeader: {n.id}}})
		return err
	}
	for _, one := range []struct {
		name, unit string
		clients    int
		do         func(context.Context) error
	}{
		{limitCommit, "commits", few, single},
		{limitCommit, "commits", many, single},
		{limitGroup, "rows", many, merged},
		{limitGroup, "rows", mostAtOnce, merged},
		{limitPublish, "messages", few, publish},
		{limitPublish, "messages", mostAtOnce, publish},
	} {
		if err := l.limit(ctx, one.name, one.unit, one.clients, one.do); err != nil {
			return err
		}
	}
	return group.Stop(ctx)
}

// limit measures one of them.
func (l *lab) limit(ctx context.Context, name, unit string, clients int, do func(context.Context) error) error {
	return l.limitOf(ctx, name, unit, clients, func(ctx context.Context, short bool) (sample, error) {
		d := l.c.Duration
		if short {
			d /= 10
		}
		return hammer(ctx, clients, d, do)
	})
}

// limitOf measures what flood does, after a short run of it.
func (l *lab) limitOf(ctx context.Context, name, unit string, clients int, flood func(ctx context.Context, short bool) (sample, error)) error {
	l.c.say("limit: %s, %d clients", name, clients)
	if _, err := flood(ctx, true); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	var s sample
	w, err := l.measure(ctx, func() (err error) {
		s, err = flood(ctx, false)
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r := w.row(name, clients, unit, len(s.took))
	s.into(&r)
	l.report.Limits = append(l.report.Limits, r)
	return nil
}

// bareGroup is the least that a group commit can do.
func bareGroup(pool *pgxpool.Pool) *pg.Group[pair, struct{}] {
	return &pg.Group[pair, struct{}]{
		Name: "bench",
		Key:  func(r pair) string { return r.id },
		Many: func(ctx context.Context, items []pair) ([]struct{}, error) {
			ids, bodies := make([]string, len(items)), make([]string, len(items))
			for i, r := range items {
				ids[i], bodies[i] = r.id, r.body
			}
			_, err := pool.Exec(ctx, limitMany, ids, bodies)
			return make([]struct{}, len(items)), err
		},
		One: func(ctx context.Context, r pair) (struct{}, error) {
			_, err := pool.Exec(ctx, limitOne, r.id, r.body)
			return struct{}{}, err
		},
	}
}
