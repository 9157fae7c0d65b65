package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// pendingStarted is a child run that no call waits for. The doctor asks about it
// until it has ended, also when its parent has: a lost start is sent again.
const pendingStarted = "started"

// maxShown bounds what the model reads of a child's output.
const maxShown = 64 << 10

// Startable is a definition that calls may start, at the version that the run
// pinned.
type Startable struct {
	Ref   events.Ref
	Agent *spec.Agent // exactly one of Agent and Flow
	Flow  *spec.Flow
}

// fits says what is wrong with an input, before anything is started.
func (x Startable) fits(input json.RawMessage) error {
	schema := (*spec.Schema)(nil)
	if x.Agent != nil {
		schema = x.Agent.Input
	} else {
		schema = x.Flow.Input
	}
	if bad := schema.Validate(input); len(bad) > 0 {
		return fmt.Errorf("it breaks the schema: %s", violations(bad))
	}
	if x.Agent != nil {
		_, err := spec.FirstMessage(x.Agent, input)
		return err
	}
	return nil
}

// startCall is a call of the built-in start_run.
func (d *decision) startCall(plan *Plan, c *Call) (*events.Problem, error) {
	s, may := d.state, plan.Tools[c.Tool].StartRun
	problem := func(code, format string, args ...any) (*events.Problem, error) {
		return &events.Problem{Code: code, Message: clip(fmt.Sprintf(format, args...), 1000) + "; nothing was started"}, nil
	}
	var args struct {
		Agent string          `json:"agent"`
		Flow  string          `json:"flow"`
		Input json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(c.Args, &args); err != nil {
		return refuseHere("%v", err), nil
	}
	what, err := plan.startable(may, args.Agent, args.Flow)
	if err != nil {
		return refuseHere("%v", err), nil
	}
	if len(args.Input) == 0 {
		args.Input = json.RawMessage(`{}`)
	}
	if err := what.fits(args.Input); err != nil {
		return problem("invalid_input", "the input is not one of %s %s: %v", what.Ref.Kind, what.Ref.Name, err)
	}
	if c.Approved != nil && !d.now.Before(c.Approved.ValidUntil) {
		return problem("approval_expired", "the approval was valid until %s", c.Approved.ValidUntil.UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	if s.depth() >= spec.MaxRunDepth {
		return problem("too_deep", "%d runs are above this one, which is the most: a run this deep starts no other", s.depth())
	}
	if n := s.startedBy(c.Tool); n >= may.MaxChildren {
		return problem("too_many_runs", "%s has started %d runs, which is the most that it may", c.Tool, n)
	}
	if err := d.treeFull(1); err != nil {
		return problem(codeTreeFull, "%v", err)
	}
	return nil, d.add(events.FactChildStarted, events.ChildStarted{
		CallID: c.CallID, Detached: !may.Waits(),
		Child: events.Child{Item: "call/" + callSuffix(c.CallID), RunID: events.ChildRunID(s.RunID, s.Seq+1, 0), Ref: what.Ref, Input: args.Input},
	}, false)
}

// startable finds what a call names, among what its tool may start.
func (p *Plan) startable(may *spec.StartRun, agent, flow string) (Startable, error) {
	switch {
	case agent != "" && flow != "":
		return Startable{}, fmt.Errorf("give one of agent and flow")
	case agent == "" && flow == "" && len(may.Agents)+len(may.Flows) == 1:
		agent, flow = slices.Concat(may.Agents, []string{""})[0], slices.Concat(may.Flows, []string{""})[0]
	}
	kind, name, allowed := events.KindAgent, agent, may.Agents
	if flow != "" {
		kind, name, allowed = events.KindFlow, flow, may.Flows
	}
	x, ok := p.Starts[startKey(kind, name)]
	if !ok || !slices.Contains(allowed, name) {
		return Startable{}, fmt.Errorf("it cannot start %s %q; agents: %v, flows: %v", kind, clip(name, 80), may.Agents, may.Flows)
	}
	return x, nil
}

func startKey(kind, name string) string { return kind + "/" + name }

// depth is how many runs are above this one.
func (s *State) depth() int {
	if s.Started.Parent == nil {
		return 0
	}
	return max(1, s.Started.Parent.Depth)
}

// startedBy counts the runs that calls of a tool have started.
func (s *State) startedBy(tool string) (n int64) {
	for _, item := range s.Items {
		if c, ok := s.call(item.Call); ok && c.Tool == tool {
			n++
		}
	}
	return n
}

func (s *State) childStarted(seq int64, b events.ChildStarted) error {
	s.begins(seq, 1)
	s.Items[b.Item] = &Item{Child: b.Child, Call: b.CallID, Detached: b.Detached, Since: seq}
	if b.Detached {
		return s.answeredHere(seq, b.CallID, map[string]any{"run_id": b.RunID})
	}
	c, ok := s.Calls[b.CallID]
	if !ok || c.State != callHere {
		return fmt.Errorf("call %s cannot start a run", b.CallID)
	}
	c.State, c.Since = callChild, seq
	return nil
}

// child records a child's end, with what the model reads of an output that is
// too long.
func (d *decision) child(c events.ChildCompleted) error {
	c.Shown = nil
	if item := d.state.Items[c.Item]; item.Call != "" && !item.Detached {
		c.Shown = shortened(c.Output)
	}
	return d.add(events.FactChildCompleted, c, true)
}

// shortened is the beginning of an output that is too long to be read, as text;
// nil of one that is not.
func shortened(output json.RawMessage) json.RawMessage {
	if len(output) <= maxShown {
		return nil
	}
	var text string
	if json.Unmarshal(output, &text) != nil {
		text = string(output)
	}
	if len(text) <= maxShown {
		return nil
	}
	return mustJSON(fmt.Sprintf("%s\n[cut: %d of %d bytes are shown; the run's own record has all of it]", bounded(text, maxShown), len(bounded(text, maxShown)), len(text)))
}

// childAnswers gives the call that started a run the run's end as its result.
func (s *State) childAnswers(seq int64, item *Item) {
	c, open := s.Calls[item.Call]
	if item.Detached || !open || c.State != callChild {
		return
	}
	end := item.Done
	c.State, c.Since = callDone, seq
	c.Done = &events.ToolCompleted{CallID: c.CallID, RunID: s.RunID, Tool: c.Tool, Status: events.CallSucceeded, Result: end.Output}
	if end.Shown != nil {
		c.Done.Result = end.Shown
	}
	if end.Status != events.StatusCompleted {
		msg := fmt.Sprintf("run %s of %s %s ended: %s", item.RunID, item.Ref.Kind, item.Ref.Name, end.Status)
		if end.Error != nil {
			msg += fmt.Sprintf(" (%s: %s)", end.Error.Code, end.Error.Message)
		}
		c.Done.Status, c.Done.Result, c.Done.Error = events.CallFailed, nil, &events.Problem{Code: "child_" + end.Status, Message: clip(msg, 4000)}
	}
}

// openStarted reports whether an ended run still waits to hear that a child it
// started and left alone has ended.
func (s *State) openStarted(item string) bool {
	it := s.Items[item]
	return it != nil && it.Detached && it.Done == nil
}

// pinStarts resolves what the tools may start and writes it into the first row.
func (s *Service) pinStarts(ctx context.Context, namespace string, plan *Plan, body *events.RunStarted) error {
	for _, ref := range body.Tools {
		may := plan.Tools[ref.Name].StartRun
		if may == nil {
			continue
		}
		for kind, names := range map[string][]string{events.KindAgent: may.Agents, events.KindFlow: may.Flows} {
			for _, name := range names {
				if slices.ContainsFunc(body.Starts, func(r events.Ref) bool { return r.Kind == kind && r.Name == name }) {
					continue
				}
				found, err := s.resolve(ctx, namespace, kind, name)
				if err != nil {
					return fmt.Errorf("tool %s: %w", ref.Name, err)
				}
				body.Starts = append(body.Starts, found)
			}
		}
	}
	slices.SortFunc(body.Starts, func(a, b events.Ref) int {
		return slices.Compare([]string{a.Kind, a.Name}, []string{b.Kind, b.Name})
	})
	return s.loadStarts(ctx, namespace, *body, plan)
}

// loadStarts loads the versions that a run pinned of what it may start.
func (s *Service) loadStarts(ctx context.Context, namespace string, started events.RunStarted, p *Plan) (err error) {
	p.Starts = make(map[string]Startable, len(started.Starts))
	for _, ref := range started.Starts {
		x := Startable{Ref: ref}
		if ref.Kind == events.KindFlow {
			x.Flow, err = s.defs.Flow(ctx, namespace, ref.Digest)
		} else {
			x.Agent, err = s.defs.Agent(ctx, namespace, ref.Digest)
		}
		if err != nil {
			return err
		}
		p.Starts[startKey(ref.Kind, ref.Name)] = x
	}
	return nil
}
