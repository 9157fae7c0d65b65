package runner

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Fact is one journal row. Its event is a pure function of it.
type Fact struct {
	Seq  int64
	Kind string // events.Fact…
	// Status is the run's status after this row.
	Status string
	// Cause is the logical id of the message that led to the row. Several rows
	// may share one.
	Cause string
	// Inbound marks the row that records the message itself; (run, cause) is
	// unique among those.
	Inbound bool
	Worker  string
	At      time.Time // by the database clock; zero until committed
	Data    json.RawMessage
	Reader  int // the oldest that understands the body; zero: its kind says
}

// State is a run folded from its journal. Fold never decides: the same rows
// give the same state in every release that can read them.
type State struct {
	RunID     events.RunID
	Namespace string
	Seq       int64 // of the last row; the run's version
	Started   events.RunStarted

	Turns []Turn
	Calls map[events.CallID]*Call // of the last turn, and of steps that wait
	Items map[string]*Item        // children by pending item; of a flow's, those that have not ended
	Steps map[string]*Step        // flow steps that have begun
	// DoneCalls are calls that are over and never written again: those of all turns
	// but the last, and those of a flow's steps. Alarms are a flow's timers, by name.
	DoneCalls grown[events.CallID, *Call]
	Alarms    map[string]*Alarm
	rendered  *renderings   // what steps render once; shared by every copy
	beginning *beginning    // of the conversation, likewise
	written   *atomic.Int64 // how much of the array under Turns is taken, by any copy
	committed int64         // last row that is surely there, while a decision adds to it

	ModelCalls int64 // answers and failed attempts, but for those that the provider refused unbilled
	ToolCalls  int64 // calls that were sent or asked; refused ones cost nothing
	Begun      int64 // runs that were started, all attempts; not those of copied rows
	Usage      events.Usage
	Cost       int64             // of all answers and billed attempts, in micro-dollars, by the prices of their models
	CostGuess  int64             // the part of it whose usage was estimated
	ModelName  string            // of the fallback that answers now; empty for the agent's own model
	Messages   []Message         // to the model, in order
	Prompt     string            // instead of the agent's first message
	System     string            // instead of the agent's instructions
	First      string            // what the conversation began with, before the run moved to another version
	Versions   []Version         // that the run executed before; never written, only replaced
	Moved      int64             // row behind which it executes what Started pins; 0: from the first
	Moving     *events.Migration // an order to move it that waits
	Ordered    string            // id of the newest such order
	Fork       *events.Forked    // the newest; nil for a run that began by itself
	Guarded    bool              // every write needs a yes: what it goes on from was edited, or may be
	Raised     map[string]int64  // ceilings lifted by command, by the names in ceilings.go
	Orders     map[string]order  // the newest command about each thing; never written, only replaced
	Signals    []events.Signal   // kept until a call takes them, the oldest first
	Edits      []Edit            // calls that a person changed; never written, only replaced
	Refusals   []Refusal         // calls that a person said no to; never written, only replaced
	PlanItems  []events.PlanItem
	NamedFacts map[string]json.RawMessage // canonical; like PlanItems never written, only replaced

	Judged    int64 // row of the newest answer that was not accepted as the run's output
	Repairs   int   // how many corrections of one were asked for
	Repairing bool  // the model corrects its final answer, and calls nothing

	Compacting *Compacting // the next model call asks for a summary
	Compacted  *Compacted  // what stands for the first answers; nil: all are in the requests
	Pressed    int         // how many answers there were when a compaction last began

	Overtime int64 // wall time, in milliseconds, whose end the journal knows
	// WallsOver is the same of flows above, by their pools; never written, only replaced.
	WallsOver map[string]time.Duration

	Queued   bool                 // it has no place under its concurrency keys yet
	SlotWait *events.SlotsAwaited // what it met there
	Shared   []events.Digest      // keys whose places are those of runs above

	Retry     *Retry         // a failed model call that waits for its timer
	Failures  int            // failed model attempts in a row
	Pause     *events.Paused // why it stands still
	PauseSeq  int64          // row that made it stand still last
	Cancel    *events.Cancelling
	Expiring  bool // Cancel is the deadline's
	Overdue   bool // the timer of the deadline fired
	CancelSeq int64
	Attention *events.Problem
	End       string // final status, empty before the end
	EndSeq    int64  // row of the end
	Ending    events.Ending
	Posted    *events.ToolCompleted // what became of the callback, after the end

	Causes grown[string, int64] // inbound causes and the row that recorded each
}

// Turn is one answer of the model with the calls it asked for.
type Turn struct {
	Seq    int64
	Answer events.ModelAnswered
}

// Call is one tool call of an answer.
type Call struct {
	events.AskedCall
	Turn     int
	State    string // callHeld, callAsked, callSent, callWait, callHere, callSleep, callChild, callQuestion, callDoubt, callDone
	Done     *events.ToolCompleted
	Doubt    events.ApprovalID   // open question about an unknown outcome
	Doubts   []events.ApprovalID // every such question of this call
	Approved *events.ApprovalDecision
	Verdict  *events.ApprovalDecision // how a person settled the doubt
	Asked    *events.QuestionAsked    // callQuestion
	Until    time.Time                // callSleep: when it wakes
	Since    int64                    // row that brought it into State
	shown    *Result                  // what the model reads, once nothing can change it
}

const (
	callHeld     = "held"     // not sent: the run was paused
	callAsked    = "asked"    // waits for a person's yes
	callSent     = "sent"     // with the tools service
	callWait     = "wait"     // waits for a signal
	callHere     = "here"     // of a built-in: the row behind says what follows, in the same commit
	callSleep    = "sleep"    // waits for a time
	callChild    = "child"    // waits for the end of a run that it started
	callQuestion = "question" // waits for a person's answer
	callDoubt    = "doubt"    // outcome unknown, a person was asked
	callDone     = "done"     // has its one result
)

// Item is one child run, of a flow's step or of a call.
type Item struct {
	events.Child
	Step     string
	Index    int
	Attempt  int           // of a step's item, 1 for the first
	Call     events.CallID // that started it; then it has no step
	Detached bool          // the call does not wait for it
	Done     *events.ChildCompleted
	Since    int64
}

// Retry is the wait before a model call: between two attempts, or for a turn.
type Retry struct {
	Timer string
	At    time.Time
	Turn  *events.TurnAwaited // what it waits for; nil: the next attempt
	Why   string              // when nobody was asked
}

// NewState returns the state of a run without rows.
func NewState(id events.RunID, namespace string) *State {
	return &State{
		RunID: id, Namespace: namespace,
		Calls: map[events.CallID]*Call{}, Items: map[string]*Item{}, Steps: map[string]*Step{}, Alarms: map[string]*Alarm{}, rendered: newRenderings(), beginning: &beginning{}, written: &atomic.Int64{},
		Raised: map[string]int64{},
	}
}

// Clone copies the state deeply enough that folding into the copy leaves the
// original alone. Bodies are shared: they are never written.
func (s *State) Clone() *State {
	c := *s
	c.Signals = slices.Clip(s.Signals)
	c.Calls = cloneValues(s.Calls)
	c.Items = cloneValues(s.Items)
	c.Steps = cloneValues(s.Steps)
	for name, st := range c.Steps {
		st.ends = s.Steps[name].ends.clone()
	}
	c.DoneCalls = s.DoneCalls.clone()
	c.Alarms = maps.Clone(s.Alarms)
	c.Raised = maps.Clone(s.Raised)
	c.Causes = s.Causes.clone()
	return &c
}

func cloneValues[K comparable, V any](m map[K]*V) map[K]*V {
	out := make(map[K]*V, len(m))
	for k, v := range m {
		copied := *v
		out[k] = &copied
	}
	return out
}

// Apply folds one row. It fails on a gap in seq and on a body that does not
// decode: a run is never continued from hollow state.
func (s *State) Apply(f Fact) error {
	if f.Seq != s.Seq+1 {
		return fmt.Errorf("run %s: row %d follows row %d", s.RunID, f.Seq, s.Seq)
	}
	if err := s.apply(f); err != nil {
		return fmt.Errorf("run %s row %d %s: %w", s.RunID, f.Seq, f.Kind, err)
	}
	s.Seq = f.Seq
	if f.Inbound {
		s.Causes.put(f.Cause, f.Seq)
	}
	return nil
}

// recordedFrom is the first row of a cause that the run has recorded: a deadline that
// passed stands before the row of the message that found it so.
func (s *State) recordedFrom(cause string) int64 {
	seq, _ := s.Causes.get(cause)
	return seq - 1
}

func (s *State) apply(f Fact) error {
	switch f.Kind {
	case events.FactStarted:
		err := json.Unmarshal(f.Data, &s.Started)
		s.Queued = len(s.Started.Concurrency) > 0
		return err
	case events.FactSlotsAwaited:
		return decodeInto(f, func(b events.SlotsAwaited) error { s.slotsAwaited(b); return nil })
	case events.FactSlotsTaken:
		return decodeInto(f, func(b events.SlotsTaken) error { s.slotsTaken(b); return nil })
	case events.FactModelAnswered:
		return decodeInto(f, func(a events.ModelAnswered) error { s.answered(f.Seq, a); return nil })
	case events.FactModelFailed:
		return decodeInto(f, func(m events.ModelFailed) error { s.modelFailed(f.Seq, m); return nil })
	case events.FactToolCompleted:
		return decodeInto(f, func(t events.ToolCompleted) error { return s.toolCompleted(f.Seq, t) })
	case events.FactApprovalDecided:
		return decodeInto(f, func(d events.ApprovalDecision) error { return s.decided(f.Seq, d) })
	case events.FactChildrenStarted:
		return decodeInto(f, func(c events.ChildrenStarted) error { s.childrenStarted(f.Seq, c); return nil })
	case events.FactChildCompleted:
		return decodeInto(f, func(c events.ChildCompleted) error { return s.childCompleted(f.Seq, c) })
	case events.FactItemsStarted:
		return decodeInto(f, func(b events.ItemsStarted) error { return s.itemsStarted(f.Seq, b) })
	case events.FactStepSkipped:
		return decodeInto(f, func(b events.StepSkipped) error { s.stepSkipped(b); return nil })
	case events.FactItemRetried:
		return decodeInto(f, s.itemRetried)
	case events.FactItemsKept:
		return decodeInto(f, func(b events.ItemsKept) error { return s.itemsKept(f.Seq, b) })
	case events.FactTimerFired:
		return decodeInto(f, func(t events.TimerFired) error {
			s.timerFired(t)
			s.waitTimedOut(f.Seq, t.Timer)
			s.wakeCall(f.Seq, t)
			return s.alarm(t)
		})
	case events.FactPaused:
		return decodeInto(f, func(p events.Paused) error {
			s.Pause, s.PauseSeq = &p, f.Seq
			s.ordered(events.Command{ID: p.CommandID, Place: p.Place})
			return nil
		})
	case events.FactResumed:
		return decodeInto(f, func(r events.Resumed) error {
			s.Pause, s.Attention, s.Failures = nil, nil, 0
			s.ordered(events.Command{ID: r.CommandID, Place: r.Place})
			return s.release(f.Seq, r.Release)
		})
	case events.FactBudgetRaised:
		return decodeInto(f, func(r events.Raised) error { s.raised(f.Seq, r); return s.release(f.Seq, r.Release) })
	case events.FactCancelRequested:
		return decodeInto(f, func(c events.Cancelling) error { s.cancelling(f.Seq, c); return nil })
	case events.FactAttention:
		return decodeInto(f, func(e events.Ending) error { s.Attention = e.Error; return nil })
	case events.FactCompleted, events.FactFailed, events.FactCancelled, events.FactExpired:
		return decodeInto(f, func(e events.Ending) error { s.end(f.Seq, f.Kind, e); return nil })
	case events.FactCallback:
		return decodeInto(f, func(t events.ToolCompleted) error { s.Posted = &t; return nil })
	case events.FactSignalReceived:
		return decodeInto(f, func(sig events.Signal) error { s.Signals = append(s.Signals, sig); return nil })
	case events.FactSignalTaken:
		return decodeInto(f, func(t events.SignalTaken) error { return s.signalTaken(f.Seq, t) })
	case events.FactPlanChanged:
		return decodeInto(f, func(p events.PlanChanged) error { return s.planChanged(f.Seq, p) })
	case events.FactFactsChanged:
		return decodeInto(f, func(c events.FactsChanged) error { return s.factsChanged(f.Seq, c) })
	case events.FactSleepStarted:
		return decodeInto(f, func(b events.SleepStarted) error { return s.sleepStarted(f.Seq, b) })
	case events.FactTurnAwaited:
		return decodeInto(f, func(b events.TurnAwaited) error { s.turnAwaited(f.Seq, b); return nil })
	case events.FactChildStarted:
		return decodeInto(f, func(b events.ChildStarted) error { return s.childStarted(f.Seq, b) })
	case events.FactQuestionAsked:
		return decodeInto(f, func(b events.QuestionAsked) error { return s.questionAsked(f.Seq, b) })
	case events.FactForked:
		return decodeInto(f, s.forked)
	case events.FactOutputRejected:
		return decodeInto(f, func(b events.OutputRejected) error { s.outputRejected(b); return nil })
	case events.FactDeadline:
		return decodeInto(f, func(e events.Expiring) error { s.cancelling(f.Seq, e.Cancelling); s.Expiring = true; return nil })
	case events.FactMessage:
		return decodeInto(f, func(m events.SayRun) error { s.said(m); return nil })
	case events.FactCompactionStarted:
		return decodeInto(f, s.compactionStarted)
	case events.FactContextCompacted:
		return decodeInto(f, func(b events.ContextCompacted) error { return s.contextCompacted(f.Seq, b) })
	case events.FactMigrationOrdered:
		return decodeInto(f, func(m events.Migration) error { s.migrationOrdered(m); return nil })
	case events.FactMigrated:
		return decodeInto(f, func(m events.Migrated) error { s.migrated(f.Seq, m); return nil })
	case events.FactMigrationRefused:
		return decodeInto(f, func(m events.MigrationRefused) error { s.migrationRefused(m); return nil })
	case events.FactLateResult:
		return decodeInto(f, s.late)
	}
	return fmt.Errorf("kind %q is not known, and the run says that this release can read it", f.Kind)
}

func decodeInto[T any](f Fact, use func(T) error) error {
	var body T
	if err := json.Unmarshal(f.Data, &body); err != nil {
		return err
	}
	return use(body)
}

func (s *State) answered(seq int64, a events.ModelAnswered) {
	s.ModelCalls++
	s.Failures = 0
	s.spent(a.Usage, a.CostMicroUSD)
	s.closeTurn()
	s.wereRead(a.Messages)
	s.appendTurn(Turn{Seq: seq, Answer: a})
	for _, asked := range a.Calls {
		c := &Call{AskedCall: asked, Turn: len(s.Turns) - 1, Since: seq}
		s.route(c)
		s.Calls[asked.CallID] = c
	}
}

// closeTurn puts the calls of the last turn away: the model reads their results,
// and what comes later changes nothing.
func (s *State) closeTurn() {
	for id, c := range s.Calls {
		if c.State == callDone && c.Done != nil && c.Step == nil {
			shown := c.result()
			c.shown = &shown
			s.DoneCalls.put(id, c)
			delete(s.Calls, id)
		}
	}
}

func (s *State) route(c *Call) {
	switch c.Route {
	case events.RouteSend:
		c.State = callSent
		s.ToolCalls++
	case events.RouteAsk:
		c.State = callAsked
		s.ToolCalls++
	case events.RouteWait:
		c.State = callWait
		s.ToolCalls++
	case events.RouteHere:
		c.State = callHere
		if countsAsCall(c.Builtin) {
			s.ToolCalls++
		}
	case events.RouteHold:
		c.State = callHeld
	default:
		c.State = callDone
		c.Done = &events.ToolCompleted{CallID: c.CallID, RunID: s.RunID, Tool: c.Tool, Status: events.CallFailed, Error: c.Problem}
	}
}

func (s *State) release(seq int64, calls []events.AskedCall) error {
	for _, asked := range calls {
		c, ok := s.Calls[asked.CallID]
		if !ok {
			return fmt.Errorf("released call %s was never asked", asked.CallID)
		}
		c.AskedCall, c.Since = asked, seq
		s.route(c)
	}
	return nil
}

func (s *State) modelFailed(seq int64, m events.ModelFailed) {
	if !m.Unbilled {
		s.ModelCalls++
	}
	if m.Usage != nil {
		s.spent(*m.Usage, m.CostMicroUSD)
	}
	if !m.Unasked {
		s.Failures++
	}
	if m.NextModel != "" {
		s.ModelName, s.Failures = m.NextModel, 0
	}
	if m.RetryAt != nil {
		s.Retry = &Retry{Timer: retryTimer(seq), At: *m.RetryAt}
		if m.Unasked {
			s.Retry.Why = m.Message
		}
	}
}

func retryTimer(seq int64) string  { return fmt.Sprintf("retry-%d", seq) }
func cancelTimer(seq int64) string { return fmt.Sprintf("cancel-%d", seq) }

func (s *State) toolCompleted(seq int64, t events.ToolCompleted) error {
	c, ok := s.Calls[t.CallID]
	if !ok {
		return fmt.Errorf("call %s was never asked", t.CallID)
	}
	c.Since = seq
	if t.Status == events.CallUnknown && t.InDoubt == "ask" && t.Settled == "" && s.Cancel == nil {
		c.State, c.Doubt, c.Done = callDoubt, events.NewApprovalID(t.CallID, "d", seq), &t
		c.Doubts = append(slices.Clip(c.Doubts), c.Doubt)
		return nil
	}
	c.State, c.Done, c.Doubt = callDone, &t, ""
	s.stepCallEnded(c)
	return nil
}

func (s *State) decided(seq int64, d events.ApprovalDecision) error {
	c, ok := s.Calls[d.CallID]
	if !ok {
		return fmt.Errorf("approval %s is about call %s, which was never asked", d.ApprovalID, d.CallID)
	}
	c.Since = seq
	if c.State == callQuestion {
		c.answered(s.RunID, d)
		return nil
	}
	if d.Kind == events.ApprovalDoubt {
		// The ledger is told and answers with the settled outcome. Nobody's
		// decision (expired, withdrawn) leaves it unknown.
		c.Doubt = ""
		switch d.Decision {
		case events.Happened, events.NotHappened, events.GiveUp:
			c.State, c.Verdict = callSent, &d
		default:
			c.State = callDone
			s.stepCallEnded(c)
		}
		return nil
	}
	if d.Decision == events.Approve {
		c.State, c.Approved = callSent, &d
		s.change(c, d)
		if c.Builtin != "" {
			c.State = callHere
		}
		if c.onlyAsks() {
			c.State = callDone
			c.Done = &events.ToolCompleted{CallID: c.CallID, RunID: s.RunID, Tool: c.Tool, Status: events.CallSucceeded,
				Result: mustJSON(events.StepApproved{Approved: true, By: d.By, At: d.DecidedAt.UTC(), Comment: d.Comment})}
			s.stepCallEnded(c)
		}
		return nil
	}
	s.refuse(seq, c, d)
	c.State = callDone
	c.Done = &events.ToolCompleted{CallID: c.CallID, RunID: s.RunID, Tool: c.Tool, Status: events.CallFailed, Error: refusal(d)}
	if c.onlyAsks() && d.Decision == events.Reject {
		c.Done.Error = &events.Problem{Code: "rejected", Message: clip("a person said no. "+d.Comment, 2000)}
	}
	s.stepCallEnded(c)
	return nil
}

func (s *State) childCompleted(seq int64, c events.ChildCompleted) error {
	item, ok := s.Items[c.Item]
	if !ok {
		return fmt.Errorf("child item %s was never started", c.Item)
	}
	if item.Call != "" {
		item.Done = &c
		s.childAnswers(seq, item)
		return nil
	}
	delete(s.Items, c.Item)
	return s.itemEnded(item.Step, item.Index, ItemEnd{Status: c.Status, Output: c.Output, Error: c.Error, Attempt: item.Attempt,
		Again: c.Status == events.StatusFailed || c.Status == events.StatusExpired})
}

func (s *State) timerFired(t events.TimerFired) {
	s.Overdue = s.Overdue || t.Timer == deadlineTimer
	if s.Retry != nil && s.Retry.Timer == t.Timer {
		s.Retry = nil
	}
	if ms, ok := wallTimerOf(t.Timer); ok {
		s.Overtime = max(s.Overtime, ms)
	}
	s.wallOver(t.Timer)
	if s.Cancel != nil && t.Timer == cancelTimer(s.CancelSeq) {
		s.CancelSeq = 0
	}
}

func (s *State) raised(_ int64, r events.Raised) {
	s.ordered(r.Command)
	_, shared := sharedPool(r.Budget)
	if _, isWall := s.wallOf(r.Budget); isWall || !shared {
		s.Raised[r.Budget] = r.To
	}
	if s.Pause != nil && s.Pause.By == pausedByBudget {
		s.Pause = nil
	}
}

func (s *State) cancelling(seq int64, c events.Cancelling) {
	s.Cancel, s.CancelSeq, s.Retry = &c, seq, nil
	for _, call := range s.Calls {
		switch call.State {
		case callHeld, callAsked, callWait, callSleep, callQuestion:
			call.State, call.Since = callDone, seq
			call.Done = &events.ToolCompleted{CallID: call.CallID, RunID: s.RunID, Tool: call.Tool, Status: events.CallRevoked,
				Error: &events.Problem{Code: "cancelled", Message: "the run was cancelled before this call began"}}
		case callDoubt:
			call.State, call.Doubt, call.Since = callDone, "", seq
		}
		s.stepCallEnded(call)
	}
	clear(s.Alarms)
}

func (s *State) end(seq int64, kind string, e events.Ending) {
	s.Ending, s.EndSeq = e, seq
	s.Attention, s.Pause = nil, nil
	s.End, s.Moving = endOf[kind], nil
}

// endOf is the final status that a kind of row gives.
var endOf = map[string]string{
	events.FactCompleted: events.StatusCompleted, events.FactFailed: events.StatusFailed,
	events.FactCancelled: events.StatusCancelled, events.FactExpired: events.StatusExpired,
}
