package runner

import (
	"fmt"
	"slices"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// keptItems are the finished items of the steps that would read the same again.
func keptItems(old *State, flow *spec.Flow) (out []events.ItemsKept) {
	anew := map[string]bool{} // steps whose outputs may come out otherwise, once known
	var changes func(step *spec.Step) bool
	readsAnew := func(step *spec.Step) bool {
		return slices.ContainsFunc(flow.Reads(step), func(name string) bool { return changes(flow.Step(name)) })
	}
	changes = func(step *spec.Step) bool {
		is, known := anew[step.Name]
		if !known {
			st := old.Steps[step.Name]
			is = st == nil || st.Failed > 0 || !old.stepEnded(step.Name) || readsAnew(step)
			anew[step.Name] = is
		}
		return is
	}
	for i := range flow.Steps {
		step := &flow.Steps[i]
		st := old.Steps[step.Name]
		if st == nil || readsAnew(step) {
			continue
		}
		kept := events.ItemsKept{Step: step.Name, Total: st.Total, Skipped: st.Skipped}
		for i := range st.Total {
			if end, ok := st.ends.get(i); ok && end.Status == events.StatusCompleted {
				kept.Items = append(kept.Items, events.KeptItem{Index: i, Output: end.Output})
			}
		}
		if len(kept.Items) > 0 || st.Ended == st.Total {
			out = append(out, kept)
		}
	}
	return out
}

func (s *State) itemsKept(seq int64, b events.ItemsKept) error {
	if s.Steps[b.Step] != nil {
		return fmt.Errorf("step %s had begun when items were taken over", b.Step)
	}
	st := s.begun(seq, b.Step, b.Total)
	st.Kept, st.Skipped = true, b.Skipped
	for _, it := range b.Items {
		st.ends.put(it.Index, ItemEnd{Status: events.StatusCompleted, Output: it.Output, Attempt: 1})
		st.Started++
		st.Ended++
	}
	return nil
}
