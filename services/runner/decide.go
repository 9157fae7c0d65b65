package runner

import (
	"cmp"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// NewFact is a row that a decision wants to append.
type NewFact struct {
	Kind    string
	Data    any // the body, from pkg/events
	Inbound bool
}

// Decision is what a message or an answer adds to a run: rows in order, each
// with the status that holds after it, and the state after the last one.
type Decision struct {
	Facts []Fact
	State *State
	// Recorded says that the cause was recorded before: nothing is added, what
	// its rows say goes out again.
	Recorded bool
	// Plan is what the run executes behind the rows, when they moved it to another
	// version; else nil.
	Plan *Plan
}

// after is the plan that holds behind the decision's rows.
func (d Decision) after(plan *Plan) *Plan { return cmp.Or(d.Plan, plan) }

// before is the state whose budgets the rows are compared with.
func (d Decision) before(s *State) *State {
	if d.Plan != nil {
		return NewState(s.RunID, s.Namespace) // those of the new version, from none
	}
	return s
}

// decision collects rows and folds each as it comes, so that every rule looks
// at the state that the rows before it made.
type decision struct {
	state  *State
	cause  string
	worker string
	now    time.Time
	facts  []Fact
	// mayBegin is how far State.Begun may rise; nil: nobody found the tree full.
	mayBegin *int64
	busy     bool  // a model call is in flight
	next     *Plan // of an order that these rows record
	plan     *Plan // of the version that they moved the run to
}

func (d *decision) add(kind string, body any, inbound bool) error {
	if m := d.state.Moving; m != nil && endOf[kind] != "" {
		if err := d.refuseMove(m.MigrateRun, events.Problem{Code: events.MigrateEnded, Message: "the run ended before the order could be carried out"}, false); err != nil {
			return err
		}
	}
	f := Fact{Seq: d.state.Seq + 1, Kind: kind, Cause: d.cause, Inbound: inbound, Worker: d.worker, At: d.now, Data: mustJSON(body)}
	if r, ok := body.(interface{ Reader() int }); ok {
		f.Reader = r.Reader()
	}
	if err := d.state.Apply(f); err != nil {
		return err
	}
	f.Status = d.state.Status()
	d.facts = append(d.facts, f)
	return nil
}

// Input is a message for a run, decoded. Exactly one field is set besides
// Cause; Command names which command it is.
type Input struct {
	Cause    string // the message's logical id
	Type     string // the message's type, kept for a late result
	Start    *Start
	Fork     *events.ForkRun
	Tool     *events.ToolCompleted
	Decided  *events.ApprovalDecision
	Child    *events.ChildCompleted
	Timer    *events.TimerFired
	Signal   *events.Signal
	Command  *events.Command
	Say      *events.SayRun
	Move     *Move  // of an order to migrate; the service resolves it
	Busy     bool   // somebody has the claim: a model call is in flight
	What     string // events.RunCancel, RunPause, RunResume or RunRaiseBudget, for Command
	Original any    // the decoded body
	Full     bool   // a commit of it found the tree full
	MayBegin *int64 // see decision
}

// Start is a start with everything it pins already resolved.
type Start struct {
	Body events.RunStarted
	// Deadline is what the start, or the parent, says about it; see ParseDeadline.
	Deadline string
	// InputRef, when set, is where the input is that the message did not carry.
	InputRef *events.BlobRef
	// Placing is how the run got under its concurrency keys; nil without any.
	Placing *Placing
	// Broken is set when a definition cannot be used: the run is recorded and
	// fails with it, because the start was accepted.
	Broken *events.Problem
}

// Decide says what a message adds to a run. It is pure: the same state, plan
// and input give the same rows.
func Decide(s *State, plan *Plan, in Input, worker string, now time.Time) (Decision, error) {
	if s.Causes.has(in.Cause) {
		return Decision{State: s, Recorded: true}, nil
	}
	d := &decision{state: s.Clone(), cause: in.Cause, worker: worker, now: now, mayBegin: in.MayBegin, busy: in.Busy}
	d.state.committed = s.Seq
	if in.Command != nil || in.Decided != nil || in.Move != nil { // what they begin would begin too late
		if err := d.expire(); err != nil {
			return Decision{}, err
		}
	}
	var err error
	switch {
	case in.Tool != nil && s.owesCallback() && in.Tool.CallID == s.callbackID():
		err = d.add(events.FactCallback, *in.Tool, true)
	case in.Child != nil && s.End != "" && s.openStarted(in.Child.Item):
		err = d.child(*in.Child)
	case in.Move != nil:
		err = d.migrate(in)
	case s.End != "":
		err = d.late(in)
	case in.Start != nil:
		err = d.start(*in.Start)
	case in.Tool != nil:
		err = d.tool(*in.Tool)
	case in.Decided != nil:
		err = d.decided(plan, *in.Decided)
	case in.Child != nil && s.Items[in.Child.Item] == nil && s.wasItem(in.Child.Item):
		err = d.late(in)
	case in.Child != nil && s.Items[in.Child.Item] == nil:
		err = fmt.Errorf("child item %q: %w", in.Child.Item, errStranger)
	case in.Child != nil:
		err = d.child(*in.Child)
	case in.Timer != nil && in.Timer.Timer == slotsTimer:
		err = d.hasSlots(in)
	case in.Timer != nil:
		err = d.timer(*in.Timer)
	case in.Signal != nil:
		err = d.signal(*in.Signal)
	case in.Command != nil:
		err = d.command(in.What, *in.Command)
	case in.Say != nil:
		err = d.say(in)
	default:
		err = fmt.Errorf("run %s: message %s has no body that a run knows", s.RunID, in.Cause)
	}
	if err != nil {
		return Decision{}, err
	}
	if err := d.advance(plan); err != nil {
		return Decision{}, err
	}
	return Decision{Facts: d.facts, State: d.state, Plan: d.plan}, nil
}

// late keeps a fact for an ended run. It changes nothing else.
func (d *decision) late(in Input) error {
	return d.add(events.FactLateResult, events.LateResult{Type: in.Type, Data: mustJSON(in.Original)}, true)
}

func (d *decision) start(s Start) error {
	if err := d.add(events.FactStarted, s.Body, true); err != nil {
		return err
	}
	if s.Broken != nil {
		return d.add(events.FactFailed, events.Ending{Error: s.Broken}, false)
	}
	if s.Placing != nil {
		return d.entered(*s.Placing)
	}
	return nil
}

func (d *decision) tool(t events.ToolCompleted) error {
	c, ok := d.state.call(t.CallID)
	if !ok {
		return fmt.Errorf("call %s: %w", t.CallID, errStranger)
	}
	if c.State == callDone && c.Step != nil {
		return d.late(Input{Type: events.TypeToolCompleted, Original: t}) // its item is over
	}
	if c.State == callDone && c.Done != nil && c.Done.Status != events.CallUnknown {
		return d.late(Input{Type: events.TypeToolCompleted, Original: t}) // the model has read the first result
	}
	if c.State == callDone && (d.answeredAfter(c) || t.Status == events.CallUnknown && d.state.behind(c.Since)) {
		return d.late(Input{Type: events.TypeToolCompleted, Original: t})
	}
	return d.add(events.FactToolCompleted, t, true)
}

// answeredAfter reports whether the model has already been shown c's result.
func (d *decision) answeredAfter(c *Call) bool {
	return c.Turn < len(d.state.Turns)-1 || c.Turn < d.state.cut()
}

func (d *decision) decided(plan *Plan, a events.ApprovalDecision) error {
	c, ok := d.state.call(a.CallID)
	if !ok {
		return fmt.Errorf("approval %s: %w", a.ApprovalID, errStranger)
	}
	open := c.State == callAsked && c.ApprovalID == a.ApprovalID || c.State == callQuestion && c.Asked.ApprovalID == a.ApprovalID || c.State == callDoubt && c.Doubt == a.ApprovalID
	if !open {
		return d.late(Input{Type: events.TypeApprovalDecided, Original: a})
	}
	a.Told = ""
	if a.Args != nil && a.Kind == events.ApprovalAction && a.Decision == events.Approve {
		a = d.state.edited(plan, c, a)
	}
	if a.Args == nil && a.Kind == events.ApprovalAction && a.Decision == events.Approve && a.Digest != c.Bind {
		// Not what was asked about. It is recorded and nothing runs.
		a.Decision, a.Comment = events.Reject, "the approval was bound to another call"
	}
	a = plan.filledIn(c, a)
	asked := c.AskedCall
	if err := d.add(events.FactApprovalDecided, a, true); err != nil {
		return err
	}
	return d.lapsed(plan, asked, a)
}

// refusal is the result that the model reads for a call that a person or the
// clock refused.
func refusal(a events.ApprovalDecision) *events.Problem {
	switch a.Decision {
	case events.Expired:
		return &events.Problem{Code: "approval_expired", Message: "nobody decided in time; the call was not made"}
	case events.Withdrawn:
		return &events.Problem{Code: "approval_withdrawn", Message: "the question was withdrawn; the call was not made"}
	}
	msg := "a person rejected this call; it was not made"
	if a.Comment != "" {
		msg += ". Reason: " + a.Comment
	}
	return &events.Problem{Code: codeRejected, Message: msg}
}

func (d *decision) timer(t events.TimerFired) error {
	if d.state.sleeping(t.Timer) != nil {
		t.Woke = d.now.UTC().Truncate(time.Microsecond)
	}
	windowOpens := d.state.waitsForWindow() && t.Timer == windowTimer(d.state.PauseSeq)
	if err := d.add(events.FactTimerFired, t, true); err != nil {
		return err
	}
	if windowOpens {
		return d.add(events.FactResumed, events.Resumed{By: resumedByWindow, Release: d.state.heldCalls(d.now)}, false)
	}
	if d.state.Cancel != nil && d.state.CancelSeq == 0 && d.state.End == "" {
		return d.stopped(true)
	}
	return nil
}

// advance adds the rows that follow from the state alone, until nothing does.
func (d *decision) advance(plan *Plan) (err error) {
	for {
		s := d.state
		if s.End != "" || s.Seq == 0 {
			return nil
		}
		if err := d.expire(); err != nil {
			return err
		}
		if err := d.answerHere(plan); err != nil {
			return err
		}
		if err := d.takeSignals(); err != nil {
			return err
		}
		if s.Cancel != nil {
			if len(s.PendingItems()) > 0 {
				return nil
			}
			return d.stopped(false)
		}
		if plan, err = d.moveOn(plan); err != nil {
			return err
		}
		if s.Pause != nil || s.Attention != nil {
			return nil
		}
		if stopped, err := d.checkWallTime(plan); stopped || err != nil {
			return err
		}
		if s.Queued {
			return nil
		}
		var more bool
		if s.Started.Ref.Kind == events.KindFlow {
			more, err = d.advanceFlow(plan)
		} else {
			more, err = d.advanceAgent(plan)
		}
		if err != nil || !more {
			return err
		}
	}
}

func cancelProblem(c *events.Cancelling) *events.Problem {
	if byItself(*c) {
		return &events.Problem{Code: "approval_expired", Message: c.Reason}
	}
	msg := "cancelled by " + c.Principal
	if c.Reason != "" {
		msg += ": " + c.Reason
	}
	return &events.Problem{Code: "cancelled", Message: msg}
}
