package pg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/internal/telemetry"
)

// Limits of a Group whose fields leave them zero.
const (
	groupItems      = 256
	groupBytes      = 1 << 20
	groupQueue      = 4096
	groupQueueBytes = 64 << 20
	// groupAttempt bounds one call of Many, One or Found: a line that went silent
	// must not hold everybody for ever.
	groupAttempt = 10 * time.Second
)

var (
	// ErrQueueFull says that more changes wait for the database than the process
	// may hold. Transient reports true for it.
	ErrQueueFull = errors.New("too many changes wait for the database")
	// ErrGroupStopped says that the process takes no more changes. Transient
	// reports true for it: another replica may take them.
	ErrGroupStopped = errors.New("changes are no longer taken")
)

// Group merges the commits of different items into one statement. Whatever
// arrives while one statement is under way goes into the next; nobody waits for
// company. T is a change, R what became of it. Fill the fields, then call Do
// from as many goroutines as you like; a process has one Group per table that
// is changed, and that Group has one statement under way.
//
// A statement is one transaction, so its items are committed together or not at
// all. What is the fault of one item (a version that was missed, a key that is
// taken) must come back as that item's R. An error of class 22, 23 or 54 is the
// fault of one item too, but Postgres does not say of which: the batch is halved
// until the item that fails alone is found, and only that gets the error. After
// a Transient error the batch is tried again for as long as somebody waits for
// one of its items; before that, Found tells which items are there although the
// reply was lost. Any other error goes to every item of the batch.
//
// The statement after a lost reply may still meet the first one under way, and
// wait for it: what is then answered as a miss can be the item's own first
// attempt. Where that matters, R must let the caller tell.
//
// Sorting orders the locks only when the statement takes them in the order of
// its arrays. INSERT ... SELECT FROM unnest(...) does, also with ON CONFLICT; an
// UPDATE that joins them does not, and must lock the rows first: SELECT ...
// ORDER BY key FOR UPDATE.
//
// It keeps no session state and no transaction open, so it works through
// PgBouncer in transaction mode.
type Group[T, R any] struct {
	Name string
	// Key names what a change locks. Items are handed over sorted by it, so that
	// the statements of several processes lock in one order: a deadlock would cost
	// the whole batch deadlock_timeout. Two items of one key never share a
	// statement, unless Repeats is set. Required.
	Key func(T) string
	// Repeats says that Many can take several items of one key.
	Repeats bool
	// Bytes is about how large an item is on the wire; nil counts nothing.
	Bytes func(T) int
	// Check refuses what Postgres would refuse, with CleanText and CleanJSON for
	// instance, before it can spoil a batch; nil refuses nothing.
	Check func(T) error
	// Many commits items in one statement of fixed text and returns one result
	// per item, in their order. Required. It must leave no trace when it returns an
	// error, unless the reply was lost.
	Many func(ctx context.Context, items []T) ([]R, error)
	// One commits a single item by a plain statement; nil leaves it to Many.
	One func(ctx context.Context, item T) (R, error)
	// Found tells which items are committed already, by a mark of this very
	// change; nil for the others. Nil when Many is harmless to repeat and then
	// answers as the first time.
	Found func(ctx context.Context, items []T) ([]*R, error)

	Items      int           // of one statement at most; zero means 256
	MaxBytes   int           // of one statement at most; zero means 1 MiB. A larger item goes alone
	Queue      int           // items waiting at most; zero means 4,096
	QueueBytes int           // bytes waiting at most; zero means 64 MiB
	Attempt    time.Duration // bounds one statement; zero means 10 s
	Log        *slog.Logger

	mu       sync.Mutex
	queue    []*change[T, R]
	waiting  int // of queue, without those whose callers left
	bytes    int // of those waiting
	stopped  bool
	idle     chan struct{} // closed when the flusher ends; nil when none runs
	cutShort context.CancelFunc
}

// change is one item on its way.
type change[T, R any] struct {
	item  T
	key   string
	bytes int
	state changeState     // guarded by Group.mu
	left  <-chan struct{} // closed when the caller waits no more
	done  chan struct{}   // closed once result and err are set
	// result and err are the caller's when done is closed.
	result R
	err    error
}

type changeState int

const (
	changeQueued changeState = iota
	changeTaken
	changeLeft // by its caller, while it was queued
)

// Do commits item and returns what became of it. When ctx ends while the item
// waits, it is withdrawn and certainly not committed; when ctx ends later, it
// may or may not be. Neither keeps others waiting. The error is ctx's cause then.
func (g *Group[T, R]) Do(ctx context.Context, item T) (R, error) {
	var none R
	if err := ctx.Err(); err != nil {
		return none, fmt.Errorf("%s: not committed: %w", g.Name, context.Cause(ctx))
	}
	if g.Check != nil {
		if err := g.Check(item); err != nil {
			return none, err
		}
	}
	c := &change[T, R]{item: item, key: g.Key(item), left: ctx.Done(), done: make(chan struct{})}
	if g.Bytes != nil {
		c.bytes = g.Bytes(item)
	}
	if err := g.enter(c); err != nil {
		return none, fmt.Errorf("%s: %w", g.Name, err)
	}
	select {
	case <-c.done:
		return c.result, c.err
	case <-ctx.Done():
	}
	if g.leave(c) {
		return none, fmt.Errorf("%s: not committed: %w", g.Name, context.Cause(ctx))
	}
	select {
	case <-c.done: // just in time
		return c.result, c.err
	default:
		return none, fmt.Errorf("%s: committed or not: %w", g.Name, context.Cause(ctx))
	}
}

// Stop takes no more items, commits those that wait and returns. When ctx ends
// first, the statement under way is cut short and the rest gets ErrGroupStopped.
func (g *Group[T, R]) Stop(ctx context.Context) error {
	g.mu.Lock()
	g.stopped = true
	idle, cut := g.idle, g.cutShort
	g.mu.Unlock()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	cut()
	<-idle
	return fmt.Errorf("stop %s: %w", g.Name, context.Cause(ctx))
}

// Waiting is how many items wait for the next statement.
func (g *Group[T, R]) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting
}

// enter queues c and sees to it that a flusher runs.
func (g *Group[T, R]) enter(c *change[T, R]) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.stopped:
		return ErrGroupStopped
	case g.waiting >= cmp.Or(g.Queue, groupQueue),
		g.waiting > 0 && g.bytes+c.bytes > cmp.Or(g.QueueBytes, groupQueueBytes):
		return fmt.Errorf("%w: %d of %d bytes", ErrQueueFull, g.waiting, g.bytes)
	}
	g.queue = append(g.queue, c)
	g.waiting++
	g.bytes += c.bytes
	if g.idle == nil {
		g.idle = make(chan struct{})
		var ctx context.Context
		ctx, g.cutShort = context.WithCancel(context.Background()) // no caller's context ends a statement
		go g.flush(ctx, g.cutShort, g.idle)
	}
	return nil
}

// leave withdraws c unless a statement has taken it.
func (g *Group[T, R]) leave(c *change[T, R]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.state != changeQueued {
		return c.state == changeLeft
	}
	c.state = changeLeft
	g.waiting--
	g.bytes -= c.bytes
	return true
}

// flush commits until nothing waits. One runs at a time; Stop waits for it.
func (g *Group[T, R]) flush(ctx context.Context, end context.CancelFunc, idle chan struct{}) {
	defer end()
	defer close(idle)
	for {
		batch := g.take()
		if batch == nil {
			return
		}
		slices.SortStableFunc(batch, func(a, b *change[T, R]) int { return cmp.Compare(a.key, b.key) })
		g.commit(ctx, batch, false)
	}
}

// take is the next batch, the longest waiting first. Nil ends the flusher.
func (g *Group[T, R]) take() []*change[T, R] {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting == 0 {
		g.queue, g.idle = nil, nil
		return nil
	}
	items, size := cmp.Or(g.Items, groupItems), cmp.Or(g.MaxBytes, groupBytes)
	batch := make([]*change[T, R], 0, min(items, g.waiting))
	keys := make(map[string]bool, cap(batch))
	rest := g.queue[:0]
	full := false
	for _, c := range g.queue {
		switch {
		case c.state == changeLeft:
			continue
		case full || len(batch) == items || len(batch) > 0 && c.bytes > size:
			full = true
		case !g.Repeats && keys[c.key]: // it waits for the outcome of the one before it
		default:
			c.state = changeTaken
			batch, size = append(batch, c), size-c.bytes
			keys[c.key] = true
			g.waiting--
			g.bytes -= c.bytes
			continue
		}
		rest = append(rest, c)
	}
	clear(g.queue[len(rest):])
	g.queue = rest
	return batch
}

// commit brings every item of batch to its outcome. lost says that the reply to
// an earlier statement was lost, so that some may be there.
func (g *Group[T, R]) commit(ctx context.Context, batch []*change[T, R], lost bool) {
	for wait := retryFirst; ; wait = min(2*wait, retryMost) {
		var err error
		batch, err = g.try(ctx, batch, lost)
		switch {
		case err == nil:
			return
		case ctx.Err() != nil:
			g.fail(batch, fmt.Errorf("%w: %w", ErrGroupStopped, err))
			return
		case Transient(err):
			// Once lost, always lost: the first statement may still be under way.
			lost = lost || replyLost(err)
			if g.Log != nil {
				g.Log.Warn("commit is tried again", "group", g.Name, "items", len(batch), telemetry.KeyErr, err)
			}
			pause(ctx, wait)
			batch = g.withoutLeft(batch)
		case len(batch) > 1 && faultOfOne(err):
			g.commit(ctx, batch[:len(batch)/2], lost)
			g.commit(ctx, batch[len(batch)/2:], lost)
			return
		default:
			if lost { // the fault may be to stand in the way of oneself
				batch, _ = g.withoutFound(ctx, batch) // err tells more
			}
			g.fail(batch, err)
			return
		}
	}
}

// try commits what is not committed yet. With an error it returns the items that
// have no outcome.
func (g *Group[T, R]) try(ctx context.Context, batch []*change[T, R], lost bool) ([]*change[T, R], error) {
	if lost {
		var err error
		if batch, err = g.withoutFound(ctx, batch); err != nil {
			return batch, err
		}
	}
	if len(batch) == 0 {
		return nil, nil
	}
	results, err := g.write(ctx, batch)
	if err != nil {
		return batch, err
	}
	for i, c := range batch {
		c.finish(results[i], nil)
	}
	return nil, nil
}

// write runs one statement.
func (g *Group[T, R]) write(ctx context.Context, batch []*change[T, R]) (results []R, err error) {
	if err := failpoint.Hit("pg.committing", g.Name); err != nil {
		return nil, err
	}
	err = g.attempt(ctx, func(ctx context.Context) error {
		if len(batch) == 1 && g.One != nil {
			r, err := g.One(ctx, batch[0].item)
			results = []R{r}
			return err
		}
		results, err = g.Many(ctx, itemsOf(batch))
		if err == nil && len(results) != len(batch) {
			return fmt.Errorf("%s: %d results for %d items", g.Name, len(results), len(batch))
		}
		return err
	})
	if err == nil {
		err = failpoint.Hit("pg.committed", g.Name)
	}
	return results, err
}

// withoutFound answers the items that are committed already and returns the rest.
func (g *Group[T, R]) withoutFound(ctx context.Context, batch []*change[T, R]) (rest []*change[T, R], err error) {
	if g.Found == nil || len(batch) == 0 {
		return batch, nil
	}
	var found []*R
	err = g.attempt(ctx, func(ctx context.Context) error {
		found, err = g.Found(ctx, itemsOf(batch))
		if err == nil && len(found) != len(batch) {
			return fmt.Errorf("%s: asked for %d items, told of %d", g.Name, len(batch), len(found))
		}
		return err
	})
	if err != nil {
		return batch, err
	}
	for i, c := range batch {
		if found[i] == nil {
			rest = append(rest, c)
			continue
		}
		c.finish(*found[i], nil)
	}
	return rest, nil
}

// attempt bounds a call of the owner's and turns a panic into an error: here it
// would end the process, and with it everybody's work.
func (g *Group[T, R]) attempt(ctx context.Context, call func(context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(g.Attempt, groupAttempt))
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: panic: %v\n%s", g.Name, p, debug.Stack())
		}
	}()
	return call(ctx)
}

// withoutLeft drops the items that nobody waits for any more. Their callers were
// told that they may or may not be committed.
func (g *Group[T, R]) withoutLeft(batch []*change[T, R]) []*change[T, R] {
	rest := make([]*change[T, R], 0, len(batch))
	for _, c := range batch {
		select {
		case <-c.left:
		default:
			rest = append(rest, c)
		}
	}
	return rest
}

func (g *Group[T, R]) fail(batch []*change[T, R], err error) {
	for _, c := range batch {
		var none R
		c.finish(none, err)
	}
}

func (c *change[T, R]) finish(r R, err error) {
	c.result, c.err = r, err
	close(c.done)
}

func itemsOf[T, R any](batch []*change[T, R]) []T {
	items := make([]T, len(batch))
	for i, c := range batch {
		items[i] = c.item
	}
	return items
}

// pause waits between half of d and the whole of it, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(jitter(d))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// faultOfOne reports whether an error of a statement over many items is the
// fault of one of them.
//
// Source: PostgreSQL manual, appendix A, "Error Codes": classes 22 data
// exception, 23 integrity constraint violation, 54 program limit exceeded.
func faultOfOne(err error) bool {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || len(pe.Code) != 5 {
		return false
	}
	switch pe.Code[:2] {
	case "22", "23", "54":
		return true
	}
	return false
}

// replyLost reports whether a statement that failed with err may have been
// committed. Classes 40, 53 and code 25006 are the server's word that it was
// not, except 40003, "statement completion unknown".
func replyLost(err error) bool {
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok && len(pe.Code) == 5 {
		switch {
		case pe.Code == "40003":
			return true
		case pe.Code == "25006", pe.Code[:2] == "40", pe.Code[:2] == "53":
			return false
		}
		return Transient(err)
	}
	return Transient(err) && !errors.Is(err, ErrBusy) && !pgconn.SafeToRetry(err)
}
