package runner

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// beginStep skips a step whose condition does not hold, and starts the first
// window of its items otherwise.
func (d *decision) beginStep(plan *Plan, index int) (bool, error) {
	step := &plan.Flow.Steps[index]
	if step.When != nil {
		holds, err := step.Holds(d.state.roots(plan, step))
		switch {
		case err != nil:
			return d.failStep(plan, "when", step.Name, err)
		case !holds:
			return true, d.add(events.FactStepSkipped, events.StepSkipped{Step: step.Name, When: step.When.String()}, false)
		}
	}
	r, err := d.state.render(plan, step)
	if err != nil {
		return d.failStep(plan, "mapping", step.Name, err)
	}
	if len(r.items) == 0 { // an empty list is a step that is done
		return true, d.add(events.FactChildrenStarted, events.ChildrenStarted{Step: step.Name}, false)
	}
	return d.startItems(plan, index, r, &Step{Total: len(r.items)})
}

func (d *decision) startWindow(plan *Plan, index int, st *Step) (bool, error) {
	step := &plan.Flow.Steps[index]
	r, err := d.state.renderedOnce(plan, step)
	if err != nil || len(r.items) != st.Total {
		return false, fmt.Errorf("run %s step %s: the items changed from %d to %d: %w", d.state.RunID, step.Name, st.Total, len(r.items), err)
	}
	return d.startItems(plan, index, r, st)
}

// startItems adds the row that starts as many items of a step as its window has
// room for.
func (d *decision) startItems(plan *Plan, index int, r *rendering, st *Step) (bool, error) {
	step := &plan.Flow.Steps[index]
	var items []events.StepItem
	for i, room := st.next, window(step)-(st.Started-st.Ended); i < st.Total && room > 0; i++ {
		if st.ends.has(i) { // kept
			continue
		}
		it, err := d.startItem(plan, index, r, i, 1, len(items))
		if err != nil {
			return d.failItem(plan, step.Name, i, err)
		}
		items, room = append(items, it), room-1
	}
	if kind := step.Kind(); st.Kept || kind != spec.StepAgent && kind != spec.StepFlow {
		return true, d.add(events.FactItemsStarted, events.ItemsStarted{Step: step.Name, Total: len(r.items), Items: items}, false)
	}
	body := events.ChildrenStarted{Step: step.Name, Total: len(r.items)}
	for _, it := range items {
		body.Children = append(body.Children, *it.Child)
	}
	return true, d.add(events.FactChildrenStarted, body, false)
}

// restartItem starts an item again whose wait after a failure is over.
func (d *decision) restartItem(plan *Plan, index int, st *Step) (bool, error) {
	step, due := &plan.Flow.Steps[index], st.due[0]
	r, err := d.state.renderedOnce(plan, step)
	if err != nil || due.index >= len(r.items) {
		return false, fmt.Errorf("run %s step %s: item %d is gone: %w", d.state.RunID, step.Name, due.index, err)
	}
	it, err := d.startItem(plan, index, r, due.index, due.attempt, 0)
	if err != nil {
		return d.failItem(plan, step.Name, due.index, err)
	}
	return true, d.add(events.FactItemsStarted, events.ItemsStarted{Step: step.Name, Total: st.Total, Items: []events.StepItem{it}}, false)
}

func (d *decision) failItem(plan *Plan, step string, item int, err error) (bool, error) {
	code := "mapping"
	if deep, ok := err.(tooDeep); ok {
		return d.failStep(plan, "too_deep", step, deep)
	}
	if full, ok := err.(fullTree); ok {
		return d.failStep(plan, codeTreeFull, step, full)
	}
	return d.failStep(plan, code, step, fmt.Errorf("item %d: %w", item, err))
}

type tooDeep int

func (n tooDeep) Error() string {
	return fmt.Sprintf("it would start a run with %d runs above it; at most %d are allowed", int(n), spec.MaxRunDepth)
}

// startItem is item i of a step, with what it needs to begin. Ids come from the
// run, the row that starts it and its place in that row.
func (d *decision) startItem(plan *Plan, index int, r *rendering, i, attempt, place int) (events.StepItem, error) {
	s, step, seq := d.state, &r.step, d.state.Seq+1
	it := events.StepItem{Item: itemName(step.Name, i, attempt), Index: i}
	if attempt > 1 {
		it.Attempt = attempt
	}
	values := map[string]json.RawMessage{"item": r.items[i]}
	if step.Sleep != nil {
		until, err := step.Sleep.End(values, d.now)
		it.Until = until.UTC().Truncate(time.Microsecond)
		return it, err
	}
	input, err := step.Input.Render(values)
	if err != nil {
		return it, fmt.Errorf("input: %w", err)
	}
	switch step.Kind() {
	case spec.StepTool:
		it.Call = s.toolItem(plan, step, it, place, input, d.now)
	case spec.StepApproval:
		it.Call, err = s.questionItem(plan, step, it, place, input, values)
	default:
		if depth := s.depth() + 1; depth > spec.MaxRunDepth {
			return it, tooDeep(depth)
		}
		if err := d.treeFull(place + 1); err != nil {
			return it, err
		}
		it.Child = &events.Child{Item: it.Item, RunID: events.ChildRunID(s.RunID, seq, place), Ref: s.Started.Steps[index], Input: input}
	}
	return it, err
}

func (s *State) stepCall(step *spec.Step, it events.StepItem, place int) *events.AskedCall {
	return &events.AskedCall{CallID: events.NewCallID(s.RunID, s.Seq+1, place), Tool: step.Tool, Route: events.RouteSend,
		Step: &events.StepCall{Step: step.Name, Index: it.Index, Attempt: it.Attempt}}
}

// toolItem is a call that the flow itself makes. Arguments that break the tool's
// schema are a failed item: nothing is sent.
func (s *State) toolItem(plan *Plan, step *spec.Step, it events.StepItem, place int, args json.RawMessage, now time.Time) *events.AskedCall {
	asked, tool := s.stepCall(step, it, place), plan.Tools[step.Tool]
	refuse := func(code, format string, args ...any) *events.AskedCall {
		asked.Route, asked.Problem = events.RouteAnswer, &events.Problem{Code: code, Message: clip(fmt.Sprintf(format, args...), 2000)}
		return asked
	}
	canonical, err := events.Canonical(args)
	if err != nil {
		return refuse("malformed_arguments", "the arguments are not usable JSON (%v); nothing was called", err)
	}
	if len(canonical) > maxArgsBytes {
		return refuse("arguments_too_large", "the arguments have %d bytes and at most %d are sent; nothing was called", len(canonical), maxArgsBytes)
	}
	asked.Args, asked.ArgsDigest = canonical, events.DigestOf(canonical)
	if bad := tool.CheckAsked(canonical); len(bad) > 0 {
		return refuse("invalid_arguments", "the arguments break the schema of %s: %s; nothing was called", step.Tool, violations(bad))
	}
	if g := tool.Gate(plan.asking(), spec.GateCase{Args: canonical, Run: s.flowFacts(), Now: now}); g.Ask {
		asked.Route = events.RouteAsk
		asked.ApprovalID = events.NewApprovalID(asked.CallID, "a", s.Seq+1)
		asked.Bind = events.BindDigest(step.Tool, s.toolDigest(step.Tool), asked.ArgsDigest, g.Policy)
	}
	return asked
}

// flowFacts is what a tool's approval condition may read of a flow's run. The
// counts are 0 there: how many items have begun depends on the order of ends.
func (s *State) flowFacts() *spec.RunFacts {
	return &spec.RunFacts{
		ID: string(s.RunID), Namespace: s.Namespace, Agent: s.Started.Ref.Name, Labels: s.Started.Labels, Input: s.Started.Input,
		Trigger: s.Started.Trigger, Principal: s.Started.Principal,
	}
}

// questionItem asks a person for a yes. It is bound to the flow's version, the
// step, the text that is shown and the data beside it.
func (s *State) questionItem(plan *Plan, step *spec.Step, it events.StepItem, place int, data json.RawMessage, values map[string]json.RawMessage) (*events.AskedCall, error) {
	text, err := step.Approval.Text.Text(values)
	if err != nil {
		return nil, fmt.Errorf("approval.text: %w", err)
	}
	canonical, err := events.Canonical(data)
	if err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	if text == "" || len(text) > maxQuestionBytes || len(canonical) > events.MaxInline {
		return nil, fmt.Errorf("a person cannot be shown a text of %d bytes and data of %d; 1 to %d and at most %d are allowed",
			len(text), len(canonical), maxQuestionBytes, events.MaxInline)
	}
	asked := s.stepCall(step, it, place)
	asked.Tool, asked.Route, asked.Args, asked.ArgsDigest = step.Name, events.RouteAsk, canonical, events.DigestOf(canonical)
	asked.ApprovalID = events.NewApprovalID(asked.CallID, "a", s.Seq+1)
	asked.Step.Question, asked.Step.ExpiresAfterMs = text, step.Approval.ExpiresAfter.Std().Milliseconds()
	policy := "question " + text
	if p := plan.asking().Policy(); p != nil && p.Rule != nil {
		policy = "rule " + p.Rule.String() + "; " + policy
	}
	asked.Bind = events.BindDigest(step.Name, s.Started.Ref.Digest, asked.ArgsDigest, policy)
	return asked, nil
}

const (
	maxQuestionBytes = 16 << 10  // of the rendered text of a question
	maxArgsBytes     = 256 << 10 // of a call that a step makes; it travels in one message
)

// failedToRetry finds a failed item whose step's policy starts it again. An item
// that was cancelled, refused by a person, or may have happened is left alone.
func (s *State) failedToRetry(step *spec.Step, st *Step) (index int, ok bool) {
	if step.Retry == nil {
		return 0, false
	}
	i := slices.IndexFunc(st.failed, func(i int) bool {
		end, _ := st.ends.get(i)
		return end.Again && int64(end.Attempt) < step.Retry.Attempts
	})
	if i < 0 {
		return 0, false
	}
	return st.failed[i], true
}

func (s *State) retryItem(step *spec.Step, index int, now time.Time) events.ItemRetried {
	end, _ := s.Steps[step.Name].ends.get(index)
	next := end.Attempt + 1
	return events.ItemRetried{Step: step.Name, Index: index, Attempt: next, Error: end.Error,
		At: now.Add(step.Retry.Wait(int64(next))).UTC().Truncate(time.Microsecond)}
}
