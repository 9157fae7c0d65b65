package pg_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// desk is a table that is announced as the package comment says, and a view
// where its receiver says what it has.
type desk struct {
	t    *testing.T
	pool *pgxpool.Pool

	mu     sync.Mutex
	sent   []string // "<ce-id> <message id>"
	refuse func(m events.Message) error
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, pool: pgtest.New(t).Pool}
	exec(t, d.pool, `CREATE SCHEMA desk`)
	exec(t, d.pool, `
CREATE TABLE desk.deliveries (
    cause            text PRIMARY KEY,
    announced_at     timestamptz,
    landed_at        timestamptz,
    next_announce_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    announce_count   int NOT NULL DEFAULT 0)`)
	exec(t, d.pool, `CREATE INDEX deliveries_announce ON desk.deliveries (next_announce_at) WHERE landed_at IS NULL`)
	exec(t, d.pool, `CREATE TABLE desk.v_landed (cause text PRIMARY KEY)`)
	return d
}

func (d *desk) insert(ids ...string) {
	d.t.Helper()
	for _, id := range ids {
		exec(d.t, d.pool, "INSERT INTO desk.deliveries (cause) VALUES ($1)", id)
	}
}

func (d *desk) relay() *pg.Relay {
	return &pg.Relay{
		Name: "deliveries", Limit: 7,
		Load: func(ctx context.Context, limit int) ([]events.Message, error) {
			rows, err := d.pool.Query(ctx, `
SELECT cause, announce_count
FROM desk.deliveries
WHERE landed_at IS NULL AND next_announce_at <= clock_timestamp()
ORDER BY next_announce_at
LIMIT $1`, limit)
			if err != nil {
				return nil, err
			}
			return pgx.CollectRows(rows, func(row pgx.CollectableRow) (events.Message, error) {
				var id string
				var n int
				err := row.Scan(&id, &n)
				return events.Message{ID: id, MsgID: pg.AnnounceID(id, n)}, err
			})
		},
		Mark: func(ctx context.Context, ids []string) error {
			_, err := d.pool.Exec(ctx, `
UPDATE desk.deliveries
SET announced_at = coalesce(announced_at, clock_timestamp()),
    announce_count = announce_count + 1,
    next_announce_at = clock_timestamp() + least(interval '10 s' * 2 ^ least(announce_count, 5), interval '5 min')
WHERE cause = ANY ($1) AND landed_at IS NULL`, ids)
			return err
		},
		Landed: func(ctx context.Context) error {
			_, err := d.pool.Exec(ctx, `
UPDATE desk.deliveries d
SET landed_at = clock_timestamp()
FROM desk.v_landed l
WHERE d.landed_at IS NULL AND d.announced_at IS NOT NULL AND l.cause = d.cause`)
			return err
		},
		Publish: func(_ context.Context, m events.Message) error {
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.refuse != nil {
				if err := d.refuse(m); err != nil {
					return err
				}
			}
			d.sent = append(d.sent, m.ID+" "+m.MsgID)
			return nil
		},
	}
}

func (d *desk) run(r *pg.Relay) {
	d.t.Helper()
	ctx, cancel := context.WithCancel(d.t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	d.t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				d.t.Error(err)
			}
		case <-time.After(10 * time.Second):
			d.t.Error("the relay does not end with its context")
		}
	})
}

func (d *desk) refuseAll(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refuse = func(events.Message) error { return err }
}

func (d *desk) sentOf(id string) (ids []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.sent {
		if rest, ok := strings.CutPrefix(s, id+" "); ok {
			ids = append(ids, rest)
		}
	}
	return ids
}

func (d *desk) unannounced() string {
	d.t.Helper()
	return text(d.t, d.pool, "SELECT count(*)::text FROM desk.deliveries WHERE announced_at IS NULL")
}

func TestRelay_KickAnnouncesAtOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	r := d.relay()
	r.Every = time.Hour // only kicks
	d.run(r)
	time.Sleep(50 * time.Millisecond) // the first sweep is over
	for i := range 3 {
		begin := time.Now()
		d.insert(key(i))
		r.Kick()
		eventually(t, 5*time.Second, "announced", func() bool { return len(d.sentOf(key(i))) == 1 })
		if took := time.Since(begin); took > 500*time.Millisecond {
			t.Errorf("announced after %v", took)
		}
	}
}

// Publishing fails now and then, NATS is away for a while, marking fails too:
// every row is announced.
func TestRelay_LosesNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var n int
	d.refuse = func(m events.Message) error {
		if n++; n%5 == 0 {
			return errors.New("no answer")
		}
		return nil
	}
	r := d.relay()
	mark := r.Mark
	var marks int
	r.Mark = func(ctx context.Context, ids []string) error {
		if marks++; marks%3 == 0 {
			return errors.New("connection lost")
		}
		return mark(ctx, ids)
	}
	var ids []string
	for i := range 60 {
		ids = append(ids, key(i))
	}
	d.insert(ids...)
	d.run(r)
	eventually(t, 20*time.Second, "all announced", func() bool { return d.unannounced() == "0" })

	down := errors.New("not connected")
	d.refuseAll(down)
	d.insert("start:late")
	r.Kick()
	time.Sleep(300 * time.Millisecond) // it fails meanwhile
	if got := d.unannounced(); got != "1" {
		t.Errorf("%s rows unannounced while NATS is away, want 1", got)
	}
	d.refuseAll(nil)
	eventually(t, 10*time.Second, "announced when NATS is back", func() bool { return d.unannounced() == "0" })
	for _, id := range append(ids, "start:late") {
		if got := d.sentOf(id); len(got) == 0 || slices.ContainsFunc(got, func(s string) bool { return s != id }) {
			t.Errorf("%s was sent as %v, want under its own id each time", id, got)
		}
	}
}

// A row that was announced and did not land is announced again under a fresh
// message id; one that landed is not.
func TestRelay_AnnouncesAgainUntilLanded(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.insert("start:lost", "start:arrived")
	exec(t, d.pool, "INSERT INTO desk.v_landed VALUES ('start:arrived')")
	r := d.relay()
	r.Every = 50 * time.Millisecond
	d.run(r)
	for n := range 3 {
		eventually(t, 5*time.Second, "announced", func() bool { return len(d.sentOf("start:lost")) == n+1 })
		eventually(t, 5*time.Second, "counted", func() bool {
			return text(t, d.pool, "SELECT announce_count::text FROM desk.deliveries WHERE cause = 'start:lost'") == fmt.Sprint(n+1)
		})
		wait := text(t, d.pool, "SELECT round(extract(epoch FROM next_announce_at - clock_timestamp()))::text FROM desk.deliveries WHERE cause = 'start:lost'")
		if want := []string{"10", "20", "40"}[n]; wait != want {
			t.Errorf("announced again in %ss, want %ss", wait, want)
		}
		exec(t, d.pool, "UPDATE desk.deliveries SET next_announce_at = clock_timestamp()") // time passes
	}
	eventually(t, 5*time.Second, "a fourth", func() bool { return len(d.sentOf("start:lost")) == 4 })
	if got, want := fmt.Sprint(d.sentOf("start:lost")), "[start:lost start:lost:n1 start:lost:n2 start:lost:n3]"; got != want {
		t.Errorf("message ids %s, want %s", got, want)
	}
	if got := d.sentOf("start:arrived"); len(got) != 1 {
		t.Errorf("the landed row was announced as %v, want once", got)
	}
	if got := text(t, d.pool, "SELECT string_agg(cause, ' ') FROM desk.deliveries WHERE landed_at IS NOT NULL"); got != "start:arrived" {
		t.Errorf("landed %q", got)
	}
	exec(t, d.pool, "INSERT INTO desk.v_landed VALUES ('start:lost')")
	eventually(t, 5*time.Second, "landed", func() bool {
		return text(t, d.pool, "SELECT count(*)::text FROM desk.deliveries WHERE landed_at IS NULL") == "0"
	})
}

// Messages that no time can cure do not block those behind them.
func TestRelay_HopelessRowsStandAside(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var hopeless, good []string
	for i := range 20 { // more than Limit, and the longest due
		hopeless = append(hopeless, fmt.Sprintf("huge:%d", i))
		good = append(good, key(i))
	}
	d.insert(hopeless...)
	d.insert(good...)
	d.refuse = func(m events.Message) error {
		if strings.HasPrefix(m.ID, "huge:") {
			return fault.Terminal("message_too_large", errors.New("2 MiB"))
		}
		return nil
	}
	r := d.relay()
	r.Every = 50 * time.Millisecond
	d.run(r)
	eventually(t, 10*time.Second, "the good ones are announced", func() bool { return d.unannounced() == "20" })
}

// A view that cannot be read must not stop the announcing.
func TestRelay_LandedFails(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.insert("start:1")
	r := d.relay()
	r.Landed = func(context.Context) error { return errors.New("permission denied") }
	d.run(r)
	eventually(t, 5*time.Second, "announced", func() bool { return d.unannounced() == "0" })
}

func TestAnnounceID(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{-1: "a", 0: "a", 1: "a:n1", 12: "a:n12"} {
		if got := pg.AnnounceID("a", n); got != want {
			t.Errorf("AnnounceID(a, %d) = %q, want %q", n, got, want)
		}
	}
}
