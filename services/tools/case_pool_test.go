package tools_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/bustest"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
	"github.com/holdfast-run/holdfast/services/tools/postgres"
)

// Forty calls on two workers that have two connections each, all of which somebody
// else keeps for longer than a dead worker is waited for, while every call acts at the
// other side: no transaction is open meanwhile, nobody living is taken over, and every
// call is made once and gets its answer.
func TestCaseC09_TwoConnectionsPerToolsProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var pools []*pgxpool.Pool
	for range 2 {
		pool, err := pg.Open(t.Context(), pg.Config{URL: w.db.URL, Role: "holdfast_tools", MaxConns: 2, AppName: "narrow"})
		if err != nil {
			t.Fatal(err)
		}
		p, err := startOn(t.Context(), w.db.URL, pool, w.nats.Connect(t), bustest.Log(t), defs(),
			func(s *postgres.Store) []tools.Kind { return withRunArtifacts(withEnds(kinds(w.lookup), s), s) })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := p.stop(); err != nil {
				t.Error(err)
			}
		})
		pools = append(pools, pool)
	}
	const all = 30
	var calls []events.CallTool
	var releases []func()
	release := func() {
		for _, f := range releases {
			f()
		}
	}
	for i := range all {
		tool := []string{"pay_slow", "pay_slow", "refund"}[i%3]
		c := w.call(tool, fmt.Sprintf(`{"n":%d,"charge":"c-%d"}`, i, i))
		releases = append(releases, w.outside.hold(c))
		calls = append(calls, c)
	}
	for _, c := range calls {
		w.send(c, "")
	}
	// Thirty slots, so all of them are at the other side.
	w.until("all act", func() bool { return w.outside.arrivals.Load() == all })
	if n := w.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'narrow' AND state LIKE 'idle in transaction%'`); n != 0 {
		t.Errorf("%d transactions are open while tools act", n)
	}
	var given atomic.Int64
	for _, pool := range pools {
		for range 2 {
			c, err := pool.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(2200*time.Millisecond, func() { c.Release(); given.Add(1) })
		}
	}
	release() // thirty outcomes wait for four connections, that nobody gets for a while
	for range 10 {
		c := w.call("look", `{"what":"stock"}`)
		calls = append(calls, c)
		w.send(c, "")
	}
	for _, c := range calls {
		w.answer(c.CallID, events.CallSucceeded)
	}
	if given.Load() != 4 {
		t.Error("the calls ended before the connections were given back: the pool was not narrow")
	}
	w.idle()
	for _, c := range calls[:all] {
		w.wantEffects(c, 1)
		if n := w.outside.requests(c); n != 1 {
			t.Errorf("%s %s was requested %d times", c.Tool, c.Args, n)
		}
		if _, epoch := w.effect(c); epoch != 1 {
			t.Errorf("%s %s was taken over: epoch %d", c.Tool, c.Args, epoch)
		}
	}
}
