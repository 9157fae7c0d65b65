package runner

import (
	"slices"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// ownPools are the ceilings that a flow's run sets for the runs under it. They are
// pools like any other, named after the run.
func ownPools(run events.RunID, flow *spec.Flow) []Pool {
	if flow == nil {
		return nil
	}
	var out []Pool
	for _, b := range flow.Budget.Shared() {
		b.Channel = flow.Notify.To(events.NoticeBudget)
		out = append(out, Pool{Name: events.FlowPool(run, b.Unit), Budget: b, Fixed: true})
	}
	return out
}

// sharedPools are the ceilings that a run was started under.
func sharedPools(parent *events.Parent) []Pool {
	if parent == nil {
		return nil
	}
	var out []Pool
	for _, c := range slices.Concat(parent.Shared, parent.Bounds) {
		if c.Unit == unitSeconds {
			continue
		}
		out = append(out, Pool{Name: c.Pool, Fixed: true, Budget: &spec.Budget{Unit: c.Unit, Limit: spec.Limit(c.Limit), AlertAt: []int64{80, 100}, OnExceeded: c.OnExceeded, Channel: c.Channel}})
	}
	return out
}

// sharedCeilings is what a child of s draws on: what s does, and what s sets.
func (s *State) sharedCeilings(plan *Plan) []events.SharedCeiling {
	var out []events.SharedCeiling
	if s.Started.Parent != nil {
		out = append(out, s.Started.Parent.Shared...)
	}
	for _, p := range ownPools(s.RunID, plan.Flow) {
		if p.Unit() != unitSteps {
			out = append(out, sharedCeiling(p))
		}
	}
	return out
}

func sharedCeiling(p Pool) events.SharedCeiling {
	return events.SharedCeiling{Pool: p.Name, Unit: p.Budget.Unit, Limit: int64(p.Budget.Limit), OnExceeded: p.Budget.OnExceeded, Channel: p.Budget.Channel}
}
