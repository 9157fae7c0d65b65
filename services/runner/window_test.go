package runner

import (
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// A run that a window's limit has stopped waits for the next one as a timer, and
// goes on when it fires; whatever else ends the pause ends the wait.
func TestWindow_TheNextOneEndsThePause(t *testing.T) {
	t.Parallel()
	until := testTime.Add(7 * time.Hour)
	first, plan := capped(t, spec.AgentBudget{ModelCalls: 100})
	d, err := DecideRefused(first, Reserved{Refused: "night", Full: true, Reason: "pool night is used up", Until: until}, Claimed{}, testTime)
	if err != nil {
		t.Fatal(err)
	}
	s := d.State
	timers := s.Timers(time.Time{})
	if len(timers) != 1 || timers[0].Name != windowTimer(s.Seq) || !timers[0].Due.Equal(until) || s.Status() != events.StatusPaused || d.Facts[0].Reader != 3 {
		t.Fatalf("timers %v, status %s, reader %d", timers, s.Status(), d.Facts[0].Reader)
	}
	fired := Input{Cause: "window", Timer: &events.TimerFired{Timer: timers[0].Name}}
	if s = must(t)(Decide(d.State, plan, fired, "w", until)); !s.OwesModelCall() || len(s.Timers(time.Time{})) != 0 {
		t.Errorf("after the window opened: status %s, timers %v", s.Status(), s.Timers(time.Time{}))
	}
	for what, in := range map[string]Input{
		"raise":  {What: events.RunRaiseBudget, Command: &events.Command{ID: "1", Budget: "pool:night", To: 9}},
		"resume": {What: events.RunResume, Command: &events.Command{ID: "2"}},
		"cancel": {What: events.RunCancel, Command: &events.Command{ID: "3"}},
	} {
		in.Cause = what
		s := must(t)(Decide(d.State, plan, in, "w", testTime))
		for _, timer := range s.Timers(time.Time{}) {
			if timer.Name == timers[0].Name {
				t.Errorf("after a %s it still waits for the window", what)
			}
		}
		late, err := Decide(s, plan, fired, "w", until)
		if err != nil || len(late.Facts) != 1 {
			t.Errorf("after a %s the window's timer says %d rows (%v), want its own alone", what, len(late.Facts), err)
		}
	}
	// Another pause is not ended by the timer of one before it.
	s = must(t)(Decide(d.State, plan, Input{Cause: "r", What: events.RunResume, Command: &events.Command{ID: "4"}}, "w", testTime))
	s = must(t)(Decide(s, plan, Input{Cause: "p", What: events.RunPause, Command: &events.Command{ID: "5"}}, "w", testTime))
	if s = must(t)(Decide(s, plan, fired, "w", until)); s.Pause == nil {
		t.Error("the window ended an operator's pause")
	}
}
