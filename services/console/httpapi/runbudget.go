package httpapi

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/console"
)

// RunBudget is how a run stands to a ceiling.
type RunBudget struct {
	Name     string `json:"name" doc:"as a raise names it: a ceiling of the run, or pool:<name> of one that it shares"`
	Unit     string `json:"unit" doc:"tokens, micro_usd, modelCalls, toolCalls, steps or seconds"`
	Limit    int64  `json:"limit" doc:"after raises"`
	Used     int64  `json:"used"`
	Reserved int64  `json:"reserved,omitempty" doc:"booked for calls under way, of a shared one"`
	Window   string `json:"window,omitempty" doc:"of a shared one"`
}

func wireBudgets(budgets []console.RunBudget) []RunBudget {
	var out []RunBudget
	for _, b := range budgets {
		out = append(out, RunBudget(b))
	}
	return out
}

// budgetRow is a ceiling as the page shows it.
type budgetRow struct{ Name, Used, Reserved, Limit, Window string }

func budgetRows(budgets []console.RunBudget) []budgetRow {
	var out []budgetRow
	for _, b := range budgets {
		row := budgetRow{Name: b.Name, Used: spec.Amount(b.Unit, b.Used), Limit: spec.Amount(b.Unit, b.Limit), Window: b.Window}
		if b.Reserved > 0 {
			row.Reserved = spec.Amount(b.Unit, b.Reserved)
		}
		out = append(out, row)
	}
	return out
}

// costOf is what a run cost, empty without prices.
func costOf(r console.Run) string {
	if r.CostMicroUSD == 0 {
		return ""
	}
	cost := spec.Amount("micro_usd", r.CostMicroUSD)
	if r.CostEstimatedMicroUSD > 0 {
		cost += " (of it " + spec.Amount("micro_usd", r.CostEstimatedMicroUSD) + " estimated)"
	}
	return cost
}

type factRow struct{ Name, Value string }

type artifactRow struct {
	ID, What, Size string
	Elsewhere      bool // it has no bytes here
}

// known is what the run has written down, left behind and used.
func (p *runPage) known(r console.Run) {
	p.Gauges, p.Plan, p.MoreArtifacts = gaugesOf(r.Budgets), r.Known.Plan, r.Known.More
	for _, name := range slices.Sorted(maps.Keys(r.Known.Facts)) {
		p.Facts = append(p.Facts, factRow{name, pretty(r.Known.Facts[name])})
	}
	for _, x := range r.Known.Artifacts {
		what := cmp.Or(x.Title, x.Name, x.URI, x.Tool)
		if kind := cmp.Or(x.ContentType, x.Kind); kind != "" {
			what += ", " + kind
		}
		p.Artifacts = append(p.Artifacts, artifactRow{x.ID, what, sizeOf(x.Bytes), x.URI != ""})
	}
}

// sizeOf is a size for people.
func sizeOf(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%d.%d KiB", n>>10, n&(1<<10-1)*10>>10)
	}
	return fmt.Sprintf("%d.%d MiB", n>>20, n&(1<<20-1)*10>>20)
}
