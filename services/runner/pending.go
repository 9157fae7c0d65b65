package runner

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Pending is one thing a run waits for. The rows are a projection of the
// state: the commit writes the difference, the doctor re-sends what stays.
type Pending struct {
	Item   string // unique in the run
	Kind   string // pendingModel …
	Detail string // tool, child run id, or what a wait for a signal is for
}

const (
	pendingModel    = "model"
	pendingTool     = "tool"
	pendingApproval = "approval"
	pendingDoubt    = "doubt"
	pendingChild    = "child"
	pendingCallback = "callback" // of a run that has ended
	// pendingSignal, pendingTimer, pendingQuestion and pendingStarted stand with
	// what waits for them.
)

// Timer is one wake-up that a run waits for.
type Timer struct {
	Name string
	Due  time.Time
}

// cancelGrace bounds how long a cancelled run waits for the true outcome of
// calls that had begun.
const cancelGrace = 30 * time.Second

// PendingItems lists what the state waits for, in a stable order.
func (s *State) PendingItems() []Pending {
	return slices.SortedFunc(s.pending(), func(a, b Pending) int { return cmp.Compare(a.Item, b.Item) })
}

// pending is PendingItems in any order. Of a run with a thousand open calls who only
// wants to know one thing reads no further, and nobody sorts for that.
func (s *State) pending() iter.Seq[Pending] { return s.eachPending }

func (s *State) eachPending(yield func(Pending) bool) {
	if s.owesCallback() && !yield(Pending{Item: pendingCallback, Kind: pendingCallback, Detail: s.Started.Callback.URL}) {
		return
	}
	if s.End != "" && s.Cancel != nil || s.Queued && s.Cancel != nil {
		return
	}
	for name, item := range s.Items {
		kind := pendingChild
		switch {
		case item.Done != nil:
			continue
		case item.Detached:
			kind = pendingStarted
		case s.End != "":
			continue
		}
		if !yield(Pending{Item: "child/" + name, Kind: kind, Detail: string(item.RunID)}) {
			return
		}
	}
	if s.End != "" {
		return
	}
	if s.Queued && !yield(Pending{Item: pendingSlots, Kind: pendingSlots, Detail: s.Started.Concurrency[0].Shown}) {
		return
	}
	if s.OwesModelCall() && !yield(Pending{Item: "model", Kind: pendingModel, Detail: s.Started.Ref.Name}) {
		return
	}
	for id, c := range s.Calls {
		if p, waits := pendingCall(id, c); waits && !yield(p) {
			return
		}
	}
	for name, a := range s.Alarms {
		if !yield(Pending{Item: "timer/" + name, Kind: pendingTimer, Detail: a.At.UTC().Format(time.RFC3339Nano)}) {
			return
		}
	}
}

// pendingCall is what a call that is not over waits for.
func pendingCall(id events.CallID, c *Call) (p Pending, waits bool) {
	switch c.State {
	case callSent:
		return Pending{Item: "call/" + string(id), Kind: pendingTool, Detail: c.Tool}, true
	case callAsked:
		return Pending{Item: "approval/" + string(c.ApprovalID), Kind: pendingApproval, Detail: c.Tool}, true
	case callWait:
		return Pending{Item: "signal/" + string(id), Kind: pendingSignal, Detail: waitDetail(c.Wait)}, true
	case callSleep:
		return Pending{Item: "timer/" + string(id), Kind: pendingTimer, Detail: c.Until.Format(time.RFC3339Nano)}, true
	case callQuestion:
		return Pending{Item: "approval/" + string(c.Asked.ApprovalID), Kind: pendingQuestion, Detail: c.Tool}, true
	case callDoubt:
		return Pending{Item: "approval/" + string(c.Doubt), Kind: pendingDoubt, Detail: c.Tool}, true
	}
	return Pending{}, false
}

// blocked reports whether the run waits for anything: it waits for no child run
// that its call left alone.
func (s *State) blocked() bool {
	for p := range s.pending() {
		if p.Kind != pendingStarted {
			return true
		}
	}
	return false
}

// Timers lists the wake-ups the state waits for. cancelledAt is when the
// cancel was committed; it only matters for a run that is cancelling.
func (s *State) Timers(cancelledAt time.Time) []Timer {
	if s.End != "" {
		return nil
	}
	var out []Timer
	if s.Retry != nil {
		out = append(out, Timer{Name: s.Retry.Timer, Due: s.Retry.At})
	}
	if s.Cancel != nil && s.CancelSeq > 0 {
		out = append(out, Timer{Name: cancelTimer(s.CancelSeq), Due: cancelledAt.Add(cancelGrace)})
	}
	if d := s.Started.Deadline; d != nil && s.Cancel == nil {
		out = append(out, Timer{Name: deadlineTimer, Due: d.At})
	}
	if t, ok := s.wallTimer(); ok {
		out = append(out, t)
	}
	for _, w := range s.walls() {
		if t, ok := w.timer(); ok {
			out = append(out, t)
		}
	}
	if s.waitsForWindow() {
		out = append(out, Timer{Name: windowTimer(s.PauseSeq), Due: *s.Pause.Until})
	}
	for _, c := range s.waits() {
		out = append(out, Timer{Name: waitTimer(c), Due: c.Wait.Until})
	}
	for _, c := range s.Calls {
		if c.State == callSleep {
			out = append(out, Timer{Name: sleepTimer(c), Due: c.Until})
		}
	}
	for name, a := range s.Alarms {
		out = append(out, Timer{Name: name, Due: a.At})
	}
	slices.SortFunc(out, func(a, b Timer) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// OwesModelCall reports whether the next step of the run is a model call.
func (s *State) OwesModelCall() bool {
	if s.End != "" || s.Started.Ref.Kind != events.KindAgent || s.Pause != nil || s.Cancel != nil || s.Attention != nil || s.Retry != nil || s.Queued {
		return false
	}
	for _, c := range s.Calls {
		if c.State != callDone {
			return false
		}
	}
	if len(s.Turns) == 0 {
		return true
	}
	last := s.Turns[len(s.Turns)-1].Answer
	return s.goesOn(last) || concluded(last) && s.unread()
}

// Status derives the run's status from what it waits for.
func (s *State) Status() string {
	switch {
	case s.End != "":
		return s.End
	case s.Cancel != nil:
		return events.StatusCancelling
	case s.Attention != nil:
		return events.StatusAttention
	case s.Pause != nil:
		return events.StatusPaused
	case s.Queued:
		return events.StatusQueued
	case s.OwesModelCall():
		return events.StatusRunning
	case s.Retry != nil || s.blocked():
		return events.StatusWaiting
	}
	return events.StatusRunning
}

// Waiting says in a few words what the run waits for; empty when it runs or
// has ended.
func (s *State) Waiting() string {
	switch {
	case s.End != "":
		return ""
	case s.Attention != nil:
		return s.Attention.Message
	case s.Pause != nil:
		return fmt.Sprintf("paused by %s: %s", s.Pause.By, s.Pause.Reason)
	case s.Queued && s.SlotWait != nil:
		return waitingForSlots(*s.SlotWait)
	case s.Retry != nil && s.Retry.Turn != nil:
		return waitingForTurn(*s.Retry.Turn)
	case s.Retry != nil:
		at := "next model attempt at " + s.Retry.At.UTC().Format(time.RFC3339)
		if s.Retry.Why != "" {
			at += ": " + s.Retry.Why
		}
		return at
	}
	counts := map[string]int{}
	least := map[string]Pending{} // the earliest timer; of others the first item
	for p := range s.pending() {
		l, seen := least[p.Kind]
		if counts[p.Kind]++; !seen || p.Kind == pendingTimer && p.Detail < l.Detail || p.Kind != pendingTimer && p.Item < l.Item {
			least[p.Kind] = p
		}
	}
	for _, kind := range []string{pendingDoubt, pendingApproval, pendingQuestion, pendingTool, pendingSignal, pendingChild, pendingTimer} {
		switch n := counts[kind]; {
		case n == 0:
		case kind == pendingDoubt:
			return fmt.Sprintf("a person to say whether %s happened", least[kind].Detail)
		case kind == pendingApproval:
			return fmt.Sprintf("approval of %s (%d open)", least[kind].Detail, n)
		case kind == pendingSignal && n == 1:
			return waitingForSignal(least[kind].Detail)
		case kind == pendingSignal:
			return fmt.Sprintf("%s (%d open)", waitingForSignal(least[kind].Detail), n)
		case kind == pendingQuestion:
			return fmt.Sprintf("a person's answer to %s (%d open)", least[kind].Detail, n)
		case kind == pendingTimer && n == 1:
			return "sleeping until " + least[kind].Detail
		case kind == pendingTimer:
			return fmt.Sprintf("sleeping until %s (%d sleep)", least[kind].Detail, n)
		case kind == pendingTool:
			return fmt.Sprintf("tool %s (%d open)", least[kind].Detail, n)
		default:
			return fmt.Sprintf("%d child runs", n)
		}
	}
	return ""
}

func mustJSON(v any) json.RawMessage {
	b, err := events.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("marshal %T: %v", v, err)) // our own structs; a RawMessage in them was parsed before
	}
	return b
}

// cutItem splits a pending item into its kind and the id behind the first
// slash; "model" has none.
func cutItem(item string) (kind, id string, ok bool) { return strings.Cut(item, "/") }

func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
