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

func TestBudgetLines(t *testing.T) {
	t.Parallel()
	got := budgetLines(client.Run{Budgets: []client.RunBudget{
		{Name: "cost", Unit: "micro_usd", Limit: 1_500_000, Used: 120_000}, {Name: "wallTime", Unit: "seconds", Limit: 7200, Used: 61},
		{Name: "pool:night", Unit: "tokens", Limit: 4000, Used: 3400, Reserved: 600, Window: "2026-11-28"}, {Name: "pool:a\nb", Unit: "steps", Limit: 3, Window: "all"},
	}})
	if want := "cost: $0.12 of $1.5\nwallTime: 1m1s of 2h0m0s\npool:night: 3400 of 4000, 600 booked in 2026-11-28\npool:a b: 0 of 3\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestCacheLine(t *testing.T) {
	for want, r := range map[string]client.Run{
		"": {Tokens: 5},
		" (of it 900 read from the provider's cache, 20 written to it)": {CacheReadTokens: 900, CacheWriteTokens: 20},
		" (of it 0 read from the provider's cache, 20 written to it)":   {CacheWriteTokens: 20},
	} {
		if got := cacheLine(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
