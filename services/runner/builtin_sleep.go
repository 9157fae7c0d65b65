package runner

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// pendingTimer is a call that sleeps. Nothing is sent for it and nobody is asked
// again: its timer is a row.
const pendingTimer = "timer"

// sleepCall is a call of the built-in sleep_until. Every time it compares and
// tells is the database's.
func (d *decision) sleepCall(_ *Plan, c *Call) (*events.Problem, error) {
	now := d.now.UTC().Truncate(time.Microsecond)
	until, err := wakeTime(c.Args, now)
	if err != nil {
		return refuseHere("%v", err), nil
	}
	body := events.SleepStarted{CallID: c.CallID, Until: until}
	if !until.After(now) {
		body.Past = now
	}
	return nil, d.add(events.FactSleepStarted, body, false)
}

// wakeTime reads when a call is to wake, to the microsecond.
func wakeTime(raw json.RawMessage, now time.Time) (time.Time, error) {
	var args struct {
		Until *string `json:"until"`
		For   *string `json:"for"`
	}
	if err := json.Unmarshal(raw, &args); err != nil {
		return time.Time{}, err
	}
	if (args.Until == nil) == (args.For == nil) {
		return time.Time{}, fmt.Errorf("give exactly one of until and for")
	}
	until := now
	if args.For != nil {
		length, err := spec.ParseDuration(*args.For)
		if err != nil {
			return time.Time{}, fmt.Errorf("for is no length of time like \"90m\" or \"3d\": %q", clip(*args.For, 40))
		}
		until = now.Add(min(length, 2*spec.MaxSleep))
	} else {
		t, err := time.Parse(time.RFC3339, *args.Until)
		if err != nil {
			return time.Time{}, fmt.Errorf("until is no time with its offset like \"2026-11-30T07:00:00+01:00\": %q", clip(*args.Until, 40))
		}
		until = t.UTC().Truncate(time.Microsecond)
	}
	if until.After(now.Add(spec.MaxSleep)) {
		return time.Time{}, fmt.Errorf("that is more than a year away, and the longest sleep is %d days", int(spec.MaxSleep.Hours())/24)
	}
	return until, nil
}

// sleepTimer wakes a call. A call sleeps once, so its name is enough.
func sleepTimer(c *Call) string { return "sleep-" + callSuffix(c.CallID) }

// callSuffix is what is left of a call's id without the run's.
func callSuffix(id events.CallID) string {
	return string(id)[len("00000000-0000-0000-0000-000000000000")+1:]
}

// sleeping finds the call that a timer wakes.
func (s *State) sleeping(timer string) *Call {
	if len(s.Turns) == 0 {
		return nil
	}
	for _, c := range s.CallsInOrder(len(s.Turns) - 1) {
		if c.State == callSleep && sleepTimer(c) == timer {
			return c
		}
	}
	return nil
}

func (s *State) sleepStarted(seq int64, b events.SleepStarted) error {
	if !b.Past.IsZero() {
		return s.answeredHere(seq, b.CallID, slept{Until: b.Until, Woke: b.Past, Note: "that time had passed; nothing was waited for"})
	}
	c, ok := s.Calls[b.CallID]
	if !ok || c.State != callHere {
		return fmt.Errorf("call %s cannot sleep", b.CallID)
	}
	c.State, c.Since, c.Until = callSleep, seq, b.Until
	return nil
}

// slept is what the model reads.
type slept struct {
	Until time.Time `json:"until"`
	Woke  time.Time `json:"woke_at"`
	Note  string    `json:"note,omitempty"`
}

// wakeCall gives a sleeping call its result.
func (s *State) wakeCall(seq int64, t events.TimerFired) {
	c := s.sleeping(t.Timer)
	if c == nil {
		return
	}
	c.State, c.Since = callDone, seq
	c.Done = &events.ToolCompleted{CallID: c.CallID, RunID: s.RunID, Tool: c.Tool, Status: events.CallSucceeded, Result: mustJSON(slept{Until: c.Until, Woke: t.Woke})}
}
