package runner

import (
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Every row of a cause is found from the row on that the state names: also the row of a
// deadline, which stands before that of the command which came after it.
func TestRecordedFrom_CoversEveryRowOfACause(t *testing.T) {
	t.Parallel()
	plan, s := dated(t)
	for name, tc := range map[string]struct {
		now   time.Time
		first string
	}{
		"before the deadline": {testTime, events.FactPaused},
		"behind it":           {testTime.Add(2 * time.Hour), events.FactDeadline},
	} {
		in := commandInput(events.RunPause)
		d, err := Decide(s, plan, in, "w", tc.now)
		if err != nil || len(d.Facts) == 0 {
			t.Fatalf("%s: %v", name, err)
		}
		from := d.State.recordedFrom(in.Cause)
		for _, f := range d.Facts {
			if f.Cause != in.Cause || f.Seq < from {
				t.Errorf("%s: row %d %s of %s is not looked at from row %d on", name, f.Seq, f.Kind, f.Cause, from)
			}
		}
		if d.Facts[0].Kind != tc.first {
			t.Errorf("%s: the first row is %s, want %s", name, d.Facts[0].Kind, tc.first)
		}
	}
}

func TestAfterStep(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]int64{
		StepMessage(testRun, "default", 41, 7).ID: 42,
		"step:" + string(testRun):                 0,
		"step:" + string(testRun) + ":x:7":        0,
		"start:" + string(testRun):                0,
	} {
		if got := afterStep(id); got != want {
			t.Errorf("rows of %s are looked for from %d on, want %d", id, got, want)
		}
	}
}
