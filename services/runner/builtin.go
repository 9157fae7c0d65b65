package runner

import (
	"fmt"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// builtin answers the calls of one built-in tool where the run is. Nothing is
// sent to the tools service, and no worker of it is needed.
type builtin struct {
	// holds says that a paused run keeps a call back until it goes on; without it
	// the call is answered at once, because it changes nothing but the run's state.
	holds bool
	// answer adds the row that says what follows from c: its result, or what it
	// waits for. The fold of that row takes c out of callHere. It returns what is
	// wrong with the arguments, for the model; then it has added nothing.
	answer func(d *decision, plan *Plan, c *Call) (*events.Problem, error)
}

// builtins is the one table of what the runner answers itself: a built-in more
// is its entry in pkg/spec/builtin.go, a file here and a line.
var builtins = map[string]builtin{
	spec.BuiltinPlan:  {answer: (*decision).planCall},
	spec.BuiltinFacts: {answer: (*decision).factsCall},

	spec.BuiltinSleepUntil: {answer: (*decision).sleepCall, holds: true},
	spec.BuiltinStartRun:   {answer: (*decision).startCall, holds: true},
	spec.BuiltinAskPerson:  {answer: (*decision).askCall, holds: true},
}

// keepHere routes a call that is to be made and is of a built-in of the runner.
// Whether a person is asked first is decided behind it, as for any call.
func (p *Plan) keepHere(asked *events.AskedCall) {
	if own := p.Tools[asked.Tool].AnsweredByRunner(); own != nil {
		asked.Builtin, asked.Route = own.Name, events.RouteHere
	}
}

// heldBack reports whether a paused run keeps the call back.
func heldBack(asked *events.AskedCall) bool {
	return asked.Route != events.RouteHere || builtins[asked.Builtin].holds
}

// countsAsCall reports whether a call of the built-in uses up one of the run's
// tool calls; "" is any other tool.
func countsAsCall(name string) bool {
	b := spec.BuiltinNamed(name)
	return b == nil || !b.Free
}

// answerHere adds what follows from the calls that the runner answers itself, in
// the order of the answer: each sees what the ones before it made of the state.
func (d *decision) answerHere(plan *Plan) error {
	if len(d.state.Turns) == 0 {
		return nil
	}
	for _, c := range d.state.CallsInOrder(len(d.state.Turns) - 1) {
		if c.State != callHere {
			continue
		}
		b, ok := builtins[c.Builtin]
		if !ok {
			return fmt.Errorf("call %s is of the built-in %q, which is newer than this release", c.CallID, c.Builtin)
		}
		bad, err := b.answer(d, plan, c)
		if err == nil && bad != nil {
			err = d.add(events.FactToolCompleted, events.ToolCompleted{
				CallID: c.CallID, RunID: d.state.RunID, Tool: c.Tool, Status: events.CallFailed, Error: bad}, false)
		}
		if err != nil {
			return err
		}
		if d.state.Calls[c.CallID].State == callHere {
			return fmt.Errorf("the built-in %s said nothing about call %s", c.Builtin, c.CallID)
		}
	}
	return nil
}

// answeredHere gives a call of a built-in its result.
func (s *State) answeredHere(seq int64, id events.CallID, result any) error {
	c, ok := s.Calls[id]
	if !ok || c.State != callHere {
		return fmt.Errorf("call %s is not answered here", id)
	}
	c.State, c.Since = callDone, seq
	c.Done = &events.ToolCompleted{CallID: id, RunID: s.RunID, Tool: c.Tool, Status: events.CallSucceeded, Result: mustJSON(result)}
	return nil
}

// refuseHere is what the model reads about arguments that a built-in cannot use.
func refuseHere(format string, args ...any) *events.Problem {
	return &events.Problem{Code: "invalid_arguments", Message: clip(fmt.Sprintf(format, args...), 500) + "; nothing was changed"}
}
