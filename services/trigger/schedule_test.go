package trigger_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// scheduleDoc is a schedule that fires daily at a minute of UTC.
func scheduleDoc(name string, at time.Time, more string) string {
	return fmt.Sprintf(`---
apiVersion: holdfast/v1
kind: Schedule
metadata: {name: %s}
spec: {cron: "%d %d * * *", agent: anything, input: {night: "${schedule.date}", time: "${schedule.time}"}%s}
`, name, at.Minute(), at.Hour(), more)
}

// past is the whole minute before the present one: a daily schedule at it fires
// tomorrow, unless its hand is moved back.
func past() time.Time { return time.Now().UTC().Add(-time.Minute).Truncate(time.Minute) }

// hands waits until n schedules have one.
func (w *world) hands(t *testing.T, n int) {
	t.Helper()
	until(t, fmt.Sprintf("%d hands", n), func() bool { return w.count(t, "trigger.schedules WHERE next_at IS NOT NULL") == n })
}

// moveHands sets the hand of every schedule back, as if the time had come.
func (w *world) moveHands(t *testing.T, at time.Time) {
	t.Helper()
	if _, err := w.db.Pool.Exec(t.Context(), `UPDATE trigger.schedules SET next_at = $1 WHERE next_at IS NOT NULL`, at); err != nil {
		t.Fatal(err)
	}
}

func TestStart_BySchedule(t *testing.T) {
	t.Parallel()
	w := setup(t)
	at := past()
	w.apply(t, scheduleDoc("nightly", at, ""))
	w.start(t)
	w.hands(t, 1)
	w.moveHands(t, at)
	got := w.collect(t, true).exactly(t, 1)[0]
	nominal := at.Format("2006-01-02T15:04")
	if got.Trigger != (events.Trigger{Kind: "schedule", Name: "nightly", ID: nominal + "/0"}) {
		t.Errorf("trigger %+v", got.Trigger)
	}
	var input map[string]string
	if err := json.Unmarshal(got.Input, &input); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"night": nominal[:10], "time": nominal[11:]}, input); diff != "" {
		t.Errorf("input (-want +got):\n%s", diff)
	}
	var run string
	if err := w.db.Pool.QueryRow(t.Context(), `SELECT run_id FROM trigger.fires WHERE schedule = 'nightly' AND nominal = $1 AND fold = 0`, nominal).Scan(&run); err != nil {
		t.Fatal(err)
	}
	if run != string(got.RunID) {
		t.Errorf("the fire has run %s, %s starts", run, got.RunID)
	}
}

// Three replicas, two schedules with one expression, their hands moved back again
// and again: one run per schedule and nominal time.
func TestCaseB02_ReplicasFireOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	at := past()
	w.apply(t, scheduleDoc("one", at, "")+scheduleDoc("two", at, ""))
	for range 3 {
		w.start(t)
	}
	starts := w.collect(t, true)
	w.hands(t, 2)
	for range 5 {
		w.moveHands(t, at)
		until(t, "the hands to move on", func() bool { return w.count(t, "trigger.schedules WHERE next_at > clock_timestamp()") == 2 })
	}
	names := map[string]int{}
	for _, s := range starts.exactly(t, 2) {
		names[s.Trigger.Name]++
	}
	if diff := cmp.Diff(map[string]int{"one": 1, "two": 1}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// After an outage of two hours each schedule makes one run, and says how many it
// missed.
func TestCaseB04_OneCatchUp(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var docs strings.Builder
	for i := range 5 {
		fmt.Fprintf(&docs, "---\napiVersion: holdfast/v1\nkind: Schedule\nmetadata: {name: minutely-%d}\nspec: {cron: \"*/30 * * * *\", agent: anything}\n", i)
	}
	w.apply(t, docs.String())
	first := w.pair(t)
	w.hands(t, 5)
	first.stop()
	w.moveHands(t, time.Now().UTC().Truncate(30*time.Minute).Add(-2*time.Hour))
	r := w.pair(t)
	w.collect(t, true).exactly(t, 5)
	var list struct {
		Items []struct {
			Name   string
			Missed int64
			Next   []json.RawMessage
			Last   struct{ RunID string } `json:"last"`
		}
	}
	a := r.api(authn.Viewer, "GET", "/v1/schedules", "")
	if err := json.Unmarshal(a.body, &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 5 {
		t.Fatalf("%d schedules: %s", len(list.Items), a.body)
	}
	for _, s := range list.Items {
		if s.Missed != 4 || len(s.Next) != 10 {
			t.Errorf("schedule %s missed %d and shows %d next fires, want 4 and 10", s.Name, s.Missed, len(s.Next))
		}
	}
}

// What was changed, paused or deleted while its hand was due does not fire as it
// was.
func TestSchedule_NeverFiresFromAStaleCopy(t *testing.T) {
	t.Parallel()
	w := setup(t)
	at := past()
	w.apply(t, scheduleDoc("changed", at, "")+scheduleDoc("paused", at, "")+scheduleDoc("deleted", at, "")+scheduleDoc("kept", at, ""))
	first := w.start(t)
	w.hands(t, 4)
	first.stop()
	w.moveHands(t, at)
	w.apply(t, scheduleDoc("changed", at.Add(-6*time.Hour), "")+scheduleDoc("paused", at, ", paused: true"))
	w.remove(t, "schedule", "deleted")
	w.start(t)
	got := w.collect(t, true).exactly(t, 1)
	if got[0].Trigger.Name != "kept" {
		t.Errorf("%s fired", got[0].Trigger.Name)
	}
	until(t, "the hand of the deleted one to be gone", func() bool { return w.count(t, "trigger.schedules WHERE name = 'deleted'") == 0 })
	if n := w.count(t, "trigger.schedules WHERE name = 'paused' AND paused AND next_at IS NULL"); n != 1 {
		t.Error("the paused one still has a next fire")
	}
}

// A version saved at the moment of the fire loses nothing: the newest fires.
func TestSchedule_SavedAtTheMomentOfItsFire(t *testing.T) {
	t.Parallel()
	w := setup(t)
	at := past()
	w.apply(t, scheduleDoc("nightly", at, ""))
	first := w.start(t)
	w.hands(t, 1)
	first.stop()
	w.moveHands(t, at)
	w.apply(t, strings.Replace(scheduleDoc("nightly", at, ""), "night:", "saved:", 1))
	w.apply(t, "apiVersion: holdfast/v1\nkind: Agent\nmetadata: {name: anything}\nspec: {model: claude, instructions: The newest.}\n")
	var digest string
	if err := w.db.Pool.QueryRow(t.Context(), `SELECT digest FROM catalog.v_current WHERE kind = 'agent' AND name = 'anything'`).Scan(&digest); err != nil {
		t.Fatal(err)
	}
	w.start(t)
	got := w.collect(t, true).exactly(t, 1)[0]
	if !strings.Contains(string(got.Input), "saved") || got.Ref.Digest != events.Digest(digest) {
		t.Errorf("input %s of %s, want the newest of both", got.Input, got.Ref.Digest)
	}
}

// A schedule that cannot fire, in whatever way, keeps no other from firing.
func TestCaseB08_BrokenSchedules(t *testing.T) {
	t.Parallel()
	w := setup(t)
	at := past()
	for name, body := range map[string]string{
		"never":    `{"apiVersion":"holdfast/v1","kind":"Schedule","metadata":{"name":"never"},"spec":{"agent":"anything","cron":"0 0 31 4 *","input":{},"paused":false,"timeZone":"UTC"}}`,
		"nonsense": `{"apiVersion":"holdfast/v1","kind":"Schedule","metadata":{"name":"nonsense"},"spec":{"agent":"anything","cron":"x","input":{},"paused":false,"timeZone":"Mars/Phobos"}}`,
		"noise":    `{"hello":1}`,
	} {
		digest := events.DigestOf([]byte(body))
		_, err := w.db.Pool.Exec(t.Context(), `WITH v AS (INSERT INTO catalog.versions (namespace, kind, name, digest, body, created_by)
			VALUES ('default', 'schedule', $1, $2, $3, 'test')) INSERT INTO catalog.current (namespace, kind, name, digest, version, updated_by)
			VALUES ('default', 'schedule', $1, $2, 1, 'test')`, name, string(digest), []byte(body))
		if err != nil {
			t.Fatal(err)
		}
	}
	w.apply(t, scheduleDoc("good", at, "")+strings.Replace(scheduleDoc("unknown-agent", at, ""), "agent: anything", "agent: nobody", 1))
	r := w.pair(t)
	w.hands(t, 2)
	w.moveHands(t, at)
	if got := w.collect(t, true).exactly(t, 1); got[0].Trigger.Name != "good" {
		t.Errorf("%s fired", got[0].Trigger.Name)
	}
	until(t, "the fire that could start nothing to be kept", func() bool {
		return w.count(t, "trigger.rejected WHERE source_kind = 'schedule' AND source_name = 'unknown-agent' AND code = 'unknown_target'") == 1
	})
	if n := w.count(t, "trigger.fires WHERE schedule = 'unknown-agent' AND run_id IS NULL"); n != 1 {
		t.Errorf("%d fires of the schedule that could start nothing, want 1", n)
	}
	// Nobody is busy with what cannot fire.
	const broken = "trigger.schedules WHERE name IN ('never', 'nonsense', 'noise') AND (next_at IS NOT NULL OR version > 3)"
	if n := w.count(t, broken); n != 0 {
		t.Errorf("%d hands of broken schedules are due or were written again and again", n)
	}
	for name, want := range map[string]string{"never": "never fires", "nonsense": "", "noise": ""} {
		a := r.api(authn.Viewer, "GET", "/v1/schedules/"+name, "")
		var s struct{ Problem string }
		if err := json.Unmarshal(a.body, &s); err != nil || a.status != 200 || s.Problem == "" || !strings.Contains(s.Problem, want) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
}

func TestSchedule_TriggerNow(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, scheduleDoc("nightly", past(), ", paused: true"))
	r := w.start(t)
	const path = "/v1/schedules/nightly/trigger"
	first := r.api(operator, "POST", path, "", "Idempotency-Key", "k")
	accepted(t, first)
	again := r.api(operator, "POST", path, "", "Idempotency-Key", `"k"`)
	accepted(t, again)
	other := r.api(operator, "POST", path+"?overlap=allow", "")
	accepted(t, other)
	if first.RunID != again.RunID || again.header.Get("Idempotency-Replayed") != "true" || other.RunID == first.RunID {
		t.Errorf("runs %s, %s and %s", first.RunID, again.RunID, other.RunID)
	}
	for _, s := range w.collect(t, true).exactly(t, 2) {
		if s.Principal != "operator" || s.Trigger.Kind != "schedule" || s.Trigger.Name != "nightly" || !strings.Contains(string(s.Input), time.Now().UTC().Format("2006-01")) {
			t.Errorf("start %+v with input %s", s, s.Input)
		}
	}
	if a := r.api(operator, "POST", "/v1/schedules/nobody/trigger", ""); a.status != 404 {
		t.Errorf("unknown schedule: %d %s", a.status, a.body)
	}
	if a := r.api(authn.Viewer, "POST", path, ""); a.status != 403 {
		t.Errorf("a viewer: %d %s", a.status, a.body)
	}
}

// The preview is in UTC and on the schedule's wall clock, and marks what the
// clock shifts.
func TestSchedule_Preview(t *testing.T) {
	t.Parallel()
	w := setup(t)
	// The second Sunday of March is the day on which New York has no 02:30.
	w.apply(t, `apiVersion: holdfast/v1
kind: Schedule
metadata: {name: spring}
spec: {cron: "30 2 * 3 0#2", timeZone: America/New_York, flow: night}
`)
	r := w.start(t)
	a := r.api(authn.Viewer, "GET", "/v1/schedules/spring", "")
	var s struct {
		Flow     string
		TimeZone string `json:"time_zone"`
		Next     []struct {
			At             time.Time
			Local, Nominal string
			Shifted        bool
		}
	}
	if err := json.Unmarshal(a.body, &s); err != nil {
		t.Fatal(err)
	}
	if a.status != 200 || s.Flow != "night" || s.TimeZone != "America/New_York" || len(s.Next) != 10 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for _, f := range s.Next {
		if !f.Shifted || f.Nominal[11:] != "02:30" || f.Local[11:] != "03:30:00-04:00" || f.At.UTC().Format("15:04") != "07:30" {
			t.Errorf("fire %+v", f)
		}
	}
}
