package runner

import (
	"context"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// beginFlowAgain begins a run of a flow that keeps what another one finished.
func (s *Service) beginFlowAgain(ctx context.Context, namespace string, d *decision, o events.ForkRun, p Past, started events.RunStarted) (*Plan, error) {
	if !o.Retry {
		return nil, forkf("run %s is a flow's, which has no turns; it can be retried, and the runs of its steps can be forked", o.From)
	}
	if started.Steps == nil {
		return nil, forkf("run %s failed before it began; start the flow again", o.From)
	}
	plan, err := s.planOf(ctx, namespace, started)
	if err != nil {
		return nil, err
	}
	return plan, d.retryFlow(o, p, started, plan)
}

// retryFlow adds the first rows of a run that retries one of the same flow: the
// same versions and input, and what was finished. It is pure.
func (d *decision) retryFlow(o events.ForkRun, p Past, started events.RunStarted, plan *Plan) error {
	old := NewState(o.From, p.Namespace)
	for _, f := range p.Rows {
		if err := old.Apply(f); err != nil {
			return forkf("row %d of run %s cannot be read: %v", f.Seq, o.From, err)
		}
	}
	kept := keptItems(old, plan.Flow)
	if err := old.actedAgain(kept, p.Ledger, plan); err != nil {
		return err
	}
	first := startedFrom(started, o, 1)
	first.Deadline = deadlineAgain(started.Deadline, plan, o.AcceptedAt)
	if err := d.add(events.FactStarted, first, true); err != nil {
		return err
	}
	if err := d.add(events.FactForked, events.Forked{CommandID: o.ID, From: o.From, At: 1, Retry: true, Principal: o.Principal, Reason: o.Reason}, false); err != nil {
		return err
	}
	for _, k := range kept {
		if err := d.add(events.FactItemsKept, k, false); err != nil {
			return err
		}
	}
	return nil
}

// actedAgain refuses a retry that would make a call again which may have happened
// and which no key of its tool keeps from happening twice.
func (s *State) actedAgain(kept []events.ItemsKept, ledger []LedgerCall, plan *Plan) error {
	type item struct {
		step  string
		index int
	}
	done := map[item]bool{}
	for _, k := range kept {
		for _, it := range k.Items {
			done[item{k.Step, it.Index}] = true
		}
	}
	for id, c := range s.Calls {
		s.DoneCalls.put(id, c) // the state is read once and forgotten
	}
	known := map[events.CallID]LedgerCall{}
	for _, l := range ledger {
		known[l.CallID] = l
	}
	for id, c := range s.DoneCalls.everything() {
		tool := plan.Tools[c.Tool]
		if c.Step == nil || c.onlyAsks() || tool == nil || tool.Effect != spec.EffectWrite || tool.Key != nil || done[item{c.Step.Step, c.Step.Index}] {
			continue
		}
		l, begun := known[id]
		surelyNot := c.Route == events.RouteAnswer || !begun && (c.State == callAsked || c.Done != nil && c.Done.Status != events.CallUnknown && c.Done.Status != events.CallSucceeded) ||
			begun && (l.Status == events.CallFailed || l.Status == events.CallRevoked || l.Status == events.CallExpired || l.Status == events.CallMismatch)
		if !surelyNot {
			return forkf("item %d of step %s would call %s again, and call %s happened or may have. "+
				"Give the tool a key, or start the flow again with what is left to do", c.Step.Index, c.Step.Step, c.Tool, id)
		}
	}
	return nil
}
