package runner

import (
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

const (
	deadlineTimer = "deadline"
	// byDeadline is who ends a run whose deadline has passed.
	byDeadline = "deadline"
)

// Reader is the oldest reader that the run needs beside what its rows need: one that
// does not know deadlines would let it go on behind its own.
func (s *State) Reader() int {
	if s.Started.Deadline != nil {
		return 3
	}
	return 1
}

// Complete writes into the first row what follows from the definition that the
// start pinned: the priority, the deadline, and what is broken about its input. It
// is pure.
func (st *Start) Complete(plan *Plan) {
	st.Body.Priority = priorityOf(plan, st.Body)
	if st.Broken == nil && plan.Agent != nil {
		if _, err := spec.FirstMessage(plan.Agent, st.Body.Input); err != nil {
			st.Broken = &events.Problem{Code: "prompt", Message: err.Error()}
		}
	}
	if st.Body.Parent != nil && st.Broken == nil && plan.Flow != nil {
		if bad := plan.Flow.Input.Validate(st.Body.Input); len(bad) > 0 {
			st.Broken = &events.Problem{Code: "invalid_input", Message: clip("the input breaks the schema of the flow: "+violations(bad), 2000)}
		}
	}
	st.setDeadline(plan)
}

// setDeadline writes the earliest deadline into the first row: what the start says,
// or the parent, and what the definition says.
func (st *Start) setDeadline(plan *Plan) {
	var named []events.Deadline
	if st.Deadline != "" {
		d, err := events.ParseDeadline(st.Deadline)
		if err != nil { // its door has read it
			st.Broken = &events.Problem{Code: "deadline", Message: "deadline: " + err.Error()}
			return
		}
		if st.Body.Parent != nil {
			d.From = events.DeadlineOfParent
		}
		named = append(named, d.Counted(st.Body.AcceptedAt))
	}
	st.Body.Deadline = earliest(append(named, plan.deadline(st.Body.AcceptedAt)...))
}

// deadline is what the definition says; empty when it says nothing.
func (p *Plan) deadline(accepted time.Time) []events.Deadline {
	var after time.Duration
	switch {
	case p.Flow != nil:
		after = p.Flow.Deadline.Std()
	case p.Agent != nil:
		after = p.Agent.Deadline.Std()
	}
	if after == 0 {
		return nil
	}
	return []events.Deadline{events.Deadline{From: events.DeadlineOfDefinition, AfterMs: after.Milliseconds()}.Counted(accepted)}
}

func earliest(of []events.Deadline) *events.Deadline {
	var first *events.Deadline
	for i := range of {
		if first == nil || of[i].At.Before(first.At) {
			first = &of[i]
		}
	}
	return first
}

// deadlineAgain is the deadline of a run that goes on from another: times count
// anew. A given moment holds while it is ahead; one that has passed, and one that
// came from a parent which the new run does not have, do not.
func deadlineAgain(old *events.Deadline, plan *Plan, accepted time.Time) *events.Deadline {
	var named []events.Deadline
	if old != nil && old.From == events.DeadlineOfStart {
		if d := old.Counted(accepted); d.At.After(accepted) {
			named = append(named, d)
		}
	}
	return earliest(append(named, plan.deadline(accepted)...))
}

// overdue reports whether the run's deadline has passed and nothing ends it yet.
func (s *State) overdue(now time.Time) bool {
	d := s.Started.Deadline
	return d != nil && s.End == "" && s.Cancel == nil && (s.Overdue || !now.Before(d.At))
}

// expire takes back what the run has open once its deadline has passed. It comes
// before whatever else is decided at that time.
func (d *decision) expire() error {
	s := d.state
	if !s.overdue(d.now) {
		return nil
	}
	why := "its deadline " + s.Started.Deadline.At.Format(time.RFC3339) + " passed"
	body := s.cancelBody(events.Command{RunID: s.RunID, Principal: byDeadline, Reason: why})
	return d.add(events.FactDeadline, events.Expiring{Deadline: *s.Started.Deadline, Cancelling: body}, false)
}

// stopped adds the end of a run that was cancelled, or whose deadline passed. late
// says that some calls have no outcome.
func (d *decision) stopped(late bool) error {
	c := d.state.Cancel
	kind, problem := events.FactCancelled, cancelProblem(c)
	if d.state.Expiring {
		at := d.state.Started.Deadline
		kind, problem = events.FactExpired, &events.Problem{Code: "deadline", Message: fmt.Sprintf("the deadline %s passed, which the %s gave", at.At.Format(time.RFC3339), at.From)}
	}
	if late {
		problem.Message += "; some calls had no outcome when the grace ended, see the journal"
	}
	return d.add(kind, events.Ending{By: c.Principal, Error: problem}, false)
}

// parentStopped is what its children are told.
func (s *State) parentStopped() string {
	if s.Expiring {
		return "the deadline of its parent passed"
	}
	return "its parent was cancelled"
}

// withdrawnBy says why a question is taken back.
func withdrawnBy(c events.Cancelling) string {
	if byItself(c) {
		return "the run ended: " + c.Reason
	}
	return "the run was cancelled by " + c.Principal
}

// deadlineFor is the latest end of what the run starts; empty without one.
func (s *State) deadlineFor() string {
	if d := s.Started.Deadline; d != nil {
		return d.At.Format(time.RFC3339Nano)
	}
	return ""
}
