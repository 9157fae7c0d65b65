package spec

import "time"

// FlowBudget holds ceilings for one run of a flow: the runs that it starts,
// directly or not, share them. Zero means no ceiling.
type FlowBudget struct {
	ModelCalls int64    `json:"modelCalls,omitempty"` // of all runs under the flow
	ToolCalls  int64    `json:"toolCalls,omitempty"`  // of agents; a step that calls a tool takes none
	Tokens     int64    `json:"tokens,omitempty"`     // likewise
	Cost       MicroUSD `json:"cost,omitempty"`       // likewise, in dollars
	Steps      int64    `json:"steps,omitempty"`      // answers of models
	// WallTime is counted from the moment at which the flow's start was accepted. The
	// flow and the runs under it stop at its end.
	WallTime Duration `json:"wallTime,omitempty"`
	// OnExceeded is what happens to the run that asked, and is OnExceededPause
	// (empty means it) or OnExceededFail.
	OnExceeded string `json:"onExceeded,omitempty"`
}

func (b *FlowBudget) check(d *decoder, s spot) {
	if b == nil {
		return
	}
	if *b == (FlowBudget{OnExceeded: b.OnExceeded}) {
		d.fail(s, "names no ceiling; give modelCalls, toolCalls, tokens, cost, steps or wallTime")
	}
	d.between(s.at("modelCalls"), b.ModelCalls, 0, 1_000_000_000)
	d.between(s.at("toolCalls"), b.ToolCalls, 0, 1_000_000_000)
	d.between(s.at("tokens"), b.Tokens, 0, maxLimit)
	d.between(s.at("steps"), b.Steps, 0, 1_000_000_000)
	d.within(s.at("wallTime"), b.WallTime, time.Second, 366*24*time.Hour)
	if b.OnExceeded != "" {
		d.oneOf(s.at("onExceeded"), b.OnExceeded, OnExceededPause, OnExceededFail)
	}
}

// Shared is the budgets that b's ceilings are, in a fixed order. Wall time is
// none: nothing is booked of it.
func (b *FlowBudget) Shared() []*Budget {
	var out []*Budget
	add := func(unit string, limit Limit) {
		if limit > 0 {
			one := &Budget{Unit: unit, Limit: limit, OnExceeded: b.OnExceeded}
			one.fill()
			out = append(out, one)
		}
	}
	if b != nil {
		add(UnitModelCalls, Limit(b.ModelCalls*1e6))
		add(UnitToolCalls, Limit(b.ToolCalls*1e6))
		add(UnitTokens, Limit(b.Tokens*1e6))
		add(UnitUSD, Limit(b.Cost))
		add(UnitSteps, Limit(b.Steps*1e6))
	}
	return out
}
