package main

import (
	"fmt"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

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
