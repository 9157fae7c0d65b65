package trigger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/bustest"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgtest"
)

// Postgres and NATS are away for what the schedules take for two hours. None of the
// replicas is started again: each schedule fires again by itself, for what it missed as
// its policy says, and when its next time comes.
func TestCaseC07_SchedulesFireAgain(t *testing.T) {
	t.Parallel()
	server, nats := pgtest.NewServer(t), bustest.NewServer(t)
	admin, err := pg.Open(t.Context(), pg.Config{URL: server.URL(), MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	w := &world{db: &pgtest.DB{Pool: admin, URL: server.URL()}, nats: nats}
	// endAt keeps the real minutes that pass during the test out of it.
	top := time.Now().UTC().Truncate(time.Minute)
	endAt := func(end time.Time) string {
		return fmt.Sprintf(", endAt: %q, overlap: allow", end.Format(time.RFC3339))
	}
	bounds := endAt(top.Add(time.Second))
	w.apply(t, docs+minutely("latest", bounds)+minutely("none", endAt(top.Add(time.Second-10*time.Minute))+", catchUp: {policy: none}")+
		minutely("all", bounds+", catchUp: {policy: all, cap: 3, window: 3h}")+scheduleDoc("in-time", top, ""))
	replica := func() *replica {
		pool, err := pg.Open(t.Context(), pg.Config{URL: server.URL(), Role: role})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return run(t, pool, nats.Connect(t))
	}
	r := replica()
	r.peer = replica()
	until(t, "the schedules to be known", func() bool { return w.count(t, "trigger.schedules") == 4 })
	server.Stop()
	nats.Stop()
	// Long enough for every loop of a replica to have met the outage.
	until(t, "the replicas to refuse", func() bool { return r.api(operator, "POST", "/v1/agents/anything/runs", `{}`).status == 503 })
	for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if got := r.api(operator, "POST", "/v1/agents/anything/runs", `{}`).status; got != 503 {
			t.Fatalf("a start without a database: %d", got)
		}
	}
	server.Start()
	down := top.Add(-2 * time.Hour)
	until(t, "the hands to stand where they stood", func() bool {
		_, err := admin.Exec(t.Context(), `UPDATE trigger.schedules SET next_nominal = $2, next_fold = 0, next_at =
			CASE name WHEN 'in-time' THEN $3::timestamptz ELSE $1::timestamptz END`, down, down.Format("2006-01-02T15:04"), top)
		return err == nil
	})
	fires := func() map[string]int {
		got := map[string]int{}
		for _, name := range []string{"latest", "none", "all", "in-time"} {
			got[name] = w.count(t, "trigger.fires WHERE state = 'started' AND schedule = '"+name+"'")
		}
		return got
	}
	want := map[string]int{"latest": 1, "none": 0, "all": 3, "in-time": 1}
	until(t, "the fires, while NATS is still away", func() bool { return cmp.Equal(fires(), want) })
	nats.Start()
	w.collect(t, true).exactly(t, 5)
	if diff := cmp.Diff(want, fires()); diff != "" {
		t.Errorf("fires (-want +got):\n%s", diff)
	}
	for name, want := range map[string]int64{"latest": 120, "none": 111, "all": 118, "in-time": 0} {
		var skips int64
		for _, f := range r.history(name) {
			if f.State == "skipped" && f.Reason == "missed" {
				skips += f.Skips
			}
		}
		if skips != want {
			t.Errorf("the history of %s has %d missed, want %d", name, skips, want)
		}
	}
}
