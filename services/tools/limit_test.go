package tools_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/bustest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/tools"
)

var limitYAML = func() string {
	var b strings.Builder
	for name, more := range map[string]string{
		"pay_spaced":   "effect: write, limits: {rate: 10/s}, http: {method: POST, url: \"${env.HOLDFAST_TOOL_OUTSIDE}/plain\"}",
		"read_spaced":  "effect: read, limits: {rate: 10/s}, http: {url: \"${env.HOLDFAST_TOOL_OUTSIDE}/look/${args.what}\"}",
		"read_hourly":  "effect: read, limits: {rate: 6/m}, http: {url: \"${env.HOLDFAST_TOOL_OUTSIDE}/look/${args.what}\"}",
		"pay_hourly":   "effect: write, limits: {rate: 6/m}, http: {method: POST, url: \"${env.HOLDFAST_TOOL_OUTSIDE}/plain\"}",
		"pay_narrow":   "effect: write, limits: {concurrency: 2}, http: {method: POST, url: \"${env.HOLDFAST_TOOL_OUTSIDE}/plain\"}",
		"read_narrow":  "effect: read, limits: {concurrency: 1}, http: {url: \"${env.HOLDFAST_TOOL_OUTSIDE}/look/${args.what}\"}",
		"probe_hourly": "effect: write, limits: {rate: 6/m}, http: {method: POST, url: \"${env.HOLDFAST_TOOL_OUTSIDE}/plain\"}, inDoubt: {probe: {http: {url: \"${env.HOLDFAST_TOOL_OUTSIDE}/seen/${args.n}\"}, happened: \"answer.status == 200\", after: 100ms}}",
	} {
		fmt.Fprintf(&b, "\n---\napiVersion: holdfast/v1\nkind: Tool\nmetadata: {name: %s}\nspec: {description: is limited, input: {type: object}, timeout: 5s, %s}\n", name, more)
	}
	return b.String()
}()

// arrivals notes when requests come and how many are there at once.
type arrivals struct {
	mu    sync.Mutex
	times []time.Time
	now   int
	most  int
	hold  time.Duration
	pair  chan struct{} // closed by the second that comes; the first waits for it
}

func (a *arrivals) wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.times = append(a.times, time.Now())
		a.now++
		a.most = max(a.most, a.now)
		if a.pair != nil && len(a.times) == 2 {
			close(a.pair)
		}
		first := a.pair != nil && len(a.times) == 1
		a.mu.Unlock()
		if first {
			select {
			case <-a.pair:
			case <-time.After(4 * time.Second):
			}
		}
		time.Sleep(a.hold)
		a.mu.Lock()
		a.now--
		a.mu.Unlock()
		h.ServeHTTP(rw, r)
	})
}

func (w *world) watch(hold time.Duration) *arrivals {
	a := &arrivals{hold: hold}
	w.outside.Config.Handler = a.wrap(w.outside.Config.Handler)
	return a
}

// A rate is one of all workers: two of them do not send twice as much.
func TestLimits_RateOfAllWorkers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.watch(0)
	w.start()
	w.start()
	var calls []events.CallTool
	for i := range 12 {
		tool := []string{"pay_spaced", "read_spaced"}[i%2]
		calls = append(calls, w.call(tool, fmt.Sprintf(`{"n":%d,"what":"spaced-%d"}`, i, i)))
		w.send(calls[i], "")
	}
	for _, c := range calls {
		w.answer(c.CallID, events.CallSucceeded)
	}
	slices.SortFunc(a.times, time.Time.Compare)
	// Two tools, each at 10/s: the seventh request of both together cannot come
	// before 500 ms, whatever the way to the server takes less.
	if n, took := len(a.times), a.times[11].Sub(a.times[0]); n != 12 || took < 450*time.Millisecond {
		t.Errorf("%d requests within %s, want 12 in at least 500 ms", n, took)
	}
	if n := w.count(`SELECT count(*) FROM tools.effects WHERE tool = 'pay_spaced' AND attempts > 1`) + w.count(`SELECT count(*) FROM tools.limit_waits`); n != 0 {
		t.Errorf("%d waits counted as attempts or are left", n)
	}
}

// A long wait is a row: no message is held, no attempt counts, and it is known
// what it waits for. Acts, reads and lookups wait alike; a cancelled call waits no
// longer.
func TestLimits_ALongWaitIsARow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	for _, tool := range []string{"pay_hourly", "read_hourly"} {
		first, second := w.call(tool, `{"what":"1"}`), w.call(tool, `{"what":"2"}`)
		w.send(first, "")
		w.answer(first.CallID, events.CallSucceeded)
		w.send(second, "")
		w.until("it waits for its turn", func() bool {
			return w.count(`SELECT count(*) FROM tools.v_delayed WHERE call_id = $1 AND limited_by = 'the limit of the tool: 6/m' AND next_at BETWEEN now() + interval '5 s' AND now() + interval '11 s'`, string(second.CallID)) == 1
		})
		w.idle()
		w.send(second, ":again") // the runner asks where it is
		w.idle()
		if n := w.count(`SELECT count(*) FROM tools.calls c LEFT JOIN tools.effects e USING (effect_id) WHERE c.call_id = $1 AND c.status = 'open' AND NOT c.acting AND c.attempts = 0 AND e.effect_id IS NULL`, string(second.CallID)); n != 1 {
			t.Errorf("%s: an attempt counted\n%s", tool, w.rows())
		}
		// Ten seconds later.
		if _, err := w.db.Pool.Exec(t.Context(), `UPDATE tools.limits SET last_start = last_start - interval '10 s'`); err != nil {
			t.Fatal(err)
		}
		if _, err := w.db.Pool.Exec(t.Context(), `UPDATE tools.limit_waits SET wake_at = now()`); err != nil {
			t.Fatal(err)
		}
		w.answer(second.CallID, events.CallSucceeded)
		third := w.call(tool, `{"what":"3"}`)
		w.send(third, "")
		w.until("the third waits", func() bool {
			return w.count(`SELECT count(*) FROM tools.limit_waits WHERE call_id = $1`, string(third.CallID)) == 1
		})
		w.control("revoke:"+tool, events.ControlTool{CallID: third.CallID, RunID: third.RunID, Action: events.ControlRevoke})
		w.answer(third.CallID, events.CallRevoked)
		if _, err := w.db.Pool.Exec(t.Context(), `UPDATE tools.limit_waits SET wake_at = now()`); err != nil {
			t.Fatal(err)
		}
		w.until("nothing waits", func() bool { return w.count(`SELECT count(*) FROM tools.limit_waits`) == 0 })
	}
	// A lookup takes a turn as the act did.
	w.outside.lookup = func(_ *outside, rw http.ResponseWriter, _ string) { rw.WriteHeader(http.StatusOK) }
	c := w.call("probe_hourly", `{"mode":"500","n":7}`)
	w.send(c, "")
	w.until("its lookup waits for its turn", func() bool {
		return w.count(`SELECT count(*) FROM tools.v_probes p JOIN tools.limit_waits w USING (call_id) WHERE p.call_id = $1`, string(c.CallID)) == 1
	})
	if n := w.count(`SELECT count(*) FROM tools.receipts WHERE body->>'probe' IS NOT NULL`); n != 0 {
		t.Errorf("%d lookups were made without a turn", n)
	}
}

// Concurrency is of all workers, and who ends wakes who waits. A worker that was
// killed holds nothing for long.
func TestLimits_ConcurrencyOfAllWorkers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.watch(60 * time.Millisecond)
	a.pair = make(chan struct{})
	w.start()
	w.start()
	var calls []events.CallTool
	for i := range 10 {
		calls = append(calls, w.call("pay_narrow", fmt.Sprintf(`{"n":%d}`, i)))
		w.send(calls[i], "")
	}
	began := time.Now()
	for _, c := range calls {
		w.answer(c.CallID, events.CallSucceeded)
	}
	if a.most != 2 || len(a.times) != 10 {
		t.Errorf("%d of %d requests were there at once, want 2 of 10", a.most, len(a.times))
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it took %s: nobody was woken", took)
	}
	if n := w.count(`SELECT count(*) FROM tools.limit_uses`); n != 0 {
		t.Errorf("%d turns are held by nobody", n)
	}
	// A turn of a worker that is gone.
	for worker, until := range map[string]string{"gone": "1 hour", "late": "-1 s"} {
		if _, err := w.db.Pool.Exec(t.Context(), `INSERT INTO tools.limit_uses VALUES ('tool/default/read_narrow', $1, $1, now() + $2::interval)`, worker, until); err != nil {
			t.Fatal(err)
		}
	}
	c := w.call("read_narrow", `{"what":"x"}`)
	w.send(c, "")
	w.answer(c.CallID, events.CallSucceeded)
}

// A host's limit is of all tools that ask it.
func TestLimits_OfAHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.start()
	limited, err := tools.New(tools.Config{Worker: p.name, HostLimits: map[string]spec.Limits{"127.0.0.1": {Rate: spec.Rate{N: 6, Per: time.Minute}}}}, tools.Deps{
		Store: p.store, Controls: p.store, Reader: p.store, Once: p.store, Stops: p.store, Tools: defs(), Callbacks: callbacks(p.store),
		Kinds: withEnds(kinds(w.lookup), p.store), Bus: w.bus, Heart: p.beat, Log: bustest.Log(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	handle := func(c events.CallTool) error {
		body, err := events.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		return limited.HandleCall(t.Context(), events.Received{Message: events.Message{ID: "call:" + string(c.CallID), Type: events.TypeCallTool, Namespace: c.Namespace, Data: body}})
	}
	first, second := w.call("pay", `{"n":1}`), w.call("look", `{"what":"host"}`)
	for _, c := range []events.CallTool{first, second} {
		if err := handle(c); err != nil {
			t.Fatal(err)
		}
	}
	w.answer(first.CallID, events.CallSucceeded)
	if n := w.count(`SELECT count(*) FROM tools.v_delayed WHERE call_id = $1 AND limited_by = 'the limit of the host 127.0.0.1: 6/m'`, string(second.CallID)); n != 1 || w.outside.arrivals.Load() != 1 {
		t.Errorf("%d waits for the host after %d requests", n, w.outside.arrivals.Load())
	}
}

func TestLimit_Wait(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, tc := range map[string]struct {
		limit tools.Limit
		usage tools.Usage
		want  time.Duration
	}{
		"the first one begins":             {tools.Limit{Every: time.Minute}, tools.Usage{Now: now}, 0},
		"the next one waits":               {tools.Limit{Every: time.Minute}, tools.Usage{Now: now, LastStart: ago(20 * time.Second)}, 40 * time.Second},
		"those ahead come first":           {tools.Limit{Every: time.Minute}, tools.Usage{Now: now, LastStart: ago(20 * time.Second), Ahead: 2}, 160 * time.Second},
		"when it is time it begins":        {tools.Limit{Every: time.Minute}, tools.Usage{Now: now, LastStart: ago(time.Minute)}, 0},
		"who does not come holds up a bit": {tools.Limit{Every: time.Minute}, tools.Usage{Now: now, LastStart: ago(2 * time.Minute), Ahead: 1}, 0},
		"room":                             {tools.Limit{Concurrency: 2}, tools.Usage{Now: now, Running: 1}, 0},
		"no room":                          {tools.Limit{Concurrency: 2}, tools.Usage{Now: now, Running: 2, Ahead: 4}, 10*time.Second + 200*time.Millisecond},
		"room for who was woken":           {tools.Limit{Concurrency: 2}, tools.Usage{Now: now, Running: 1, Ahead: 1, Woken: 1}, 10*time.Second + 50*time.Millisecond},
	} {
		if got := tc.limit.Wait(tc.usage); got != tc.want {
			t.Errorf("%s: waits %s, want %s", name, got, tc.want)
		}
	}
}
