package main

import (
	"fmt"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// cacheLine says how much of the input the provider's cache served and took; empty
// when it was not used.
func cacheLine(r client.Run) string {
	if r.CacheReadTokens == 0 && r.CacheWriteTokens == 0 {
		return ""
	}
	return fmt.Sprintf(" (of it %d read from the provider's cache, %d written to it)", r.CacheReadTokens, r.CacheWriteTokens)
}

// costLine says what a run cost, to the last digit, and how much of it was
// estimated; empty without prices.
func costLine(r client.Run) string {
	if r.CostMicroUSD == 0 {
		return ""
	}
	line := fmt.Sprintf(", $%s", spec.MicroUSD(r.CostMicroUSD))
	if r.CostEstimatedMicroUSD > 0 {
		line += fmt.Sprintf(" (of it $%s estimated)", spec.MicroUSD(r.CostEstimatedMicroUSD))
	}
	return line
}

// budgetLines shows how a run stands to its ceilings, one on a line.
func budgetLines(r client.Run) string {
	var b strings.Builder
	for _, c := range r.Budgets {
		booked, window := "", ""
		if c.Reserved > 0 {
			booked = ", " + amount(c.Unit, c.Reserved) + " booked"
		}
		if c.Window != "" && c.Window != "all" {
			window = " in " + oneLine(c.Window)
		}
		fmt.Fprintf(&b, "%s: %s of %s%s%s\n", oneLine(c.Name), amount(c.Unit, c.Used), amount(c.Unit, c.Limit), booked, window)
	}
	return b.String()
}
