package main

import (
	"testing"

	"github.com/holdfast-run/holdfast/pkg/client"
)

func TestCostLine(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]client.Run{
		"":                                  {},
		", $0.00222":                        {CostMicroUSD: 2220},
		", $12 (of it $0.000001 estimated)": {CostMicroUSD: 12_000_000, CostEstimatedMicroUSD: 1},
	} {
		if got := costLine(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
