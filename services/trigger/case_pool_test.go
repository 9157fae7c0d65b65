package trigger_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/pg"
)

// Two replicas with two connections each, all of which somebody else keeps for a
// while, get forty webhooks, forty starts and ten messages at once while five schedules
// are due: each is answered and becomes one run.
func TestCaseC09_TwoConnectionsPerTrigger(t *testing.T) {
	t.Parallel()
	w := setup(t)
	at := past()
	var docs strings.Builder
	for i := range 5 {
		docs.WriteString(scheduleDoc(fmt.Sprintf("due-%d", i), at, ""))
	}
	w.apply(t, docs.String())
	var given atomic.Int64
	var keep []func()
	replica := func() *replica {
		pool, err := pg.Open(t.Context(), pg.Config{URL: w.db.URL, Role: role, MaxConns: 2, AppName: "narrow"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		for range 2 {
			keep = append(keep, func() {
				c, err := pool.Acquire(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				time.AfterFunc(1500*time.Millisecond, func() { c.Release(); given.Add(1) })
			})
		}
		return run(t, pool, w.nats.Connect(t))
	}
	r := replica()
	r.peer = replica()
	starts := w.collect(t, true)
	w.hands(t, 5)
	for _, f := range keep {
		f()
	}
	w.moveHands(t, at)
	const each = 40
	var sending sync.WaitGroup
	for i := range each {
		sending.Go(func() {
			if a := r.post("/hooks/orders", order, signed(fmt.Sprintf("msg_%d", i), order, time.Now())...); a.status != http.StatusAccepted {
				t.Errorf("a webhook: %d %s", a.status, a.body)
			}
		})
		sending.Go(func() {
			if a := r.api(operator, "POST", "/v1/agents/anything/runs", `{}`); a.status != http.StatusAccepted {
				t.Errorf("a start: %d %s", a.status, a.body)
			}
		})
	}
	for i := range 10 {
		w.publish(t, "hf.in.orders", `{"agent":"anything","input":{}}`, "ce-id", fmt.Sprintf("narrow-%d", i))
	}
	sending.Wait()
	if given.Load() != 4 {
		t.Error("all was answered before the connections were given back: the pools were not narrow")
	}
	starts.exactly(t, 2*each+10+5)
	// The relays' own are short; one that was left open stays.
	until(t, "no transaction is left open", func() bool {
		return w.count(t, `pg_stat_activity WHERE datname = current_database() AND application_name = 'narrow' AND state LIKE 'idle in transaction%'`) == 0
	})
}
