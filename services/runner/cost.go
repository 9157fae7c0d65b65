package runner

import (
	"math"
	"math/big"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Cost is what an answer costs in micro-dollars, rounded up, in whole numbers;
// zero without prices. Input that was read from or written to the provider's
// cache has prices of its own, and reasoning is output.
func Cost(p *spec.Prices, u events.Usage) int64 {
	if p == nil {
		return 0
	}
	sum := new(big.Int)
	add := func(tokens int64, price spec.MicroUSD) {
		if tokens > 0 {
			sum.Add(sum, new(big.Int).Mul(big.NewInt(tokens), big.NewInt(int64(price))))
		}
	}
	add(u.InputTokens-u.CacheReadTokens-u.CacheWriteTokens, p.Input)
	add(u.CacheReadTokens, p.ReadPrice())
	add(u.CacheWriteTokens, p.WritePrice())
	add(u.OutputTokens, p.Output)
	sum.Add(sum, big.NewInt(999_999)).Quo(sum, big.NewInt(1_000_000))
	if !sum.IsInt64() {
		return math.MaxInt64
	}
	return sum.Int64()
}

// addCost adds up to the largest number, and never past it.
func addCost(a, b int64) int64 {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

// spent counts what one answer, or one billed attempt, used.
func (s *State) spent(u events.Usage, cost int64) {
	s.Usage.InputTokens += u.InputTokens
	s.Usage.OutputTokens += u.OutputTokens
	s.Usage.CacheReadTokens += u.CacheReadTokens
	s.Usage.CacheWriteTokens += u.CacheWriteTokens
	s.Usage.ReasoningTokens += u.ReasoningTokens
	s.Usage.Estimated = s.Usage.Estimated || u.Estimated
	s.Cost = addCost(s.Cost, cost)
	if u.Estimated {
		s.CostGuess = addCost(s.CostGuess, cost)
	}
}
