package runner

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// pendingSignal is a call that waits for a signal. Nothing is sent for it and
// nobody is asked again: a row and a timer are all there is.
const pendingSignal = "signal"

// awaits routes a call of a tool that waits for a signal, and reports whether it
// is one.
func (s *State) awaits(plan *Plan, asked *events.AskedCall, now time.Time) bool {
	if asked.Route != events.RouteSend {
		return false
	}
	wait := plan.Tools[asked.Tool].Signal
	if wait == nil {
		return false
	}
	key, err := wait.WaitKey(asked.Args)
	if err != nil {
		asked.Route = events.RouteAnswer
		asked.Problem = &events.Problem{Code: "signal_key", Message: clip(err.Error(), 500) + "; nothing was waited for"}
		return true
	}
	asked.Wait = &events.SignalWait{Name: wait.Name, Key: key, TimeoutMs: wait.Timeout.Std().Milliseconds()}
	asked.Route = events.RouteHold
	if s.Pause == nil {
		beginWait(asked, now)
	}
	return true
}

// beginWait starts the clock of a call that waits.
func beginWait(asked *events.AskedCall, now time.Time) {
	w := *asked.Wait
	w.Until = now.Add(time.Duration(w.TimeoutMs) * time.Millisecond).UTC().Truncate(time.Microsecond)
	asked.Route, asked.Wait = events.RouteWait, &w
}

// waits lists the calls that wait for a signal, in the order of the answer. They
// are all of the last one.
func (s *State) waits() []*Call {
	if len(s.Turns) == 0 {
		return nil
	}
	return slices.DeleteFunc(s.CallsInOrder(len(s.Turns)-1), func(c *Call) bool { return c.State != callWait })
}

// takes reports whether a call that waits may have a signal.
func (c *Call) takes(sig events.Signal) bool {
	if c.State != callWait || sig.Name != c.Wait.Name {
		return false
	}
	if sig.CallID != "" {
		return sig.CallID == c.CallID && sig.Key == c.Wait.Key
	}
	return sig.Key == "" || sig.Key == c.Wait.Key
}

// waitTimer ends a wait. A call waits once, so its name is enough.
func waitTimer(c *Call) string {
	return "wait-" + callSuffix(c.CallID)
}

// signal records a signal. One that is for a certain wait is late when that has
// ended: whoever sent it looks for another.
func (d *decision) signal(sig events.Signal) error {
	if sig.CallID != "" {
		if c := d.state.Calls[sig.CallID]; c == nil || !c.takes(sig) {
			return d.late(Input{Type: events.TypeSignalRun, Original: sig})
		}
	}
	return d.add(events.FactSignalReceived, sig, true)
}

// takeSignals gives kept signals to the calls that wait, the oldest signal to
// the call that was asked first. A pause keeps no signal away.
func (d *decision) takeSignals() error {
	for _, c := range d.state.waits() {
		i := slices.IndexFunc(d.state.Signals, d.state.Calls[c.CallID].takes)
		if i < 0 {
			continue
		}
		body := events.SignalTaken{SignalID: d.state.Signals[i].ID, CallID: c.CallID}
		if err := d.add(events.FactSignalTaken, body, false); err != nil {
			return err
		}
	}
	return nil
}

func (s *State) signalTaken(seq int64, t events.SignalTaken) error {
	i := slices.IndexFunc(s.Signals, func(sig events.Signal) bool { return sig.ID == t.SignalID })
	c, ok := s.Calls[t.CallID]
	if i < 0 || !ok || c.State != callWait {
		return fmt.Errorf("signal %s and call %s do not wait for each other", t.SignalID, t.CallID)
	}
	c.State, c.Since = callDone, seq
	c.Done = &events.ToolCompleted{CallID: c.CallID, RunID: s.RunID, Tool: c.Tool, Status: events.CallSucceeded, Result: s.Signals[i].Data}
	s.Signals = slices.Concat(s.Signals[:i], s.Signals[i+1:])
	return nil
}

func (s *State) waitTimedOut(seq int64, timer string) {
	for _, c := range s.waits() {
		if waitTimer(c) != timer {
			continue
		}
		c.State, c.Since = callDone, seq
		c.Done = &events.ToolCompleted{CallID: c.CallID, RunID: s.RunID, Tool: c.Tool, Status: events.CallFailed, Error: &events.Problem{
			Code: "signal_timeout", Message: fmt.Sprintf("no signal %s came within %s", c.Wait.Name, spec.Duration(time.Duration(c.Wait.TimeoutMs)*time.Millisecond))}}
	}
}

// waitDetail is what the row of a wait says about it; the views read it.
func waitDetail(w *events.SignalWait) string {
	return string(mustJSON(struct {
		Name  string    `json:"name"`
		Key   string    `json:"key,omitempty"`
		Until time.Time `json:"until"`
	}{w.Name, w.Key, w.Until}))
}

// waitingForSignal says what a wait is for, in words.
func waitingForSignal(detail string) string {
	var w events.SignalWait
	if json.Unmarshal([]byte(detail), &w) != nil {
		return "a signal"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "signal %s", w.Name)
	if w.Key != "" {
		fmt.Fprintf(&b, ", key %q", w.Key)
	}
	fmt.Fprintf(&b, ", until %s", w.Until.UTC().Format(time.RFC3339))
	return b.String()
}
