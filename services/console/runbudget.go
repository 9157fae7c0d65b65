package console

import (
	"slices"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// RunBudget is how a run stands to a ceiling: its own by the name that a raise
// has for it, or "pool:<name>" for one that it shares.
type RunBudget struct {
	Name, Unit            string
	Limit, Used, Reserved int64
	Window                string // of a shared one
}

// RunLimits is what a run's rows and its definition say about its ceilings.
type RunLimits struct {
	Started events.RunStarted
	Raised  map[string]int64
	Steps   int64
	Agent   *spec.Agent // the version that the run pinned; nil for a flow's run, or when it is gone
	Flow    *spec.Flow
	Now     time.Time
}

// Own lists the run's own ceilings after raises, in the order of docs/budgets.md.
func (l RunLimits) Own(r Run) []RunBudget {
	var out []RunBudget
	add := func(name, unit string, limit, used int64) {
		if limit > 0 {
			out = append(out, RunBudget{Name: name, Unit: unit, Limit: max(limit, l.Raised[name]), Used: used})
		}
	}
	if l.Agent != nil {
		b := l.Agent.Budget
		add("modelCalls", "modelCalls", b.ModelCalls, r.ModelCalls)
		add("tokens", "tokens", b.Tokens, r.Tokens)
		add("cost", "micro_usd", int64(b.Cost), r.CostMicroUSD)
		add("steps", "steps", b.Steps, l.Steps)
		add("toolCalls", "toolCalls", b.ToolCalls, r.ToolCalls)
	}
	until := l.Now
	if !r.EndedAt.IsZero() {
		until = r.EndedAt
	}
	add("wallTime", "seconds", l.Started.WallTimeMs/1000, int64(until.Sub(l.Started.AcceptedAt).Seconds()))
	return out
}

// Pools names the shared budgets that the run draws on, or sets for the runs
// under it.
func (l RunLimits) Pools(r Run) []string {
	var out []string
	for _, p := range l.Started.Pools {
		out = append(out, p.Name)
	}
	if p := l.Started.Parent; p != nil {
		for _, c := range slices.Concat(p.Shared, p.Bounds) {
			out = append(out, c.Pool)
		}
	}
	if l.Flow != nil {
		for _, b := range l.Flow.Budget.Shared() {
			out = append(out, events.FlowPool(r.ID, b.Unit))
		}
	}
	return out
}
