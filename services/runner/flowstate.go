package runner

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Step is a flow step that has begun.
type Step struct {
	Name    string
	Total   int
	Started int // items started so far, in order
	Ended   int
	Failed  int
	Skipped bool
	Since   int64 // its first row
	Kept    bool  // some of its items were finished by the run that this one retries
	next    int   // where the next item is looked for
	// ends has each item that has ended, by index; of one that is tried again, how
	// it ended before. Open items are the run's Items, Calls and Alarms.
	ends   grown[int, ItemEnd]
	failed []int      // never written, only replaced
	due    []retryDue // items whose wait for the next attempt is over
}

// ItemEnd is how an item of a step ended.
type ItemEnd struct {
	Status  string // events.StatusCompleted, or what it is instead
	Output  json.RawMessage
	Error   *events.Problem
	Attempt int  // 1 for the first
	Again   bool // it surely did not happen, so that it may be tried again
}

type retryDue struct{ index, attempt int }

// Alarm is a timer of a step's item: a sleep, or the wait before the next
// attempt of one that failed.
type Alarm struct {
	At      time.Time
	Step    string
	Index   int
	Attempt int // the next one; 0 for a sleep
}

func sleepAlarm(item string) string { return "sleep-" + strings.ReplaceAll(item, "/", "-") }

func retryAlarm(step string, index, attempt int) string {
	return fmt.Sprintf("again-%s-%d-%d", step, index, attempt)
}

// itemName names item i of a step; from the second attempt on the attempt is
// part of it.
func itemName(step string, i, attempt int) string {
	name := step + "/" + strconv.Itoa(i)
	if attempt > 1 {
		name += "/" + strconv.Itoa(attempt)
	}
	return name
}

// begun returns a step, which begins with its first row.
func (s *State) begun(seq int64, name string, total int) *Step {
	st, ok := s.Steps[name]
	if !ok {
		st = &Step{Name: name, Total: total, Since: seq}
		s.Steps[name] = st
	}
	return st
}

func (s *State) childrenStarted(seq int64, c events.ChildrenStarted) {
	st := s.begun(seq, c.Step, c.Total)
	s.begins(seq, len(c.Children))
	for _, child := range c.Children {
		s.Items[child.Item] = &Item{Child: child, Step: c.Step, Index: st.Started, Attempt: 1, Since: seq}
		st.Started++
		st.next = st.Started
	}
}

func (s *State) itemsStarted(seq int64, b events.ItemsStarted) error {
	st := s.begun(seq, b.Step, b.Total)
	for _, it := range b.Items {
		if it.Attempt > 1 {
			st.due = slices.DeleteFunc(slices.Clone(st.due), func(d retryDue) bool { return d.index == it.Index })
		} else {
			st.Started++
			st.next = it.Index + 1
		}
		switch {
		case it.Child != nil:
			s.begins(seq, 1)
			s.Items[it.Item] = &Item{Child: *it.Child, Step: b.Step, Index: it.Index, Attempt: max(it.Attempt, 1), Since: seq}
		case it.Call != nil && it.Call.Step != nil:
			c := &Call{AskedCall: *it.Call, Turn: -1, Since: seq}
			s.route(c)
			if c.onlyAsks() {
				s.ToolCalls-- // no tool is called
			}
			s.Calls[c.CallID] = c
			s.stepCallEnded(c)
		case !it.Until.IsZero():
			s.Alarms[sleepAlarm(it.Item)] = &Alarm{At: it.Until, Step: b.Step, Index: it.Index}
		default:
			return fmt.Errorf("item %s is of no kind that this release knows", it.Item)
		}
	}
	return nil
}

func (s *State) stepSkipped(b events.StepSkipped) {
	s.Steps[b.Step] = &Step{Name: b.Step, Skipped: true}
}

func (s *State) itemRetried(b events.ItemRetried) error {
	st, ok := s.Steps[b.Step]
	if !ok || !slices.Contains(st.failed, b.Index) {
		return fmt.Errorf("item %d of step %s did not fail", b.Index, b.Step)
	}
	st.Ended--
	st.Failed--
	st.failed = slices.DeleteFunc(slices.Clone(st.failed), func(i int) bool { return i == b.Index })
	s.Alarms[retryAlarm(b.Step, b.Index, b.Attempt)] = &Alarm{At: b.At, Step: b.Step, Index: b.Index, Attempt: b.Attempt}
	return nil
}

// itemEnded counts the end of an open item.
func (s *State) itemEnded(step string, index int, end ItemEnd) error {
	st, ok := s.Steps[step]
	if !ok {
		return fmt.Errorf("step %s has not begun", step)
	}
	st.Ended++
	if end.Status != events.StatusCompleted {
		st.Failed++
		st.failed = append(slices.Clip(st.failed), index)
	}
	st.ends.put(index, end)
	return nil
}

// stepCallEnded counts the end of a call that a step made, when it has its one
// result. What comes later is about a call that is over.
func (s *State) stepCallEnded(c *Call) {
	if c.Step == nil || c.State != callDone {
		return
	}
	end := ItemEnd{Status: events.StatusFailed, Attempt: max(c.Step.Attempt, 1)}
	if c.Done != nil {
		end.Error, end.Again = c.Done.Error, c.Done.Status == events.CallFailed && !c.onlyAsks() && c.Route != events.RouteAnswer && !refused(c.Done)
		switch c.Done.Status {
		case events.CallSucceeded:
			end.Status, end.Output, end.Error = events.StatusCompleted, c.Done.Result, nil
		case events.CallUnknown:
			if end.Error == nil {
				end.Error = &events.Problem{Code: "unknown", Message: "it is not known whether the call happened"}
			}
		}
	}
	s.DoneCalls.put(c.CallID, c)
	delete(s.Calls, c.CallID)
	_ = s.itemEnded(c.Step.Step, c.Step.Index, end) // the row that made the call began the step
}

// refused reports whether a person or the clock kept a call from being made.
func refused(t *events.ToolCompleted) bool {
	return t.Error != nil && slices.Contains([]string{"rejected", "approval_expired", "approval_withdrawn"}, t.Error.Code)
}

// call finds a call that is open or over.
func (s *State) call(id events.CallID) (*Call, bool) {
	if c, ok := s.Calls[id]; ok {
		return c, true
	}
	return s.DoneCalls.get(id)
}

// onlyAsks reports whether the call is a question alone.
func (c *Call) onlyAsks() bool { return c.Step != nil && c.Step.Question != "" }

// alarm ends the wait that the timer is for.
func (s *State) alarm(t events.TimerFired) error {
	a, ok := s.Alarms[t.Timer]
	if !ok {
		return nil
	}
	delete(s.Alarms, t.Timer)
	if a.Attempt == 0 {
		return s.itemEnded(a.Step, a.Index, ItemEnd{Status: events.StatusCompleted, Output: mustJSON(events.StepSlept{Until: a.At}), Attempt: 1})
	}
	st := s.Steps[a.Step]
	st.due = append(slices.Clip(st.due), retryDue{a.Index, a.Attempt})
	return nil
}
