package trigger_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/services/trigger"
)

// counts scrapes a metric of the replicas and adds up; by its labels.
func (r *replica) counts(name string) map[string]int {
	r.t.Helper()
	all := map[string]int{}
	for one := r; one != nil; one = one.peer {
		rec := httptest.NewRecorder()
		one.metrics.MetricsHandler().ServeHTTP(rec, httptest.NewRequestWithContext(context.WithoutCancel(r.t.Context()), http.MethodGet, "/metrics", nil))
		for line := range strings.Lines(rec.Body.String()) {
			head, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
			labels, ok := strings.CutPrefix(head, name+"{")
			if !ok {
				if labels, value, ok = strings.Cut(strings.TrimSpace(line), " "); !ok || labels != name {
					continue
				}
				labels = ""
			}
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				r.t.Fatalf("%s: %v", line, err)
			}
			all[strings.ReplaceAll(labels, `"`, "")] += int(n)
		}
	}
	return all
}

// Every request at a webhook is counted by what became of it, and no stranger's
// text becomes a label.
func TestCaseG05_RequestsAreCounted(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, hooks(hook("paused", "provider: none, agent: anything, paused: true"), hook("none", `provider: none, agent: anything, filter: "false"`)))
	r := w.pair(t)
	for range 2 { // at one replica and the other
		accepted(t, r.post("/hooks/orders", order, signed("msg_1", order, time.Now())...))
	}
	r.post("/hooks/none", `{}`)
	r.post("/hooks/paused", `{}`)
	r.post("/hooks/raw", `{`)
	r.post("/hooks/orders", order, signed("msg_2", order, time.Now().Add(-time.Hour))...)
	for n := range 20 {
		r.post(fmt.Sprintf("/hooks/scan-%d", n), `{}`, "X-GitHub-Event", fmt.Sprint(n))
	}
	accepted(t, r.api(operator, "POST", "/v1/agents/anything/runs", `{}`))
	r.api(operator, "POST", "/v1/agents/nobody/runs", `{}`)
	want := map[string]int{
		"outcome=accepted,provider=standard,reason=none":            1,
		"outcome=duplicate,provider=standard,reason=none":           1,
		"outcome=filtered,provider=none,reason=filter":              1,
		"outcome=held,provider=none,reason=none":                    1,
		"outcome=rejected,provider=none,reason=bad_body":            1,
		"outcome=rejected,provider=standard,reason=stale_timestamp": 1,
		"outcome=rejected,provider=unknown,reason=unknown_webhook":  20,
	}
	if diff := cmp.Diff(want, r.counts("holdfast_trigger_requests_total")); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	starts := map[string]int{
		"outcome=accepted,source=webhook": 2, "outcome=duplicate,source=webhook": 1,
		"outcome=accepted,source=api": 1, "outcome=rejected,source=api": 1,
	}
	if diff := cmp.Diff(starts, r.counts("holdfast_trigger_starts_total")); diff != "" {
		t.Errorf("starts (-want +got):\n%s", diff)
	}
	if got := r.counts("holdfast_trigger_commit_starts_sum")[""]; got != 4 {
		t.Errorf("statements committed %d starts, want 4 with the repeat", got)
	}
}

// The backlog is what no runner has, without what a paused webhook holds back.
func TestMetrics_Backlog(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, hook("paused", "provider: none, agent: anything, paused: true"))
	first := w.start(t)
	for range 3 {
		accepted(t, first.post("/hooks/raw", `{}`))
	}
	accepted(t, first.post("/hooks/paused", `{}`))
	first.stop()
	w.exec(t, `UPDATE trigger.deliveries SET accepted_at = accepted_at - interval '100 s'`)
	r := w.start(t)
	until(t, "the backlog to be seen", func() bool { return r.counts("holdfast_trigger_backlog")[""] == 3 })
	if age := r.counts("holdfast_trigger_backlog_age_seconds")[""]; age < 100 || age > 200 {
		t.Errorf("the oldest is %d s old, want 100", age)
	}
}

// A fire of the clock is counted once, whichever replica looks, and by how late it
// is; what a deleted schedule drops is counted too.
func TestMetrics_FiresAndLateness(t *testing.T) {
	t.Parallel()
	w := setup(t)
	at := past() // over a minute ago
	w.apply(t, scheduleDoc("late", at, "")+scheduleDoc("gone", at, ", overlap: bufferAll"))
	r := w.pair(t)
	w.hands(t, 2)
	for range 3 {
		r.api(operator, "POST", "/v1/schedules/gone/trigger", "")
	}
	for range 3 { // moved back again and again: fired before
		w.exec(t, `UPDATE trigger.schedules SET next_at = $1 WHERE name = 'late'`, at)
		until(t, "the hand to move on", func() bool {
			return w.count(t, "trigger.schedules WHERE name = 'late' AND next_at > clock_timestamp()") == 1
		})
	}
	w.remove(t, "schedule", "gone")
	until(t, "the hand to go", func() bool { return w.count(t, "trigger.schedules WHERE name = 'gone'") == 0 })
	want := map[string]int{
		"origin=clock,outcome=caught_up,reason=none":  1,
		"origin=now,outcome=started,reason=none":      1,
		"origin=now,outcome=buffered,reason=none":     2,
		"origin=clock,outcome=skipped,reason=deleted": 2,
	}
	var got map[string]int
	until(t, "the fires to be counted", func() bool {
		got = r.counts("holdfast_trigger_fires_total")
		return len(got) >= len(want)
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fires (-want +got):\n%s", diff)
	}
	if got := r.counts("holdfast_trigger_fire_lateness_seconds_count")[""]; got != 1 {
		t.Errorf("%d fires have a lateness, want 1", got)
	}
}

// A nil Metrics counts nothing, and its instruments are sound.
func TestMetrics_Instruments(t *testing.T) {
	t.Parallel()
	var none *trigger.Metrics
	none.Fired(t.Context(), time.Now(), trigger.Firing{State: trigger.FireStarted})
	none.Committed(t.Context(), 1, time.Second)
	if _, err := trigger.NewMetrics(nil); err != nil {
		t.Error(err)
	}
}
