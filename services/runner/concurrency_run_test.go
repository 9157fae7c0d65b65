package runner_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

func under(name, limits string) string {
	return "\n---\napiVersion: holdfast/v1\nkind: Agent\nmetadata: {name: " + name + "}\nspec: {model: scripted, instructions: " + name + ", concurrency: [" + limits + "]}\n"
}

// meter is a model that knows how many calls of a key are under way; the first user
// message is the run's input, which is the key.
type meter struct {
	hold  func(key string) bool // the call lasts until the context or pass
	look  func()                // at the beginning of each call
	pass  chan struct{}
	mu    sync.Mutex
	now   map[string]int
	most  map[string]int
	begun []events.RunID
}

func newMeter(hold func(string) bool) *meter {
	return &meter{hold: hold, pass: make(chan struct{}), now: map[string]int{}, most: map[string]int{}}
}

func (m *meter) Answer(ctx context.Context, q runner.Request) (runner.Answer, error) {
	key := q.Entries[0].User
	m.mu.Lock()
	m.now[key]++
	m.most[key] = max(m.most[key], m.now[key])
	m.begun = append(m.begun, q.RunID)
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.now[key]--
	}()
	if m.look != nil {
		m.look()
	}
	if m.hold != nil && m.hold(key) {
		select {
		case <-m.pass:
		case <-ctx.Done():
			return runner.Answer{}, ctx.Err()
		}
	}
	return said("done"), nil
}

func (m *meter) order() []events.RunID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.begun)
}

func (m *meter) peak(key string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.most[key]
}

func (r *rig) openSlots() (n int) {
	r.t.Helper()
	if err := r.sql.QueryRow(r.t.Context(), `SELECT count(*) FROM runner.slots`).Scan(&n); err != nil {
		r.t.Fatal(err)
	}
	return n
}

// Runs of one shop on two processes: never more than two at once, those that wait
// hold nothing but a row, other shops are not held up, and all end. What NATS loses
// meanwhile loses no wake-up.
func TestConcurrency_QueuePerKey(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, documents+under("seller", `{key: input.shop, max: 2}`))
	held := `{"shop":"4711"}`
	m := newMeter(func(key string) bool { return key == held })
	for range 2 {
		r.worker(m)
	}
	var ids []events.RunID
	for range 10 {
		ids = append(ids, r.start(events.KindAgent, "seller", held))
	}
	other := r.start(events.KindAgent, "seller", `{"shop":"12"}`)
	r.reaches(other, events.StatusCompleted)
	queued := func() (n int) {
		for _, id := range ids {
			if r.status(id) == events.StatusQueued {
				n++
			}
		}
		return n
	}
	r.eventually("eight wait", func() bool { return queued() == 8 && len(m.order()) == 3 }, func() string { return fmt.Sprint(queued(), m.order()) })
	r.eventually("no message is held but those of the calls", func() bool {
		lag, err := r.bus.Lag(t.Context(), events.StreamRuns, events.ConsumerRunner)
		return err == nil && lag.Pending == 0 && lag.AckPending+r.owed() == 2
	}, func() string { return fmt.Sprint(r.owed()) })
	for i := range ids {
		if i == 4 {
			r.nats.Wipe()
		}
		m.pass <- struct{}{}
		// What was lost with NATS is said again after five seconds; here at once.
		if _, err := r.sql.Exec(t.Context(), `UPDATE runner.slots SET woken_at = '-infinity' WHERE woken_at IS NOT NULL AND $1`, i >= 4); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range ids {
		r.reaches(id, events.StatusCompleted)
	}
	if n := m.peak(held); n != 2 {
		t.Errorf("%d runs of one shop at once, want 2", n)
	}
	r.eventually("every place is free", func() bool { return r.openSlots() == 0 }, func() string { return fmt.Sprint(r.openSlots()) })
}

// The order of a queue is priority, then age; a run that is paused is passed by and
// keeps its place; one that is cancelled is gone at once.
func TestConcurrency_OrderPauseAndCancel(t *testing.T) {
	r := newRig(t)
	shared := `{key: '"shop"', max: 1, scope: namespace}`
	r.defs.apply(t, documents+under("day", shared)+strings.Replace(under("dusk", shared), "concurrency:", "priority: batch, concurrency:", 1))
	m := newMeter(func(string) bool { return true })
	r.worker(m)
	start := func(agent string) events.RunID {
		id := r.start(events.KindAgent, agent, `{}`)
		r.eventually("it has begun or waits", func() bool {
			return r.status(id) == events.StatusQueued || slices.Contains(m.order(), id)
		}, func() string { return r.status(id) })
		return id
	}
	first, night, paused, gone, day := start("day"), start("dusk"), start("day"), start("day"), start("day")
	r.command(paused, events.RunPause, events.Command{})
	r.command(gone, events.RunCancel, events.Command{})
	r.reaches(paused, events.StatusPaused)
	r.reaches(gone, events.StatusCancelled)
	m.pass <- struct{}{}
	r.reaches(first, events.StatusCompleted)
	r.eventually("the next begins", func() bool { return len(m.order()) == 2 }, func() string { return fmt.Sprint(m.order()) })
	r.command(paused, events.RunResume, events.Command{})
	r.reaches(paused, events.StatusQueued)
	for _, id := range []events.RunID{day, paused, night} {
		m.pass <- struct{}{}
		r.reaches(id, events.StatusCompleted)
	}
	if want := []events.RunID{first, day, paused, night}; !slices.Equal(m.order(), want) {
		t.Errorf("order %v, want %v", m.order(), want)
	}
	if n := m.peak("{}"); n != 1 {
		t.Errorf("%d at once, want 1", n)
	}
}

// Twenty starts in one burst, on two processes: the newest alone is left, and never
// were two at once.
func TestConcurrency_ReplaceBurst(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, documents+under("watcher", `{max: 1, whenFull: replace}`))
	m := newMeter(func(string) bool { return true })
	m.look = func() { // a cancelled run ends while its call is still under way
		var open int
		if err := r.sql.QueryRow(context.WithoutCancel(t.Context()), `SELECT count(*) FROM runner.runs WHERE ended_at IS NULL AND status <> 'queued'`).Scan(&open); err != nil || open > 1 {
			t.Errorf("%d runs are open at once (%v)", open, err)
		}
	}
	for range 2 {
		r.worker(m)
	}
	var ids []events.RunID
	for range 20 {
		ids = append(ids, r.start(events.KindAgent, "watcher", `{}`))
	}
	r.eventually("all have come", func() bool {
		return !slices.ContainsFunc(ids, func(id events.RunID) bool { return r.status(id) == "no row" })
	}, func() string { return "" })
	var last string
	r.eventually("one is left, which has begun", func() bool {
		var open int
		err := r.sql.QueryRow(t.Context(), `SELECT count(*), coalesce(max(run_id), '') FROM runner.slots`).Scan(&open, &last)
		return err == nil && open == 1 && r.status(events.RunID(last)) == events.StatusRunning
	}, func() string { return r.slotsText() })
	cancelled := 0
	for _, id := range ids {
		if string(id) == last {
			continue
		}
		r.reaches(id, events.StatusCancelled)
		if strings.Contains(r.journalText(id), "replaced by run ") {
			cancelled++
		}
	}
	if cancelled != 19 {
		t.Errorf("%d of 19 say by whom they were replaced", cancelled)
	}
	newest := r.start(events.KindAgent, "watcher", `{}`)
	r.reaches(events.RunID(last), events.StatusCancelled)
	r.eventually("the newest has begun", func() bool { return slices.Contains(m.order(), newest) }, func() string { return r.journalText(newest) })
	close(m.pass)
	r.reaches(newest, events.StatusCompleted)
}

func TestConcurrency_Reject(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, documents+under("single", `{key: labels.shop, max: 1, whenFull: reject}`)+under("open", `{max: 1, whenFull: reject}`))
	m := newMeter(func(string) bool { return true })
	r.worker(m)
	first := r.start(events.KindAgent, "open", `{}`)
	r.eventually("it has begun", func() bool { return len(m.order()) == 1 }, func() string { return r.journalText(first) })
	second := r.start(events.KindAgent, "open", `{}`)
	r.reaches(second, events.StatusFailed)
	if text := r.journalText(second); !strings.Contains(text, `"code":"concurrency"`) || !strings.Contains(text, "by run "+string(first)) {
		t.Errorf("the refusal does not name the holder:\n%s", text)
	}
	noKey := r.start(events.KindAgent, "single", `{}`)
	r.reaches(noKey, events.StatusFailed)
	if text := r.journalText(noKey); !strings.Contains(text, `"code":"concurrency_key"`) {
		t.Errorf("a key without a value:\n%s", text)
	}
	r.counts(`holdfast_runner_ends_total{status="failed"}`, 2)
	close(m.pass)
	r.reaches(first, events.StatusCompleted)
	third := r.start(events.KindAgent, "open", `{}`)
	r.reaches(third, events.StatusCompleted)
}

// A worker dies between the commit of an end and everything that follows it. The
// place is free in that commit, and another process gives it to the next.
func TestConcurrency_DeathAfterTheEnd(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, documents+under("seller", `{max: 1}`))
	m := newMeter(func(string) bool { return true })
	r.worker(m)
	first := r.start(events.KindAgent, "seller", `{}`)
	r.eventually("it has begun", func() bool { return len(m.order()) == 1 }, func() string { return r.journalText(first) })
	next := r.start(events.KindAgent, "seller", `{}`)
	r.reaches(next, events.StatusQueued)
	off := arm(t, "runner.answer_committed["+string(first)+"]=error#1")
	defer off()
	close(m.pass)
	r.reaches(next, events.StatusCompleted)
	r.reaches(first, events.StatusCompleted)
}

// Two runs that need the same two keys, named in opposite order by their agents,
// and a third that needs one: all end, and no key is ever held twice.
func TestConcurrency_SeveralKeys(t *testing.T) {
	r := newRig(t)
	a, b := `{key: '"a"', max: 1, scope: namespace}`, `{key: '"b"', max: 1, scope: namespace}`
	r.defs.apply(t, documents+under("ab", a+", "+b)+under("ba", b+", "+a)+under("justa", a))
	m := newMeter(nil)
	for range 2 {
		r.worker(m)
	}
	var ids []events.RunID
	for i := range 24 {
		ids = append(ids, r.start(events.KindAgent, []string{"ab", "ba", "justa"}[i%3], `{}`))
	}
	for _, id := range ids {
		r.reaches(id, events.StatusCompleted)
	}
	if n := m.peak("{}"); n != 1 {
		t.Errorf("%d runs at once under the key a, want 1", n)
	}
}

// A flow that holds a key starts children under the same key: they share its place.
// Children of a flow without it wait for each other.
func TestConcurrency_ChildrenShareTheirParentsPlace(t *testing.T) {
	r := newRig(t)
	shop := `{key: '"shop"', max: 1, scope: namespace}`
	flow := func(name, limits string) string {
		return "\n---\napiVersion: holdfast/v1\nkind: Flow\nmetadata: {name: " + name + "}\nspec:\n  steps: [{name: each, agent: worker, forEach: \"${input.items}\", limit: 4}]\n" + limits
	}
	r.defs.apply(t, documents+under("worker", shop)+flow("holds", "  concurrency: ["+shop+"]\n")+flow("free", ""))
	m := newMeter(nil)
	r.worker(m)
	holds := r.start(events.KindFlow, "holds", `{"items":[1,2,3,4]}`)
	r.reaches(holds, events.StatusCompleted)
	free := r.start(events.KindFlow, "free", `{"items":[5,5,5,5]}`)
	r.reaches(free, events.StatusCompleted)
	if n := m.peak("5"); n != 1 {
		t.Errorf("%d children at once under one key, want 1", n)
	}
	r.eventually("every place is free", func() bool { return r.openSlots() == 0 }, func() string { return fmt.Sprint(r.openSlots()) })
}

// A release that knows no limits leaves such a run to one that does.
func TestConcurrency_OlderReleaseLeavesItAlone(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, documents+under("seller", `{max: 1}`))
	m := newMeter(func(string) bool { return true })
	r.worker(m)
	first, second := r.start(events.KindAgent, "seller", `{}`), events.RunID("")
	r.eventually("it has begun", func() bool { return len(m.order()) == 1 }, func() string { return r.journalText(first) })
	second = r.start(events.KindAgent, "seller", `{}`)
	r.reaches(second, events.StatusQueued)
	var needs int
	if err := r.sql.QueryRow(t.Context(), `SELECT min(min_reader) FROM runner.runs WHERE run_id = ANY($1)`, []string{string(first), string(second)}).Scan(&needs); err != nil || needs != 3 {
		t.Errorf("min_reader %d (%v), want 3", needs, err)
	}
	close(m.pass)
	r.reaches(second, events.StatusCompleted)
}

func (r *rig) slotsText() string {
	r.t.Helper()
	var text string
	if err := r.sql.QueryRow(r.t.Context(), `SELECT coalesce(string_agg(format('%s %s held=%s replaced=%s woken=%s wakes=%s', s.run_id, r.status, held, replaced_by, woken_at, wakes), E'\n' ORDER BY place), '')
		FROM runner.slots s JOIN runner.runs r USING (run_id)`).Scan(&text); err != nil {
		return err.Error()
	}
	return text
}
