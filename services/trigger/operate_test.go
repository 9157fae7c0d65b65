package trigger_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/authn"
)

// Twenty schedules after an outage of two hours: at most one run each, or as many
// as each one's policy says; what did not start is counted and kept.
func TestCaseB04_CatchUpPolicies(t *testing.T) {
	t.Parallel()
	w := setup(t)
	// endAt keeps the real minute that passes during the test out of it.
	top := time.Now().UTC().Truncate(time.Minute)
	bounds := fmt.Sprintf(", endAt: %q, overlap: allow", top.Add(time.Second).Format(time.RFC3339))
	var docs strings.Builder
	for i := range 20 {
		docs.WriteString(minutely(fmt.Sprintf("latest-%d", i), bounds))
	}
	docs.WriteString(minutely("none", bounds+", catchUp: {policy: none}"))
	docs.WriteString(minutely("all", bounds+", catchUp: {policy: all, cap: 25, window: 3h}"))
	w.apply(t, docs.String())
	first := w.pair(t)
	until(t, "hands", func() bool { return w.count(t, "trigger.schedules") == 22 })
	first.stop()
	down := top.Add(-2 * time.Hour)
	if _, err := w.db.Pool.Exec(t.Context(), `UPDATE trigger.schedules SET next_at = $1, next_nominal = $2, next_fold = 0`, down, down.Format("2006-01-02T15:04")); err != nil {
		t.Fatal(err)
	}
	// The schedule without catch-up comes back when its last fire is over a minute old.
	if _, err := w.db.Pool.Exec(t.Context(), `UPDATE trigger.schedules SET next_at = next_at - interval '10 min' WHERE name = 'none'`); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	r := w.pair(t)
	hook := r.post("/hooks/raw", `{"a":1}`, "Content-Type", "application/json")
	if took := time.Since(begun); hook.status != 202 || took > 5*time.Second {
		t.Errorf("a webhook during the catch-up: %d after %s", hook.status, took)
	}
	until(t, "the catch-up", func() bool { return w.count(t, "trigger.schedules WHERE next_at IS NOT NULL") == 0 })
	got := map[string]int{}
	for _, of := range []string{"latest-%", "all"} {
		got[of] = w.count(t, "trigger.fires WHERE state = 'started' AND schedule LIKE '"+of+"'")
	}
	if diff := cmp.Diff(map[string]int{"latest-%": 20, "all": 25}, got); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	if took := time.Since(begun); took < 2*time.Second {
		t.Errorf("25 fires of one schedule were made in %s; they are to come ten a second", took)
	}
	for name, want := range map[string]int64{"latest-0": 120, "all": 96} {
		a := r.api(authn.Viewer, "GET", "/v1/schedules/"+name, "")
		var s struct{ Missed int64 }
		if err := json.Unmarshal(a.body, &s); err != nil || s.Missed != want {
			t.Errorf("%s missed %d, want %d", name, s.Missed, want)
		}
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

type pauseState struct {
	Paused    bool
	PausedBy  string `json:"paused_by"`
	PauseNote string `json:"pause_note"`
	Next      []struct{ Nominal string }
}

func (r *replica) schedule(name string) (s pauseState) {
	r.t.Helper()
	a := r.api(authn.Viewer, "GET", "/v1/schedules/"+name, "")
	if err := json.Unmarshal(a.body, &s); err != nil || a.status != 200 {
		r.t.Fatalf("%d %s", a.status, a.body)
	}
	return s
}

// midMinute waits until no minute turns in the next ten seconds, for what counts the
// minutes that have passed and is asked more than once.
func midMinute() {
	for time.Now().Second() >= 50 {
		time.Sleep(50 * time.Millisecond)
	}
}

// A pause lasts over a restart and over a new version, stops no run, and ends
// with the next fire after now; what passed is made only when that is asked for,
// once.
func TestCaseB05_PauseAndResume(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, minutely("often", ", overlap: allow")+minutely("off", ", paused: true"))
	first := w.pair(t)
	w.hands(t, 1)
	running := first.api(operator, "POST", "/v1/schedules/often/trigger", "")
	accepted(t, running)
	const pause, resume = "/v1/schedules/often/pause", "/v1/schedules/often/resume"
	a := first.api(operator, "POST", pause, `{"note":"the shop moves"}`)
	if a.status != 200 || !strings.Contains(string(a.body), running.RunID) {
		t.Fatalf("pause does not say that a run goes on: %d %s", a.status, a.body)
	}
	if a := first.api(authn.Viewer, "POST", pause, `{}`); a.status != 403 {
		t.Errorf("a viewer pauses: %d", a.status)
	}
	first.stop()
	// Another expression, of the same minutes.
	w.apply(t, strings.Replace(minutely("often", ", overlap: allow, input: {v: 2}"), "* * * * *", "0-59 */1 * * *", 1))
	r := w.pair(t)
	until(t, "the new version to be seen", func() bool {
		return w.count(t, "trigger.schedules s JOIN catalog.v_current c ON c.kind = 'schedule' AND c.name = s.name AND c.digest = s.digest WHERE s.name = 'often'") == 1
	})
	if s := r.schedule("often"); !s.Paused || s.PausedBy != "operator" || s.PauseNote != "the shop moves" || len(s.Next) != 0 {
		t.Errorf("after a restart and a new version: %+v", s)
	}
	// Three days pass.
	midMinute()
	if _, err := w.db.Pool.Exec(t.Context(), `UPDATE trigger.schedules SET pause_at = clock_timestamp() - interval '10 min' WHERE name = 'often'`); err != nil {
		t.Fatal(err)
	}
	fires := w.count(t, "trigger.fires")
	var answer struct {
		Passed   int
		Backfill *struct{ Started, Known int }
		Next     struct{ At time.Time }
	}
	ask := func(body string) {
		t.Helper()
		a := r.api(operator, "POST", resume, body)
		if err := json.Unmarshal(a.body, &answer); err != nil || a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	ask(`{"dry_run":true,"backfill":true}`)
	if s := r.schedule("often"); answer.Passed != 10 || answer.Backfill.Started != 10 || !s.Paused || w.count(t, "trigger.fires") != fires {
		t.Errorf("the preview is %+v and changed something: %+v", answer, s)
	}
	ask(`{"note":"moved"}`)
	if answer.Passed != 10 || !answer.Next.At.After(time.Now().Add(-time.Second)) || w.count(t, "trigger.fires WHERE state = 'started'") != fires {
		t.Errorf("resume %+v", answer)
	}
	if h := r.history("often")[0]; h.State != "skipped" || h.Reason != "paused" || h.Skips != 10 {
		t.Errorf("the history says %+v", h)
	}
	// Twice within a second, and only once again.
	for range 2 {
		if a := r.api(operator, "POST", pause, `{}`); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		ask(`{}`)
	}
	if a := r.api(operator, "POST", resume, `{}`); a.status != 409 || a.Code != "not_paused" {
		t.Errorf("resumed twice: %d %s", a.status, a.body)
	}
	if a := r.api(operator, "POST", "/v1/schedules/off/resume", `{}`); a.status != 409 || a.Code != "paused_by_definition" {
		t.Errorf("the definition's pause was resumed: %d %s", a.status, a.body)
	}
	if n := w.count(t, "trigger.pauses WHERE schedule = 'often' AND principal = 'operator'"); n != 6 {
		t.Errorf("%d notes of pauses, want 6", n)
	}
	// With backfill, once.
	if a := r.api(operator, "POST", pause, `{}`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	midMinute()
	if _, err := w.db.Pool.Exec(t.Context(), `UPDATE trigger.schedules SET pause_at = clock_timestamp() - interval '5 min' WHERE name = 'often'`); err != nil {
		t.Fatal(err)
	}
	ask(`{"backfill":true}`)
	if answer.Backfill.Started != 5 || answer.Backfill.Known != 0 {
		t.Errorf("backfill %+v", answer.Backfill)
	}
	made := w.count(t, "trigger.fires WHERE origin = 'backfill' AND state = 'started'")
	if made != 5 {
		t.Errorf("%d fires were made after all, want 5", made)
	}
}

func TestSchedule_Backfill(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, "apiVersion: holdfast/v1\nkind: Schedule\nmetadata: {name: hourly}\nspec: {every: 1h, agent: anything, overlap: allow, maxFires: 1}\n")
	r := w.start(t)
	w.hands(t, 1)
	const path = "/v1/schedules/hourly/backfill"
	type tally struct{ Fires, Known, Started, Buffered, Skipped, Rejected int }
	ask := func(more string, header ...string) (got tally) {
		t.Helper()
		a := r.api(operator, "POST", path, `{"from":"2026-01-01T00:00:00Z","to":"2026-01-01T05:00:00Z"`+more+`}`, header...)
		if err := json.Unmarshal(a.body, &got); err != nil || a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		return got
	}
	if got := ask(`,"dry_run":true`); got != (tally{Fires: 6, Started: 6}) || w.count(t, "trigger.fires") != 0 {
		t.Errorf("preview %+v", got)
	}
	if got := ask(``); got != (tally{Fires: 6, Started: 6}) {
		t.Errorf("backfill %+v", got)
	}
	if got := ask(``); got != (tally{Fires: 6, Known: 6}) {
		t.Errorf("a second time %+v", got)
	}
	if got := ask(`,"force":true,"overlap":"skip"`, "Idempotency-Key", "again"); got != (tally{Fires: 6, Skipped: 6}) {
		t.Errorf("forced, but with overlap forbidden %+v", got)
	}
	for _, want := range []tally{{Fires: 6, Started: 6}, {Fires: 6, Known: 6}} {
		if got := ask(`,"force":true`, "Idempotency-Key", "again"); got != want {
			t.Errorf("forced %+v, want %+v", got, want)
		}
	}
	if n := w.count(t, "trigger.deliveries WHERE source_kind = 'schedule'"); n != 12 {
		t.Errorf("%d starts, want 12", n)
	}
	for body, code := range map[string]string{
		`{"from":"2026-01-01T00:00:00Z","to":"2036-01-01T00:00:00Z"}`:              "invalid_backfill",
		`{"from":"2026-01-02T00:00:00Z","to":"2026-01-01T00:00:00Z"}`:              "invalid_backfill",
		`{"from":"2020-01-01T00:00:00Z","to":"2026-01-01T00:00:00Z"}`:              "invalid_backfill",
		`{"from":"2026-01-01T00:00:00Z","to":"2026-01-01T00:00:00Z","force":true}`: "invalid_idempotency_key",
	} {
		if a := r.api(operator, "POST", path, body); a.status != 422 && a.status != 400 || a.Code != code {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	// The clock has its own count.
	var s struct{ Fired, MaxFires int64 }
	if err := json.Unmarshal(r.api(authn.Viewer, "GET", "/v1/schedules/hourly", "").body, &s); err != nil || s.Fired != 0 {
		t.Errorf("%+v %v", s, err)
	}
}

// The last run that the clock may start is counted by the commit that starts it.
func TestSchedule_MaxFires(t *testing.T) {
	t.Parallel()
	w := setup(t)
	top := time.Now().UTC().Truncate(time.Minute)
	w.apply(t, minutely("few", ", overlap: allow, maxFires: 3, catchUp: {policy: all, cap: 20}"))
	first := w.start(t)
	w.hands(t, 1)
	first.stop()
	w.dueAt(t, "few", top.Add(-8*time.Minute))
	for range 3 {
		w.start(t)
	}
	until(t, "the hand to stop", func() bool { return w.count(t, "trigger.schedules WHERE next_at IS NULL AND fired = 3") == 1 })
	r := w.start(t)
	if n := w.count(t, "trigger.fires WHERE state = 'started'"); n != 3 || len(r.schedule("few").Next) != 0 {
		t.Errorf("%d fires, want 3, and none to come", n)
	}
}

func TestSchedule_NextAndHistoryPages(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, minutely("often", ", overlap: allow"))
	r := w.start(t)
	w.hands(t, 1)
	a := r.api(authn.Viewer, "GET", "/v1/schedules/often/next?count=25&after=2030-01-01T00:00:00Z", "")
	var next struct{ Items []struct{ Nominal string } }
	if err := json.Unmarshal(a.body, &next); err != nil || len(next.Items) != 25 || next.Items[0].Nominal != "2030-01-01T00:01" {
		t.Errorf("%d %s", a.status, a.body)
	}
	for range 5 {
		accepted(t, r.api(operator, "POST", "/v1/schedules/often/trigger", ""))
	}
	seen, cursor := map[string]bool{}, ""
	for pages := 0; pages == 0 || cursor != ""; pages++ {
		a := r.api(authn.Viewer, "GET", "/v1/schedules/often/history?limit=2&cursor="+cursor, "")
		var page struct {
			Items      []pastFire
			NextCursor string `json:"next_cursor"`
		}
		if err := json.Unmarshal(a.body, &page); err != nil || a.status != 200 || pages > 5 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		for _, f := range page.Items {
			if f.Origin == "now" {
				seen[f.RunID] = true
			}
		}
		cursor = page.NextCursor
	}
	if len(seen) != 5 {
		t.Errorf("%d fires on all pages, want 5", len(seen))
	}
	for _, path := range []string{"history", "next"} {
		if a := r.api(authn.Viewer, "GET", "/v1/schedules/nobody/"+path, ""); a.status != 404 {
			t.Errorf("%s of an unknown schedule: %d", path, a.status)
		}
	}
}
