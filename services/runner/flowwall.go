package runner

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// wall is the wall time of a flow above the run: at its end the run pauses. The
// flow itself has it as a ceiling of its own; one that is to fail takes its
// runs back then, and they know nothing of it.
type wall struct {
	events.SharedCeiling
	index int
	limit time.Duration // after raises
	known time.Duration // an end that the journal knows
}

// walls lists them, the outermost first.
func (s *State) walls() []wall {
	if s.Started.Parent == nil {
		return nil
	}
	var out []wall
	for i, b := range s.Started.Parent.Bounds {
		if b.Unit != unitSeconds || b.Since == nil {
			continue
		}
		w := wall{SharedCeiling: b, index: i, limit: time.Duration(b.Limit) * time.Microsecond, known: s.WallsOver[b.Pool]}
		w.limit = max(w.limit, time.Duration(min(s.Raised["pool:"+b.Pool], maxWallTime))*time.Second)
		out = append(out, w)
	}
	return out
}

func (w wall) end() time.Time { return w.Since.Add(w.limit) }

func (w wall) over(now time.Time) bool { return w.known >= w.limit || !now.Before(w.end()) }

func (w wall) paused() events.Paused {
	flow, _ := events.FlowOfPool(w.Pool)
	return events.Paused{By: pausedByBudget, Pool: "pool:" + w.Pool, Reason: fmt.Sprintf("wallTime of flow run %s: %s are over; raise wallTime of that run to go on", flow, w.limit)}
}

// timer is the wall's end, until the journal knows of it.
func (w wall) timer() (Timer, bool) {
	if w.known >= w.limit {
		return Timer{}, false
	}
	return Timer{Name: fmt.Sprintf("wall%d-%d", w.index, w.limit.Milliseconds()), Due: w.end()}, true
}

// wallOver folds the timer of a wall.
func (s *State) wallOver(name string) {
	for _, w := range s.walls() {
		ms, ok := strings.CutPrefix(name, fmt.Sprintf("wall%d-", w.index))
		n, err := strconv.ParseInt(ms, 10, 64)
		if !ok || err != nil {
			continue
		}
		over := map[string]time.Duration{}
		for pool, at := range s.WallsOver { // clones share what is there
			over[pool] = at
		}
		over[w.Pool] = max(over[w.Pool], time.Duration(n)*time.Millisecond)
		s.WallsOver = over
	}
}

// wallOf finds the wall that a raise is about.
func (s *State) wallOf(budget string) (pool string, ok bool) {
	name, shared := sharedPool(budget)
	for _, w := range s.walls() {
		if shared && w.Pool == name {
			return name, true
		}
	}
	return "", false
}

// bounds is what a child of s is held to beside the pools that older releases
// know: what s is, and what s sets.
func (s *State) bounds(plan *Plan) []events.SharedCeiling {
	var out []events.SharedCeiling
	if p := s.Started.Parent; p != nil {
		for _, b := range p.Bounds {
			b.Limit = max(b.Limit, min(s.Raised["pool:"+b.Pool], maxWallTime)*1e6)
			out = append(out, b)
		}
	}
	for _, p := range ownPools(s.RunID, plan.Flow) {
		if p.Unit() == unitSteps {
			out = append(out, sharedCeiling(p))
		}
	}
	if ms := s.Started.WallTimeMs; plan.Flow != nil && ms > 0 && plan.ownBudget().OnExceeded != spec.OnExceededFail {
		since := s.Started.AcceptedAt.UTC()
		out = append(out, events.SharedCeiling{Pool: s.wallPool(), Unit: unitSeconds, OnExceeded: spec.OnExceededPause, Since: &since,
			Limit: max(ms*1000, min(s.Raised[ceilWallTime], maxWallTime)*1e6)})
	}
	return out
}

func (s *State) wallPool() string { return events.FlowPool(s.RunID, ceilWallTime) }

// passOn tells the runs under this one that the wall time of a flow was raised.
func (o *outbox) passOn(r events.Raised) {
	pool, ok := o.s.wallOf(r.Budget)
	if !ok && (o.plan.Flow == nil || r.Budget != ceilWallTime) {
		return
	}
	if !ok {
		pool = o.s.wallPool()
	}
	for _, item := range o.s.openItems() {
		if item.Since > o.f.Seq {
			continue // its start has the new limit
		}
		id := fmt.Sprintf("%s-%d-%s", o.s.RunID, o.f.Seq, item.RunID)
		o.put(events.RunSubject(item.RunID, events.RunRaiseBudget), "command:"+id, events.TypeCommandRun, string(item.RunID),
			events.Command{ID: id, RunID: item.RunID, Principal: r.Principal, Reason: r.Reason, Budget: "pool:" + pool, To: r.To})
	}
}
