package tools

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// gate says in the plan whether a person's yes is needed, and what it must be bound
// to. A call that carries a yes is held to it, also when none is needed by now; one
// without what a person had to fill in is never made.
func (p *Plan) gate(t *spec.Tool, c events.CallTool, of spec.Asking, facts spec.GateCase) {
	facts.Args, facts.Fork = c.Args, c.Rule == events.RuleFork
	g := t.Gate(of, facts)
	if p.Gated, p.Bind = g.Ask || c.Approval != nil, ""; p.Gated {
		p.Bind = events.BindDigest(c.Tool, c.ToolDigest, c.ArgsDigest, g.Policy)
	}
	if name := t.FormMissing(c.Args); name != "" && c.Rule != events.RuleRecall {
		p.Problem = problem(CodeApprovalMissing, "%s was to be filled in by the person who approves the call, and was not; nothing was done", name)
	}
}

// gate judges the job's call by its tool's definition and by the one that its run
// executes, which the runner's own row names: no message can leave it out.
func (s *Service) gate(ctx context.Context, j *job, st State) error {
	if j.tool == nil || j.plan.Problem != nil || j.c.Tool == events.CallbackTool { // the end of a run is posted, whoever agrees
		return nil
	}
	var of spec.Asking
	if st.Executes.Digest != "" {
		var err error
		switch of, err = s.tools.Asking(ctx, j.c.Namespace, st.Executes); {
		case errors.Is(err, ErrNoDefinition):
			j.plan.Problem = problem(CodeUnknownTool, "no %s with digest %s is stored, so nobody knows who must agree to its calls", st.Executes.Kind, st.Executes.Digest)
			return nil
		case err != nil:
			return fmt.Errorf("find the definition of call %s: %w", j.c.CallID, err)
		}
	}
	facts := spec.GateCase{Now: st.Now}
	if of.Reads(j.tool) {
		var err error
		if facts.Run, err = s.store.RunFacts(ctx, j.c.RunID); err != nil {
			return fmt.Errorf("read run of call %s: %w", j.c.CallID, err)
		}
	}
	j.plan.gate(j.tool, j.c, of, facts)
	return nil
}

// DecideShut says what becomes of the begin d of a call whose yes does not hold: it
// is answered, or the intent that it would have renewed is closed (DoClose). It is
// pure.
func DecideShut(g Gate, p Plan, d Decision) Decision {
	if d.Doubted {
		// An earlier attempt may have happened, so "not done" would be a guess.
		return Decision{Do: DoDoubt, From: d.From, Takeover: d.Takeover, InDoubt: p.openDoubt(), Waited: d.Waited}
	}
	a := Answer{Status: events.CallFailed, Epoch: d.From.Epoch}
	switch g {
	case GateExpired:
		a.Status = events.CallExpired
		a.Error = problem(CodeApprovalExpired, "the approval was no longer valid when the call would have begun; nothing was done, ask again")
	case GateMismatch:
		a.Error = problem(CodeApprovalMismatch, "the approval is for other arguments, another tool version or another policy; nothing was done")
	default:
		a.Error = problem(CodeApprovalMissing, "no approval of this call is recorded; nothing was done")
	}
	if !d.Live {
		return Decision{Do: DoAnswer, Answer: a}
	}
	return Decision{Do: DoClose, From: d.From, Answer: a}
}
