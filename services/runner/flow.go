package runner

import (
	"encoding/json"
	"fmt"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// advanceFlow adds what follows for a flow's run: a step that begins or is
// skipped, the next window of a step's items, another attempt, or the end.
func (d *decision) advanceFlow(plan *Plan) (more bool, err error) {
	s := d.state
	for i := range plan.Flow.Steps {
		step := &plan.Flow.Steps[i]
		st := s.Steps[step.Name]
		if (st == nil || st.Kept) && !s.needsMet(step) {
			continue
		}
		if st == nil {
			return d.beginStep(plan, i)
		}
		if again, ok := s.failedToRetry(step, st); ok {
			return true, d.add(events.FactItemRetried, s.retryItem(step, again, d.now), false)
		}
		switch {
		case st.Failed > 0 && step.OnFailure == spec.OnFailureFail:
			return false, d.fail(plan, "step_failed", fmt.Sprintf("step %s: %d of %d items failed%s", step.Name, st.Failed, st.Total, s.firstFailure(st)))
		case len(st.due) > 0:
			return d.restartItem(plan, i, st)
		case st.Started < st.Total && st.Started-st.Ended < window(step):
			return d.startWindow(plan, i, st)
		}
	}
	for _, step := range plan.Flow.Steps {
		if !s.stepEnded(step.Name) {
			return false, nil
		}
	}
	out, err := s.flowOutput(plan)
	if err != nil {
		return false, d.fail(plan, "output_too_large", err.Error())
	}
	return false, d.add(events.FactCompleted, events.Ending{Output: out}, false)
}

// fail ends the flow. Outgoing takes back what its open items have not begun:
// child runs are cancelled, questions withdrawn and calls revoked.
func (d *decision) fail(plan *Plan, code, message string) error {
	out, err := d.state.flowOutput(plan)
	if err != nil {
		out = nil // what there is does not fit; each item's own row has its part
	}
	return d.add(events.FactFailed, events.Ending{Output: out, Error: &events.Problem{Code: code, Message: clip(message, 2000)}}, false)
}

// failStep is a step that cannot be rendered or decided: a fault of the flow.
func (d *decision) failStep(plan *Plan, code, step string, err error) (bool, error) {
	return false, d.fail(plan, code, fmt.Sprintf("step %s: %v", step, err))
}

func window(step *spec.Step) int { return max(1, int(step.Limit)) }

func (s *State) needsMet(step *spec.Step) bool {
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

// firstFailure says why the item that failed first did.
func (s *State) firstFailure(st *Step) string {
	if len(st.failed) == 0 {
		return ""
	}
	end, _ := st.ends.get(st.failed[0])
	if end.Error == nil {
		return fmt.Sprintf("; item %d is %s", st.failed[0], end.Status)
	}
	return fmt.Sprintf("; item %d: %s: %s", st.failed[0], end.Error.Code, clip(end.Error.Message, 500))
}

// outputs lists a step's results in item order; a failed item is null there and
// stands in failures with its reason.
func (s *State) outputs(step string) (outputs []json.RawMessage, failures []any) {
	outputs, failures = []json.RawMessage{}, []any{}
	st := s.Steps[step]
	n := st.Started
	if st.Kept { // with holes
		n = st.Total
	}
	for i := range n {
		out := json.RawMessage("null")
		if end, ok := st.ends.get(i); ok {
			switch {
			case end.Status != events.StatusCompleted:
				failures = append(failures, map[string]any{"item": i, "status": end.Status, "error": end.Error})
			case len(end.Output) > 0:
				out = end.Output
			}
		}
		outputs = append(outputs, out)
	}
	return outputs, failures
}

// flowOutput is an object with each step's output: a list for forEach, the one
// value otherwise, null for what was skipped.
func (s *State) flowOutput(plan *Plan) (json.RawMessage, error) {
	out, size := map[string]any{}, 0
	for _, step := range plan.Flow.Steps {
		st := s.Steps[step.Name]
		if st == nil {
			continue
		}
		outputs, _ := s.outputs(step.Name)
		for _, o := range outputs {
			size += len(o)
		}
		switch {
		case step.ForEach != nil:
			out[step.Name] = outputs
		case len(outputs) == 1:
			out[step.Name] = outputs[0]
		case st.Skipped:
			out[step.Name] = nil
		}
	}
	if size > spec.MaxRenderedBytes {
		return nil, fmt.Errorf("the outputs of all items have %d bytes and a run's output at most %d; let items answer less, or keep artifacts", size, spec.MaxRenderedBytes)
	}
	return mustJSON(out), nil
}
