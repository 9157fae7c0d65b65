package runner

import (
	"time"

	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Window names the window of p's budget that now falls into: the first local
// day of it, "2026-11-29", of a part "2026-11-28T18/night"; "all" for a budget without windows. A night that
// begins at 18:00 belongs to the day on which it begins.
func (p Pool) Window(now time.Time) string {
	_, name := p.Budget.Start(now)
	return name
}

// Hard reports whether the pool refuses what exceeds it; else it only alerts.
func (p Pool) Hard() bool { return p.Budget.OnExceeded != spec.OnExceededAlert }

// Units in which pools and ceilings count.
const (
	unitTokens     = "tokens"
	unitMicroUSD   = "micro_usd"
	unitModelCalls = "modelCalls"
	unitToolCalls  = "toolCalls"
	unitSteps      = "steps"
	unitSeconds    = "seconds" // of wall time
)

// Unit names what p's numbers are.
func (p Pool) Unit() string {
	if p.Budget.Unit == spec.UnitUSD {
		return unitMicroUSD
	}
	return p.Budget.Unit
}
