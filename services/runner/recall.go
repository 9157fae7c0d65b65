package runner

import (
	"cmp"
	"encoding/json"
	"iter"
	"slices"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// effects lists the calls that changed something or may have: from the rows as far
// as they can be read, and from the ledger, which knows better. A call that
// surely did not happen is not in it.
func (p Past) effects(plan *Plan) []events.PastEffect {
	known := map[events.CallID]*events.PastEffect{}
	sent := map[events.CallID]bool{}
	gone := map[events.CallID]bool{}
	route := func(run events.RunID, calls []events.AskedCall) {
		for _, c := range calls {
			if c.Args == nil || c.Rule == events.RuleRecall || !mayChange(plan, c.Tool) || c.Builtin != "" {
				continue
			}
			known[c.CallID] = &events.PastEffect{CallID: c.CallID, Row: c.CallID.Row(), Tool: c.Tool, ArgsDigest: c.ArgsDigest, Key: callKey(run, c), State: "open"}
			sent[c.CallID] = sent[c.CallID] || c.Route == events.RouteSend
		}
	}
	for _, f := range p.Rows {
		switch f.Kind {
		case events.FactModelAnswered:
			if a, ok := read[events.ModelAnswered](f); ok && len(a.Calls) > 0 {
				run, _ := a.Calls[0].CallID.Run()
				route(run, a.Calls)
			}
		case events.FactResumed, events.FactBudgetRaised:
			if r, ok := read[events.Resumed](f); ok && len(r.Release) > 0 {
				run, _ := r.Release[0].CallID.Run()
				route(run, r.Release)
			}
		case events.FactApprovalDecided:
			if a, ok := read[events.ApprovalDecision](f); ok && a.Kind == events.ApprovalAction && a.Decision == events.Approve {
				sent[a.CallID] = true
				if e := known[a.CallID]; e != nil && a.Args != nil {
					e.ArgsDigest = events.DigestOf(a.Args)
				}
			}
		case events.FactToolCompleted:
			t, ok := read[events.ToolCompleted](f)
			if e := known[t.CallID]; ok && e != nil {
				e.State = t.Status
				gone[t.CallID] = t.Status != events.CallSucceeded && t.Status != events.CallUnknown
			}
		}
	}
	for _, l := range p.Ledger {
		if !mayChange(plan, l.Tool) {
			continue
		}
		sent[l.CallID] = true
		e := known[l.CallID]
		if e == nil {
			e = &events.PastEffect{CallID: l.CallID, Row: l.CallID.Row(), Tool: l.Tool, ArgsDigest: l.ArgsDigest, Key: l.Key, State: "open"}
			known[l.CallID] = e
		}
		switch {
		case l.Effect == events.CallSucceeded || l.Effect == events.CallUnknown:
			e.State, gone[l.CallID] = l.Effect, false
		case l.Effect == "intent":
			e.State, gone[l.CallID] = "open", false
		default: // it failed, was taken back, or was never begun
			gone[l.CallID] = l.Status != "open"
		}
	}
	var out []events.PastEffect
	for id, e := range known {
		if sent[id] && !gone[id] {
			out = append(out, *e)
		}
	}
	slices.SortFunc(out, func(a, b events.PastEffect) int {
		return cmp.Or(cmp.Compare(a.Row, b.Row), cmp.Compare(a.CallID, b.CallID))
	})
	return out
}

// mayChange is changes for a tool that another version of the agent had.
func mayChange(plan *Plan, tool string) bool {
	t, ok := plan.Tools[tool]
	return !ok || changes(t)
}

// read decodes a row that may be damaged.
func read[T any](f Fact) (body T, ok bool) {
	return body, json.Unmarshal(f.Data, &body) == nil
}

// recall marks the calls of an answer that stand for one which the run that this
// one comes from has made: same tool, same arguments. Each of those behind the
// taken row stands for one call, in their order: that is the work which would be
// done again. In a fork any further equal call stands for the newest of them, also
// for one in the history; a retry goes on like the run itself and may mean it.
func (s *State) recall(plan *Plan, calls []events.AskedCall) {
	if s.Fork == nil {
		return
	}
	used := map[events.CallID]bool{}
	for c := range s.recalling() {
		used[c.Recalls.CallID] = true
	}
	for i := range calls {
		c := &calls[i]
		if c.Route != events.RouteSend || !changes(plan.Tools[c.Tool]) || plan.Tools[c.Tool].AnsweredByRunner() != nil {
			continue
		}
		e := s.stoodFor(*c, used)
		if e == nil {
			continue
		}
		used[e.CallID] = true
		c.Rule, c.Recalls = events.RuleRecall, &events.Recalled{CallID: e.CallID, Key: e.Key}
	}
}

func (s *State) stoodFor(c events.AskedCall, used map[events.CallID]bool) *events.PastEffect {
	var newest *events.PastEffect
	for i := range s.Fork.Effects {
		e := &s.Fork.Effects[i]
		if e.Tool != c.Tool || e.ArgsDigest != c.ArgsDigest || s.emptyHanded(e.CallID) {
			continue
		}
		if _, history := s.call(e.CallID); !history && !used[e.CallID] {
			return e
		}
		newest = e
	}
	if !s.Guarded {
		return nil
	}
	return newest
}

// emptyHanded reports whether a call stood for that one and the ledger had nothing
// to answer it with: it did not happen, and may be made.
func (s *State) emptyHanded(id events.CallID) bool {
	for asked := range s.recalling() {
		if asked.Recalls.CallID != id {
			continue
		}
		if c, _ := s.call(asked.CallID); c != nil && c.Done != nil && c.Done.Error != nil && c.Done.Error.Code == events.CodeNothingToRecall {
			return true
		}
	}
	return false
}

// recalling lists the calls that stand for another one.
func (s *State) recalling() iter.Seq[events.AskedCall] {
	return func(yield func(events.AskedCall) bool) {
		for _, t := range s.Turns {
			for _, c := range t.Answer.Calls {
				if c.Recalls != nil && !yield(c) {
					return
				}
			}
		}
	}
}
