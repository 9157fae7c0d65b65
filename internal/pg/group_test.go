package pg_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgtest"
)

// note is a change in these tests: a row of desk.notes.
type note struct {
	id, n, body, owner string
	size               int
}

const notesTable = `
CREATE SCHEMA desk;
CREATE TABLE desk.notes (id text PRIMARY KEY, n int NOT NULL, body jsonb NOT NULL, owner uuid, at timestamptz NOT NULL DEFAULT clock_timestamp())`

const (
	putNotes = `
INSERT INTO desk.notes (id, n, body, owner)
SELECT id, n::int, body::jsonb, nullif(owner, '')::uuid
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS i(id, n, body, owner)`
	putNote = `
INSERT INTO desk.notes (id, n, body, owner)
VALUES ($1::text, $2::text::int, $3::text::jsonb, nullif($4::text, '')::uuid)`
	findNotes = `SELECT id FROM desk.notes WHERE id = ANY ($1)`
)

// notes is a Group that inserts rows without forgiving any conflict, so that a
// row that is written twice shows.
func notes(pool *pgxpool.Pool) *pg.Group[note, string] {
	return &pg.Group[note, string]{
		Name:  "notes",
		Key:   func(n note) string { return n.id },
		Bytes: func(n note) int { return n.size },
		Many: func(ctx context.Context, items []note) ([]string, error) {
			ids, ns, bodies, owners := columns(items)
			if _, err := pool.Exec(ctx, putNotes, ids, ns, bodies, owners); err != nil {
				return nil, err
			}
			return ids, nil
		},
		One: func(ctx context.Context, n note) (string, error) {
			_, err := pool.Exec(ctx, putNote, n.id, n.n, n.body, n.owner)
			return n.id, err
		},
		Found: func(ctx context.Context, items []note) ([]*string, error) {
			ids, _, _, _ := columns(items)
			rows, err := pool.Query(ctx, findNotes, ids)
			if err != nil {
				return nil, err
			}
			there, err := pgx.CollectRows(rows, pgx.RowTo[string])
			found := make([]*string, len(items))
			for i := range items {
				if slices.Contains(there, ids[i]) {
					found[i] = &ids[i]
				}
			}
			return found, err
		},
	}
}

func columns(items []note) (ids, ns, bodies, owners []string) {
	for _, n := range items {
		ids, ns, bodies, owners = append(ids, n.id), append(ns, n.n), append(bodies, n.body), append(owners, n.owner)
	}
	return ids, ns, bodies, owners
}

func clean(i int) note { return note{id: fmt.Sprintf("n%05d", i), n: "1", body: `{"a": 1}`} }

// gate holds the first batch of a Group back until it is opened, so that what is
// sent meanwhile is in the next.
type gate struct {
	first   sync.Once
	entered chan struct{}
	open    chan struct{}
}

func (g *gate) pass() {
	g.first.Do(func() {
		close(g.entered)
		<-g.open
	})
}

// held puts a gate before a Group and fills the flusher with one item.
func held(t *testing.T, g *pg.Group[note, string]) (open func()) {
	t.Helper()
	gate := &gate{entered: make(chan struct{}), open: make(chan struct{})}
	many, one := g.Many, g.One
	g.Many = func(ctx context.Context, items []note) ([]string, error) {
		gate.pass()
		return many(ctx, items)
	}
	if one != nil {
		g.One = func(ctx context.Context, n note) (string, error) {
			gate.pass()
			return one(ctx, n)
		}
	}
	done := make(chan error, 1)
	go func() {
		_, err := g.Do(t.Context(), note{id: "first", n: "0", body: "{}"})
		done <- err
	}()
	<-gate.entered
	return func() {
		close(gate.open)
		if err := <-done; err != nil {
			t.Errorf("the first item: %v", err)
		}
	}
}

// together sends items at once while the flusher is held, and returns the error
// of each.
func together(t *testing.T, g *pg.Group[note, string], items []note) []error {
	t.Helper()
	open := held(t, g)
	errs := make([]error, len(items))
	var wg sync.WaitGroup
	for i, n := range items {
		wg.Go(func() {
			got, err := g.Do(t.Context(), n)
			if errs[i] = err; err == nil && got != n.id {
				t.Errorf("item %s was answered with the result of %s", n.id, got)
			}
		})
	}
	eventually(t, 10*time.Second, "every item waits", func() bool { return g.Waiting() == len(items) })
	open()
	wg.Wait()
	return errs
}

func setupNotes(t *testing.T) *pgtest.DB {
	t.Helper()
	db := pgtest.New(t)
	exec(t, db.Pool, notesTable)
	return db
}

func TestGroup_MergesAndAnswersEach(t *testing.T) {
	t.Parallel()
	db := setupNotes(t)
	g := notes(db.Pool)
	var sizes []int // only the flusher appends
	many := g.Many
	g.Many = func(ctx context.Context, items []note) ([]string, error) {
		sizes = append(sizes, len(items))
		if !slices.IsSortedFunc(items, func(a, b note) int { return strings.Compare(a.id, b.id) }) {
			t.Error("a batch is not sorted by key")
		}
		return many(ctx, items)
	}
	items := make([]note, 600)
	for i := range items {
		items[i] = clean(len(items) - i)
	}
	for i, err := range together(t, g, items) {
		if err != nil {
			t.Errorf("item %d: %v", i, err)
		}
	}
	if diff := cmp.Diff([]int{256, 256, 88}, sizes); diff != "" {
		t.Errorf("sizes of the batches (-want +got):\n%s", diff)
	}
	if got := text(t, db.Pool, "SELECT count(*)::text FROM desk.notes"); got != "601" {
		t.Errorf("%s rows, want 601", got)
	}
}

func TestGroup_SplitsByBytes(t *testing.T) {
	t.Parallel()
	db := setupNotes(t)
	g := notes(db.Pool)
	var sizes []int
	many, one := g.Many, g.One
	g.Many = func(ctx context.Context, items []note) ([]string, error) {
		sizes = append(sizes, len(items))
		return many(ctx, items)
	}
	g.One = func(ctx context.Context, n note) (string, error) {
		sizes = append(sizes, 1)
		return one(ctx, n)
	}
	items := []note{clean(1), clean(2), clean(3), clean(4)}
	for i := range items {
		items[i].size = 400 << 10
	}
	items = append(items, clean(5))
	items[4].size = 5 << 20 // larger than any batch: it goes alone
	for i, err := range together(t, g, items) {
		if err != nil {
			t.Errorf("item %d: %v", i, err)
		}
	}
	slices.Sort(sizes)
	// The order of arrival differs, so the small ones share two or three batches.
	if largest := sizes[len(sizes)-1]; largest != 2 {
		t.Errorf("batches of %v, want at most two items of 400 KiB together", sizes)
	}
}

// One poisoned item of each kind that Postgres refuses: only that item fails.
func TestGroup_PoisonedItem(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		item note
		want string
	}{
		"NUL in jsonb":             {note{id: "bad", n: "1", body: `{"a": "\u0000"}`}, "22P05"},
		"text that is not UTF-8":   {note{id: "bad\xff", n: "1", body: `{}`}, "22021"},
		"NUL in text":              {note{id: "bad\x00", n: "1", body: `{}`}, "22021"},
		"not a number":             {note{id: "bad", n: "many", body: `{}`}, "22P02"},
		"a number that is too big": {note{id: "bad", n: "2147483648", body: `{}`}, "22003"},
		"not JSON":                 {note{id: "bad", n: "1", body: `{`}, "22P02"},
		"a key that is taken":      {note{id: "taken", n: "1", body: `{}`}, "23505"},
		"an index row too large":   {note{id: noise(9000), n: "1", body: `{}`}, "54000"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := setupNotes(t)
			exec(t, db.Pool, `INSERT INTO desk.notes VALUES ('taken', 1, '{}')`)
			items := make([]note, 100)
			for i := range items {
				items[i] = clean(i)
			}
			items[37] = tc.item
			g := notes(db.Pool)
			var statements atomic.Int32
			many, one := g.Many, g.One
			g.Many = func(ctx context.Context, items []note) ([]string, error) {
				statements.Add(1)
				return many(ctx, items)
			}
			g.One = func(ctx context.Context, n note) (string, error) {
				statements.Add(1)
				return one(ctx, n)
			}
			for i, err := range together(t, g, items) {
				switch {
				case i == 37 && code(err) != tc.want:
					t.Errorf("the poisoned item: %v, want code %s", err, tc.want)
				case i != 37 && err != nil:
					t.Errorf("item %d: %v", i, err)
				}
			}
			if got := text(t, db.Pool, "SELECT count(*)::text FROM desk.notes WHERE id LIKE 'n0%'"); got != "99" {
				t.Errorf("%s rows, want 99", got)
			}
			if n := statements.Load(); n > 20 {
				t.Errorf("%d statements, want the batch halved", n)
			}
		})
	}
}

func code(err error) string {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return ""
	}
	return pe.Code
}

// noise is text that compression cannot make small enough for an index.
func noise(n int) string {
	var b strings.Builder
	for x := uint32(1); b.Len() < n; {
		x = x*1664525 + 1013904223
		fmt.Fprintf(&b, "%08x", x)
	}
	return b.String()[:n]
}

func TestGroup_ChecksBeforeTheBatch(t *testing.T) {
	t.Parallel()
	db := setupNotes(t)
	g := notes(db.Pool)
	g.Check = func(n note) error { return errors.Join(pg.CleanText(n.id), pg.CleanJSON([]byte(n.body))) }
	for _, bad := range []note{{id: "a\x00", n: "1", body: "{}"}, {id: "b", n: "1", body: `{"x": "\u0000"}`}} {
		if _, err := g.Do(t.Context(), bad); !errors.Is(err, pg.ErrUnclean) {
			t.Errorf("%q: %v, want ErrUnclean", bad.id, err)
		}
	}
	if _, err := g.Do(t.Context(), clean(1)); err != nil {
		t.Error(err)
	}
}

// An error that is nobody's fault goes to everybody, and is not searched for.
func TestGroup_ErrorOfAll(t *testing.T) {
	t.Parallel()
	db := setupNotes(t)
	exec(t, db.Pool, "DROP TABLE desk.notes")
	g := notes(db.Pool)
	if _, err := g.Do(t.Context(), clean(1)); code(err) != "42P01" {
		t.Errorf("%v, want code 42P01", err)
	}
}

func TestGroup_PanicBecomesAnError(t *testing.T) {
	t.Parallel()
	g := &pg.Group[int, int]{
		Name: "broken", Key: func(i int) string { return key(i) },
		Many: func(_ context.Context, items []int) ([]int, error) {
			if items[0] == 1 {
				panic("impossible")
			}
			return nil, nil // too few
		},
	}
	for i, want := range map[int]string{1: "panic: impossible", 2: "0 results for 1 items"} {
		if _, err := g.Do(t.Context(), i); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
}

// A second change of a key waits for the outcome of the first.
func TestGroup_OneKeyOneBatch(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		repeats bool
		want    []int // sizes of the batches after the first
	}{
		"one after the other":          {false, []int{2, 1, 1}},
		"together when they may be so": {true, []int{4}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := setupNotes(t)
			var sizes []int
			g := notes(db.Pool)
			g.One, g.Repeats = nil, tc.repeats
			g.Many = func(_ context.Context, items []note) ([]string, error) {
				sizes = append(sizes, len(items))
				ids, _, _, _ := columns(items)
				return ids, nil
			}
			for _, err := range together(t, g, []note{{id: "a"}, {id: "a"}, {id: "b"}, {id: "a"}}) {
				if err != nil {
					t.Error(err)
				}
			}
			if diff := cmp.Diff(append([]int{1}, tc.want...), sizes); diff != "" {
				t.Errorf("sizes of the batches (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGroup_CallerThatLeaves(t *testing.T) {
	t.Parallel()
	db := setupNotes(t)
	g := notes(db.Pool)
	gone := errors.New("the sender hung up")

	// While it waits: it is withdrawn.
	open := held(t, g)
	ctx, cancel := context.WithCancelCause(t.Context())
	left := make(chan error, 1)
	stays := make(chan error, 1)
	go func() { _, err := g.Do(ctx, clean(1)); left <- err }()
	go func() { _, err := g.Do(t.Context(), clean(2)); stays <- err }()
	eventually(t, 10*time.Second, "both wait", func() bool { return g.Waiting() == 2 })
	cancel(gone)
	if err := <-left; !errors.Is(err, gone) {
		t.Errorf("who left: %v, want its own cause", err)
	}
	open()
	if err := <-stays; err != nil {
		t.Errorf("who stayed: %v", err)
	}
	// Do is over for it before it waits.
	if _, err := g.Do(ctx, clean(3)); !errors.Is(err, gone) {
		t.Errorf("a context that is over: %v", err)
	}
	if got := text(t, db.Pool, "SELECT string_agg(id, ' ' ORDER BY id) FROM desk.notes"); got != "first n00002" {
		t.Errorf("rows %q, want first and n00002", got)
	}
}

// A caller that leaves while its statement runs does not cancel it for others.
func TestGroup_CallerThatLeavesInFlight(t *testing.T) {
	t.Parallel()
	db := setupNotes(t)
	g := notes(db.Pool)
	taken, proceed := make(chan struct{}), make(chan struct{})
	many := g.Many
	g.Many = func(ctx context.Context, items []note) ([]string, error) {
		close(taken)
		<-proceed
		return many(ctx, items)
	}
	open := held(t, g)
	ctx, cancel := context.WithCancel(t.Context())
	left, stays := make(chan error, 1), make(chan error, 1)
	go func() { _, err := g.Do(ctx, clean(1)); left <- err }()
	go func() { _, err := g.Do(t.Context(), clean(2)); stays <- err }()
	eventually(t, 10*time.Second, "both wait", func() bool { return g.Waiting() == 2 })
	open()
	<-taken
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("who left: %v", err)
	}
	close(proceed)
	if err := <-stays; err != nil {
		t.Errorf("who stayed: %v", err)
	}
	if got := text(t, db.Pool, "SELECT string_agg(id, ' ' ORDER BY id) FROM desk.notes"); got != "first n00001 n00002" {
		t.Errorf("rows %q, want all three", got)
	}
}

func TestGroup_QueueIsBounded(t *testing.T) {
	t.Parallel()
	db := setupNotes(t)
	for name, set := range map[string]func(*pg.Group[note, string]){
		"items": func(g *pg.Group[note, string]) { g.Queue = 3 },
		"bytes": func(g *pg.Group[note, string]) { g.QueueBytes = 35 },
	} {
		g := notes(db.Pool)
		g.One = nil
		g.Many = func(_ context.Context, items []note) ([]string, error) {
			ids, _, _, _ := columns(items)
			return ids, nil
		}
		set(g)
		open := held(t, g)
		var wg sync.WaitGroup
		for i := range 3 {
			n := clean(i)
			n.size = 10
			wg.Go(func() {
				if _, err := g.Do(t.Context(), n); err != nil {
					t.Errorf("%s: item %d: %v", name, i, err)
				}
			})
		}
		eventually(t, 10*time.Second, "three wait", func() bool { return g.Waiting() == 3 })
		one := clean(9)
		one.size = 10
		if _, err := g.Do(t.Context(), one); !errors.Is(err, pg.ErrQueueFull) || !pg.Transient(err) {
			t.Errorf("%s: the fourth: %v, want ErrQueueFull, which is transient", name, err)
		}
		open()
		wg.Wait()
		if _, err := g.Do(t.Context(), one); err != nil {
			t.Errorf("%s: after that: %v", name, err)
		}
	}
}

func TestGroup_StopDrains(t *testing.T) {
	t.Parallel()
	db := setupNotes(t)
	g := notes(db.Pool)
	open := held(t, g)
	errs := make(chan error, 50)
	for i := range cap(errs) {
		go func() { _, err := g.Do(t.Context(), clean(i)); errs <- err }()
	}
	eventually(t, 10*time.Second, "all wait", func() bool { return g.Waiting() == cap(errs) })
	stopped := make(chan error, 1)
	go func() { stopped <- g.Stop(t.Context()) }()
	eventually(t, 10*time.Second, "it takes no more", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := g.Do(ctx, note{id: "late", n: "not to be written"})
		return errors.Is(err, pg.ErrGroupStopped) && pg.Transient(err)
	})
	open()
	if err := <-stopped; err != nil {
		t.Errorf("stop: %v", err)
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if got := text(t, db.Pool, "SELECT count(*)::text FROM desk.notes"); got != "51" {
		t.Errorf("%s rows, want 51", got)
	}
	if err := g.Stop(t.Context()); err != nil {
		t.Errorf("stopped twice: %v", err)
	}
}

// A database that does not answer must not keep a process from its end.
func TestGroup_StopCutsShort(t *testing.T) {
	t.Parallel()
	db := setupNotes(t)
	g := notes(db.Open(t, ""))
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }) // else the pool never closes
	if _, err := tx.Exec(t.Context(), "LOCK TABLE desk.notes"); err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, 3)
	for i := range cap(errs) {
		go func() { _, err := g.Do(t.Context(), clean(i)); errs <- err }()
	}
	eventually(t, 10*time.Second, "a statement waits for the table", func() bool {
		return text(t, db.Pool, "SELECT count(*)::text FROM pg_locks WHERE NOT granted AND relation = 'desk.notes'::regclass") == "1"
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := g.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("stop: %v, want that it ran out of time", err)
	}
	for range cap(errs) {
		if err := <-errs; !errors.Is(err, pg.ErrGroupStopped) {
			t.Errorf("%v, want ErrGroupStopped", err)
		}
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}
