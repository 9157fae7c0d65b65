package runner

import (
	"encoding/json"
	"fmt"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// advanceFlow adds what follows for a flow's run: the next window of a step's
// children, or the end.
func (d *decision) advanceFlow(plan *Plan) (more bool, err error) {
	s := d.state
	for i, step := range plan.Flow.Steps {
		st := s.Steps[step.Name]
		switch {
		case st == nil:
			if !s.needsMet(step) {
				continue
			}
			return d.beginStep(i, step)
		case st.Started < st.Total && st.Started-st.Ended < window(step):
			return d.startWindow(i, step, st)
		case st.Failed > 0 && step.OnFailure == spec.OnFailureFail:
			return false, d.add(events.FactFailed, events.Ending{Output: s.flowOutput(plan), Error: &events.Problem{
				Code: "step_failed", Message: fmt.Sprintf("step %s: %d of %d runs failed", step.Name, st.Failed, st.Total)}}, false)
		}
	}
	for _, step := range plan.Flow.Steps {
		if !s.stepEnded(step.Name) {
			return false, nil
		}
	}
	return false, d.add(events.FactCompleted, events.Ending{Output: s.flowOutput(plan)}, false)
}

func window(step spec.Step) int { return max(1, int(step.Limit)) }

func (s *State) needsMet(step spec.Step) bool {
	for _, need := range step.Needs {
		if !s.stepEnded(need) {
			return false
		}
	}
	return true
}

func (s *State) stepEnded(name string) bool {
	st := s.Steps[name]
	return st != nil && st.Ended == st.Total
}

// roots are the values that a step's templates may read.
func (s *State) roots() map[string]json.RawMessage {
	steps := map[string]any{}
	for name := range s.Steps {
		outputs, failures := s.outputs(name)
		view := map[string]any{"outputs": outputs, "failures": failures}
		if len(outputs) == 1 {
			view["output"] = outputs[0]
		}
		steps[name] = view
	}
	return map[string]json.RawMessage{"input": s.Started.Input, "steps": mustJSON(steps)}
}

// outputs lists a step's results in item order; a failed item is null there and
// stands in failures with its reason.
func (s *State) outputs(step string) (outputs []json.RawMessage, failures []any) {
	outputs, failures = []json.RawMessage{}, []any{}
	for i := range s.Steps[step].Started {
		item := s.Items[itemName(step, i)]
		out := json.RawMessage("null")
		if item.Done != nil {
			if item.Done.Status == events.StatusCompleted && len(item.Done.Output) > 0 {
				out = item.Done.Output
			} else {
				failures = append(failures, map[string]any{"item": i, "status": item.Done.Status, "error": item.Done.Error})
			}
		}
		outputs = append(outputs, out)
	}
	return outputs, failures
}

func itemName(step string, i int) string { return fmt.Sprintf("%s/%d", step, i) }

// flowOutput is an object with each step's output: a list for forEach, the one
// value otherwise.
func (s *State) flowOutput(plan *Plan) json.RawMessage {
	out := map[string]any{}
	for _, step := range plan.Flow.Steps {
		if s.Steps[step.Name] == nil {
			continue
		}
		outputs, _ := s.outputs(step.Name)
		switch {
		case step.ForEach != nil:
			out[step.Name] = outputs
		case len(outputs) == 1:
			out[step.Name] = outputs[0]
		}
	}
	return mustJSON(out)
}

func (d *decision) beginStep(index int, step spec.Step) (bool, error) {
	items, err := stepItems(step, d.state.roots())
	if err != nil {
		return false, d.add(events.FactFailed, events.Ending{Error: &events.Problem{Code: "mapping", Message: fmt.Sprintf("step %s: %v", step.Name, err)}}, false)
	}
	if len(items) == 0 { // an empty list is a step that is done
		return true, d.add(events.FactChildrenStarted, events.ChildrenStarted{Step: step.Name}, false)
	}
	return d.startItems(index, step, items, 0, min(window(step), len(items)))
}

func (d *decision) startWindow(index int, step spec.Step, st *Step) (bool, error) {
	items, err := stepItems(step, d.state.roots())
	if err != nil || len(items) != st.Total {
		return false, fmt.Errorf("run %s step %s: the items changed from %d to %d: %w", d.state.RunID, step.Name, st.Total, len(items), err)
	}
	return d.startItems(index, step, items, st.Started, min(st.Total, st.Ended+window(step)))
}

// startItems adds the row that starts items from..to of a step.
func (d *decision) startItems(index int, step spec.Step, items []json.RawMessage, from, to int) (bool, error) {
	body := events.ChildrenStarted{Step: step.Name, Total: len(items)}
	roots := d.state.roots()
	for i := from; i < to; i++ {
		roots["item"] = items[i]
		input := json.RawMessage(`{}`)
		if step.Input != nil {
			rendered, err := step.Input.Render(roots)
			if err != nil {
				return false, d.add(events.FactFailed, events.Ending{Error: &events.Problem{Code: "mapping",
					Message: fmt.Sprintf("input of step %s item %d: %v", step.Name, i, err)}}, false)
			}
			input = rendered
		}
		body.Children = append(body.Children, events.Child{
			Item: itemName(step.Name, i), RunID: events.ChildRunID(d.state.RunID, d.state.Seq+1, i), Ref: d.state.Started.Steps[index], Input: input,
		})
	}
	return true, d.add(events.FactChildrenStarted, body, false)
}

// stepItems are the items of a step: forEach's list, or one empty item.
func stepItems(step spec.Step, roots map[string]json.RawMessage) ([]json.RawMessage, error) {
	if step.ForEach == nil {
		return []json.RawMessage{json.RawMessage("null")}, nil
	}
	raw, err := step.ForEach.Render(roots)
	if err != nil {
		return nil, fmt.Errorf("forEach: %w", err)
	}
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, fmt.Errorf("forEach is not a list: %.60s", raw)
	}
	return items, nil
}
