package trigger_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// minutely is a schedule with more lines of its spec, in flow style.
func minutely(name, more string) string {
	return fmt.Sprintf("---\napiVersion: holdfast/v1\nkind: Schedule\nmetadata: {name: %s}\nspec: {cron: \"* * * * *\", agent: anything%s}\n", name, more)
}

// dueAt sets the hand of a schedule to a nominal minute, as if it had come.
func (w *world) dueAt(t *testing.T, name string, at time.Time) {
	t.Helper()
	tag, err := w.db.Pool.Exec(t.Context(), `UPDATE trigger.schedules SET next_at = $2, next_nominal = $3, next_fold = 0 WHERE name = $1`,
		name, at, at.UTC().Format("2006-01-02T15:04"))
	if err != nil || tag.RowsAffected() != 1 {
		t.Fatal(tag, err)
	}
}

// end makes a run end as the runner records it.
func (w *world) end(t *testing.T, run string) {
	t.Helper()
	_, err := w.db.Pool.Exec(t.Context(), `
		INSERT INTO runner.runs (run_id, namespace, kind, name, digest, status, seq, input, trigger, accepted_at, ended_at)
		VALUES ($1, 'default', 'agent', 'anything', 'sha256:x', 'completed', 2, '{}', '{}', clock_timestamp(), clock_timestamp())`, run)
	if err != nil {
		t.Fatal(err)
	}
}

type pastFire struct {
	Nominal, Origin, State, Reason, Detail, Principal string
	Skips                                             int64
	RunID                                             string     `json:"run_id"`
	EndedAt                                           *time.Time `json:"ended_at"`
}

// history lists a schedule's fires, newest first.
func (r *replica) history(name string) []pastFire {
	r.t.Helper()
	a := r.api(authn.Viewer, "GET", "/v1/schedules/"+name+"/history", "")
	var list struct{ Items []pastFire }
	if err := json.Unmarshal(a.body, &list); err != nil || a.status != 200 {
		r.t.Fatalf("%d %s", a.status, a.body)
	}
	return list.Items
}

// states are the states and reasons of a schedule's fires, oldest first.
func (r *replica) states(name string) (states []string) {
	list := r.history(name)
	for i := len(list) - 1; i >= 0; i-- {
		states = append(states, strings.TrimSuffix(list[i].State+" "+list[i].Reason, " "))
	}
	return states
}

// Each policy at three ticks during one run, then the run ends. "Run now" obeys,
// unless it says otherwise. Every skip has its reason and is counted.
func TestCaseB06_Overlap(t *testing.T) {
	t.Parallel()
	for policy, tc := range map[string]struct {
		during    []string // after three ticks
		now       int      // status of "run now" during the run
		after     []string // when the run has ended
		cancelled int
	}{
		"skip": {
			[]string{"started", "skipped overlap", "skipped overlap"}, 409,
			[]string{"started", "skipped overlap", "skipped overlap", "skipped overlap"}, 0,
		},
		"bufferOne": {
			[]string{"started", "buffered", "skipped buffer_full"}, 409,
			[]string{"started", "started", "skipped buffer_full", "skipped buffer_full"}, 0,
		},
		"{policy: bufferAll, cap: 3}": {
			[]string{"started", "buffered", "buffered"}, 202,
			[]string{"started", "started", "buffered", "buffered"}, 0,
		},
		"cancelOther": {
			[]string{"started", "skipped superseded", "buffered"}, 202,
			[]string{"started", "skipped superseded", "skipped superseded", "started"}, 1,
		},
		"allow": {
			[]string{"started", "started", "started"}, 202,
			[]string{"started", "started", "started", "started"}, 0,
		},
	} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.apply(t, minutely("busy", ", overlap: "+policy+", endAt: \"2036-01-01T00:00:00Z\""))
			r := w.pair(t)
			w.hands(t, 1)
			day := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
			for i := range 3 {
				// No real tick comes between: the minute does not turn now, and afterwards the tick has a nominal time of its own.
				until(t, "a minute that is young", func() bool {
					return w.count(t, "(SELECT WHERE extract(second FROM clock_timestamp()) < 45) young") == 1
				})
				_, err := w.db.Pool.Exec(t.Context(), `UPDATE trigger.schedules SET next_at = date_trunc('minute', clock_timestamp()) - $1 * interval '1 min'`, 10-i)
				if err != nil {
					t.Fatal(err)
				}
				until(t, fmt.Sprintf("tick %d", i+1), func() bool { return w.count(t, "trigger.schedules WHERE next_at > clock_timestamp()") == 1 })
				w.renameFires(t, day.Add(time.Duration(i)*time.Minute))
			}
			// A minute that turns during what follows is not meant.
			if _, err := w.db.Pool.Exec(t.Context(), `UPDATE trigger.schedules SET next_at = clock_timestamp() + interval '1 hour'`); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.during, r.tickStates("busy")); diff != "" {
				t.Fatalf("during the run (-want +got):\n%s", diff)
			}
			now := r.api(operator, "POST", "/v1/schedules/busy/trigger", "", "Idempotency-Key", "k")
			if now.status != tc.now || now.status == 409 && (now.Code != "overlap" || !strings.Contains(now.Detail, "overlap=allow")) {
				t.Errorf("run now: %d %s", now.status, now.body)
			}
			if buffered := strings.Contains(policy, "bufferAll") || policy == "cancelOther"; buffered && now.Status != "buffered" {
				t.Errorf("run now: %s", now.body)
			}
			w.end(t, r.firstRun("busy"))
			until(t, "what waits to start", func() bool { return cmp.Equal(tc.after, r.tickStates("busy")) })
			if n := w.count(t, "trigger.cancels"); n != tc.cancelled {
				t.Errorf("%d cancels, want %d", n, tc.cancelled)
			}
			for _, f := range r.history("busy") {
				if f.State == "skipped" && (f.Reason == "" || f.RunID != "") {
					t.Errorf("skip without a reason: %+v", f)
				}
			}
			forced := r.api(operator, "POST", "/v1/schedules/busy/trigger?overlap=allow", "")
			accepted(t, forced)
			skips, counted := map[string]int{}, map[string]int{}
			for _, f := range r.history("busy") {
				if f.State == "skipped" {
					skips[f.Reason] += int(f.Skips)
				}
			}
			for labels, n := range r.counts("holdfast_trigger_fires_total") {
				if _, rest, ok := strings.Cut(labels, "outcome=skipped,reason="); ok {
					counted[rest] += n
				}
			}
			if diff := cmp.Diff(skips, counted); diff != "" {
				t.Errorf("skips in the history and in the metric (-history +metric):\n%s", diff)
			}
		})
	}
}

// renameFires gives the fires of real minutes, made by moving the hand, names of
// another day, so that the next tick of the same minute is another fire.
func (w *world) renameFires(t *testing.T, at time.Time) {
	t.Helper()
	_, err := w.db.Pool.Exec(t.Context(), `UPDATE trigger.fires SET nominal = $1 WHERE reason <> 'missed' AND nominal < '2031'`, at.Format("2006-01-02T15:04"))
	if err != nil {
		t.Fatal(err)
	}
}

// firstRun is the first run that a schedule started.
func (r *replica) firstRun(name string) (run string) {
	for _, f := range r.history(name) {
		if f.State == "started" {
			run = f.RunID
		}
	}
	return run
}

// tickStates are the states without those of fires that were missed because the
// hand was moved.
func (r *replica) tickStates(name string) (states []string) {
	for _, s := range r.states(name) {
		if s != "skipped missed" {
			states = append(states, s)
		}
	}
	return states
}

// A run that gives way is cancelled through the runner's door, once.
func TestSchedule_CancelOtherSendsTheCancel(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, minutely("busy", ", overlap: cancelOther"))
	r := w.start(t)
	w.hands(t, 1)
	seen := w.collect(t, true)
	first := r.api(operator, "POST", "/v1/schedules/busy/trigger", "")
	accepted(t, first)
	until(t, "the runner to have the first", func() bool {
		return slices.ContainsFunc(seen.all(), func(m events.Received) bool { return m.ID == "start:"+first.RunID })
	})
	for range 2 {
		if a := r.api(operator, "POST", "/v1/schedules/busy/trigger", ""); a.status != 202 || a.Status != "buffered" {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	var cancels []events.Received
	until(t, "the cancel", func() bool {
		cancels = nil
		for _, m := range seen.all() {
			if m.Type == events.TypeCommandRun {
				cancels = append(cancels, m)
			}
		}
		return len(cancels) > 0
	})
	var c events.Command
	if err := events.Decode(cancels[0].Message, &c); err != nil {
		t.Fatal(err)
	}
	if c.RunID != events.RunID(first.RunID) || c.Principal != "schedule/busy" || cancels[0].Subject != events.RunSubject(c.RunID, events.RunCancel) {
		t.Errorf("cancel %+v on %s", c, cancels[0].Subject)
	}
	_, err := w.db.Pool.Exec(t.Context(), `INSERT INTO runner.journal (run_id, seq, kind, status, cause, inbound, worker, at, data)
		VALUES ($1, 2, 'cancel_requested', 'cancelling', $2, true, 'test', clock_timestamp(), '{}')`, first.RunID, cancels[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the cancel to have landed", func() bool { return w.count(t, "trigger.cancels WHERE landed_at IS NOT NULL") == 1 })
	if len(cancels) != 1 {
		t.Errorf("%d cancels", len(cancels))
	}
}

// What waits is started by the newest definition, and dropped with its schedule.
func TestSchedule_BufferedFollowsTheDefinition(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, minutely("kept", ", overlap: bufferAll")+minutely("gone", ", overlap: bufferAll"))
	r := w.start(t)
	w.hands(t, 2)
	runs := map[string]string{}
	for _, name := range []string{"kept", "gone"} {
		first := r.api(operator, "POST", "/v1/schedules/"+name+"/trigger", "")
		accepted(t, first)
		runs[name] = first.RunID
		if a := r.api(operator, "POST", "/v1/schedules/"+name+"/trigger", ""); a.Status != "buffered" {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	// The minute's own fire may have come in front of it or behind.
	all := r.history("kept")
	waiting := slices.DeleteFunc(slices.Clone(all), func(f pastFire) bool { return f.State != "buffered" })
	promised := waiting[len(waiting)-1].RunID
	w.apply(t, minutely("kept", ", overlap: bufferAll, input: {v: new}"))
	w.remove(t, "schedule", "gone")
	until(t, "the hand to go", func() bool { return w.count(t, "trigger.schedules") == 1 })
	// The minute's own fire may be among them.
	dropped, left := w.count(t, "trigger.fires WHERE schedule = 'gone' AND state = 'skipped' AND reason = 'deleted'"), w.count(t, "trigger.fires WHERE schedule = 'gone' AND state = 'buffered'")
	if dropped < 1 || left != 0 {
		t.Errorf("%d fires of the deleted schedule were dropped and %d wait, want one or more and none", dropped, left)
	}
	w.end(t, runs["kept"])
	until(t, "the fire that waited to start", func() bool { return w.count(t, "trigger.deliveries WHERE run_id = '"+promised+"'") == 1 })
	if n := w.count(t, "trigger.deliveries WHERE run_id = '"+promised+"' AND input::text LIKE '%new%'"); n != 1 {
		t.Errorf("the run %s that was promised did not start with the newest input", promised)
	}
}
