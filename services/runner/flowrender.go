package runner

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/holdfast-run/holdfast/pkg/spec"
)

// rendering is a step with everything filled in but the item: its list is read
// and its templates hold the values of input and of earlier steps. Items then
// cost what they are, not what all of them are together.
type rendering struct {
	step  spec.Step
	items []json.RawMessage
}

// renderings keeps what steps that have begun rendered. It is derived from the
// journal alone, so every copy of a run's state may share it.
type renderings struct {
	mu     sync.Mutex
	bySeq  map[string]*rendering
	parsed int // how often a step was rendered
}

func newRenderings() *renderings { return &renderings{bySeq: map[string]*rendering{}} }

// renderedOnce is render for a step whose first row is committed: what it reads
// is over and does not change any more.
func (s *State) renderedOnce(plan *Plan, step *spec.Step) (*rendering, error) {
	if s.Steps[step.Name].Since > s.committed {
		return s.render(plan, step)
	}
	s.rendered.mu.Lock()
	defer s.rendered.mu.Unlock()
	if r, ok := s.rendered.bySeq[step.Name]; ok {
		return r, nil
	}
	r, err := s.render(plan, step)
	if err != nil {
		return &rendering{}, err
	}
	s.rendered.bySeq[step.Name] = r
	s.rendered.parsed++
	return r, nil
}

// render fills in a step.
func (s *State) render(plan *Plan, step *spec.Step) (*rendering, error) {
	roots := s.roots(plan, step)
	items := []json.RawMessage{json.RawMessage("null")}
	if step.ForEach != nil {
		raw, err := step.ForEach.Render(roots)
		if err != nil {
			return nil, fmt.Errorf("forEach: %w", err)
		}
		if err := json.Unmarshal(raw, &items); err != nil {
			return nil, fmt.Errorf("forEach is not a list: %.60s", raw)
		}
	}
	filled, err := step.With(roots)
	if err != nil {
		return nil, err
	}
	return &rendering{step: filled, items: items}, nil
}

// roots are the values that a step may read: the input, and the steps that have
// ended before it.
func (s *State) roots(plan *Plan, step *spec.Step) map[string]json.RawMessage {
	steps := map[string]any{}
	for _, name := range plan.Flow.Before(step) {
		st := s.Steps[name]
		if st == nil {
			continue
		}
		outputs, failures := s.outputs(name)
		view := map[string]any{"outputs": outputs, "failures": failures, "skipped": st.Skipped}
		switch {
		case plan.Flow.Step(name).ForEach != nil:
		case len(outputs) == 1:
			view["output"] = outputs[0]
		default:
			view["output"] = nil
		}
		steps[name] = view
	}
	return map[string]json.RawMessage{"input": s.Started.Input, "steps": mustJSON(steps)}
}
