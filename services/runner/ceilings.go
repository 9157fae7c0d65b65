package runner

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// The ceilings of one run, as a raise names them. Money is in micro-dollars, time
// in seconds.
const (
	ceilToolCalls  = "toolCalls"
	ceilModelCalls = "modelCalls"
	ceilTokens     = "tokens"
	ceilSteps      = "steps"
	ceilCost       = "cost"
	ceilWallTime   = "wallTime"
)

// Ceiling is how a run stands to one of its own ceilings.
type Ceiling struct {
	Name  string
	Unit  string
	Limit int64 // after raises
	Used  int64
	Need  int64 // what the next model call may use
}

// left reports whether the next model call may be made.
func (c Ceiling) left() bool {
	if c.Need > 0 {
		return c.Used+c.Need <= c.Limit
	}
	return c.Used < c.Limit
}

// reason says the numbers.
func (c Ceiling) reason() string {
	if c.Need > 0 {
		return fmt.Sprintf("%s: %s of %s used, the next call may need %s", c.Name, shown(c.Unit, c.Used), shown(c.Unit, c.Limit), shown(c.Unit, c.Need))
	}
	return fmt.Sprintf("%s: %s of %s used", c.Name, shown(c.Unit, c.Used), shown(c.Unit, c.Limit))
}

// shown is an amount as people read it.
func shown(unit string, n int64) string { return spec.Amount(unit, n) }

// ceiling is a run's own budget after raises; 0 means none.
func (s *State) ceiling(name string, defined int64) int64 {
	if raised, ok := s.Raised[name]; ok && defined > 0 {
		return max(raised, defined)
	}
	return defined
}

// Ceilings lists the run's own ceilings, without what the next call may need.
func (s *State) Ceilings(b spec.AgentBudget, now time.Time) []Ceiling {
	var out []Ceiling
	add := func(name, unit string, defined, used int64) {
		if limit := s.ceiling(name, defined); limit > 0 {
			out = append(out, Ceiling{Name: name, Unit: unit, Limit: limit, Used: used})
		}
	}
	add(ceilModelCalls, unitModelCalls, b.ModelCalls, s.ModelCalls)
	add(ceilTokens, unitTokens, b.Tokens, s.Usage.Total())
	add(ceilCost, unitMicroUSD, int64(b.Cost), s.Cost)
	add(ceilSteps, unitSteps, b.Steps, int64(len(s.Turns)))
	add(ceilToolCalls, unitToolCalls, b.ToolCalls, s.ToolCalls)
	if s.Started.WallTimeMs > 0 {
		used := max(now.Sub(s.Started.AcceptedAt).Milliseconds(), s.Overtime) / 1000
		add(ceilWallTime, unitSeconds, s.Started.WallTimeMs/1000, used)
	}
	return out
}

// checkCeilings stops a run that owes a model call it has no budget for: what the
// call may use at most must be left before it is made.
func (d *decision) checkCeilings(plan *Plan) error {
	s := d.state
	var most Amounts
	if b := plan.Agent.Budget; b.Tokens > 0 || b.Cost > 0 {
		if r, err := NextRequest(s, plan, 0); err == nil { // else the request fails for its own reason
			most = r.Most(r.Model.Prices)
		}
	}
	for _, c := range s.Ceilings(plan.Agent.Budget, d.now) {
		switch c.Name {
		case ceilToolCalls: // the calls beyond it are answered with a refusal
			continue
		case ceilTokens:
			c.Need = most.Tokens
		case ceilCost:
			c.Need = most.MicroUSD
		}
		if !c.left() {
			return d.exceeded(plan, c)
		}
	}
	return nil
}

// exceeded does what the agent says about a ceiling.
func (d *decision) exceeded(plan *Plan, c Ceiling) error {
	if plan.ownBudget().OnExceeded == spec.OnExceededFail {
		return d.add(events.FactFailed, events.Ending{Error: &events.Problem{Code: "budget", Message: c.reason()}}, false)
	}
	return d.add(events.FactPaused, events.Paused{By: pausedByBudget, Pool: c.Name, Reason: c.reason() + "; raise the budget to go on"}, false)
}

// DecideRefused stops a run whose next model call a shared pool refused.
func DecideRefused(s *State, r Reserved, by Claimed, now time.Time) (Decision, error) {
	d := &decision{state: s.Clone(), cause: by.Cause, worker: by.Worker, now: now}
	var err error
	if r.Fail {
		err = d.add(events.FactFailed, events.Ending{Error: &events.Problem{Code: "budget", Message: r.Reason}}, false)
	} else {
		err = d.add(events.FactPaused, r.paused(), false)
	}
	return Decision{Facts: d.facts, State: d.state}, err
}

// CallRoom is how many tool calls of one answer shared budgets have room for.
type CallRoom struct {
	Calls int64
	Pool  string // that has the least
}

// noCallsLeft says why a tool call is not to begin; empty when it is.
func (s *State) noCallsLeft(plan *Plan, a Answer, begun int64) string {
	if limit := s.ceiling(ceilToolCalls, plan.Agent.Budget.ToolCalls); limit > 0 && begun >= limit {
		return fmt.Sprintf("the budget of %d tool calls is used up", limit)
	}
	if a.Room != nil && begun-s.ToolCalls >= a.Room.Calls {
		return fmt.Sprintf("the shared budget %s of tool calls is used up", a.Room.Pool)
	}
	return ""
}

const (
	wallTimerPrefix = "wall-"
	maxWallTime     = 100 * 366 * 24 * 3600 // seconds
)

// ownBudget is the run's own ceilings. Of a flow's run that is its wall time, which
// stands in the first row: the others are shared.
func (p *Plan) ownBudget() spec.AgentBudget {
	switch {
	case p.Agent != nil:
		return p.Agent.Budget
	case p.Flow != nil && p.Flow.Budget != nil:
		return spec.AgentBudget{OnExceeded: p.Flow.Budget.OnExceeded}
	}
	return spec.AgentBudget{}
}

// checkWallTime stops a run whose time is over, or that of a flow above it,
// whatever it waits for.
func (d *decision) checkWallTime(plan *Plan) (stopped bool, err error) {
	if d.state.Started.WallTimeMs > 0 {
		for _, c := range d.state.Ceilings(plan.ownBudget(), d.now) {
			if c.Name == ceilWallTime && !c.left() {
				return true, d.exceeded(plan, c)
			}
		}
	}
	for _, w := range d.state.walls() {
		if w.over(d.now) {
			return true, d.add(events.FactPaused, w.paused(), false)
		}
	}
	return false, nil
}

// wallTimer is the end of the run's wall time, until the journal knows of it.
func (s *State) wallTimer() (Timer, bool) {
	ms := s.Started.WallTimeMs
	if ms <= 0 {
		return Timer{}, false
	}
	if ms = max(ms, min(s.Raised[ceilWallTime], maxWallTime)*1000); ms <= s.Overtime {
		return Timer{}, false
	}
	return Timer{Name: wallTimerPrefix + strconv.FormatInt(ms, 10), Due: s.Started.AcceptedAt.Add(time.Duration(ms) * time.Millisecond)}, true
}

func wallTimerOf(name string) (ms int64, ok bool) {
	text, ok := strings.CutPrefix(name, wallTimerPrefix)
	if !ok {
		return 0, false
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	return ms, err == nil
}
