package runner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

const (
	pausedByOperator = "operator"
	pausedByBudget   = "budget"
)

// sharedPool splits "pool:<name>"; ok is false for a run's own ceiling.
func sharedPool(budget string) (name string, ok bool) { return strings.CutPrefix(budget, "pool:") }

// command decides an operator's command. One that makes no sense now (resume
// of a run that is not paused) is still recorded, so that it lands once, and so is
// one that a later one has overtaken. A person's pause takes the place of a budget's.
func (d *decision) command(what string, c events.Command) error {
	s := d.state
	if s.overtaken(c) != "" {
		return d.lateCommand(c)
	}
	switch what {
	case events.RunCancel:
		if s.Cancel != nil {
			return d.lateCommand(c)
		}
		return d.add(events.FactCancelRequested, s.cancelBody(c), true)
	case events.RunPause:
		if s.Pause != nil && s.Pause.By == pausedByOperator || s.Cancel != nil {
			return d.lateCommand(c)
		}
		return d.add(events.FactPaused, events.Paused{By: pausedByOperator, Reason: c.Reason, Principal: c.Principal, CommandID: c.ID, Place: c.Place}, true)
	case events.RunResume:
		if s.Pause == nil && s.Attention == nil || s.Cancel != nil {
			return d.lateCommand(c)
		}
		by := pausedByOperator
		if c.Budget != "" { // it has room again
			by = pausedByBudget
		}
		return d.add(events.FactResumed, events.Resumed{By: by, Principal: c.Principal, CommandID: c.ID, Place: c.Place, Release: s.heldCalls(d.now)}, true)
	case events.RunRaiseBudget:
		var release []events.AskedCall
		if s.Pause != nil && s.Pause.By == pausedByBudget {
			release = s.heldCalls(d.now)
		}
		return d.add(events.FactBudgetRaised, events.Raised{Command: c, Release: release}, true)
	}
	return fmt.Errorf("run %s: unknown command %q", s.RunID, what)
}

// cancelBody lists what a cancel takes back, so that the row alone says what
// goes out.
func (s *State) cancelBody(c events.Command) events.Cancelling {
	body := events.Cancelling{Command: c}
	for id, call := range s.Calls {
		switch call.State {
		case callSent:
			body.Revoke = append(body.Revoke, id)
		case callAsked:
			body.Withdraw = append(body.Withdraw, call.ApprovalID)
		case callQuestion:
			body.Withdraw = append(body.Withdraw, call.Asked.ApprovalID)
		case callDoubt:
			body.Withdraw = append(body.Withdraw, call.Doubt)
		}
	}
	for _, item := range s.Items {
		if item.Done == nil {
			body.Children = append(body.Children, item.RunID)
		}
	}
	slices.Sort(body.Revoke)
	slices.Sort(body.Withdraw)
	slices.Sort(body.Children)
	return body
}

// heldCalls are the calls of an answer that came during a pause, with the
// route they take when the run goes on.
func (s *State) heldCalls(now time.Time) []events.AskedCall {
	var out []events.AskedCall
	for _, c := range s.Calls {
		if c.State != callHeld {
			continue
		}
		asked := c.AskedCall
		asked.Route = events.RouteSend
		if asked.Builtin != "" {
			asked.Route = events.RouteHere
		}
		if asked.ApprovalID != "" {
			asked.Route = events.RouteAsk
		}
		if asked.Wait != nil {
			beginWait(&asked, now)
		}
		out = append(out, asked)
	}
	slices.SortFunc(out, func(a, b events.AskedCall) int { return strings.Compare(string(a.CallID), string(b.CallID)) })
	return out
}
