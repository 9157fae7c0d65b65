package spec

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// GateVariables is what an approval condition may read: the arguments of the call,
// its run (RunFacts), the run's ceilings with what is used and left of them, the
// time as RFC 3339 text, and name and effect of the tool.
var GateVariables = []string{"args", "run", "budget", "time", "tool"}

// Asking is a definition whose runs ask people: how, and the ceilings that
// conditions may read.
type Asking struct {
	Approvals *Approvals
	Budget    *AgentBudget // nil for a flow
}

// Asking is what the agent says about asking people.
func (a *Agent) Asking() Asking { return Asking{Approvals: a.Approvals, Budget: &a.Budget} }

// Asking is what the flow says about asking people.
func (f *Flow) Asking() Asking { return Asking{Approvals: f.Approvals} }

// GateCase is one call that a person may have to agree to.
type GateCase struct {
	Args json.RawMessage
	// Run is nil when the run is not known: a condition that reads of it asks.
	Run *RunFacts
	Now time.Time
	// Fork says that a person is asked because the call repeats what another run did.
	Fork bool
}

// Gate is what is asked about a call.
type Gate struct {
	Ask bool
	// Policy is what is in force as text (for events.BindDigest).
	Policy string
	Rule   *events.DecisionRule // nil: every approver may decide
}

// Gate reports whether a person must agree to a call of the tool in a run of a
// definition, and who may. The stricter of both wins: it is asked if one of them
// asks, and both rules must hold. A condition that cannot be decided asks, and so does an
// argument that only a person may fill in.
func (t *Tool) Gate(of Asking, c GateCase) Gate {
	vars := sync.OnceValue(func() map[string]json.RawMessage { return t.gateValues(of, c) })
	g := Gate{Ask: c.Fork || len(t.filled(c.Args)) > 0 || t.Approval.asks(vars), Policy: of.PolicyText(t, c.Fork), Rule: of.RuleFor(t)}
	if policy := of.policyFor(t); policy != nil {
		g.Ask = g.Ask || policy.asks(vars)
	}
	return g
}

// PolicyText is what a yes to a call of the tool is bound to beside its arguments;
// fork as in GateCase.
func (of Asking) PolicyText(t *Tool, fork bool) string {
	text := t.Approval.String()
	if policy := of.policyFor(t); policy != nil {
		text += "; run's " + strconv.Quote(policy.String())
	}
	switch {
	case !fork:
		return text
	case of.RuleFor(t) == nil:
		return events.RuleFork
	}
	return events.RuleFork + "; " + text
}

// RuleFor says who may decide what is asked about a call of the tool; nil: every
// approver.
func (of Asking) RuleFor(t *Tool) *events.DecisionRule {
	rules := []*Rule{t.Approval.Rule}
	if policy := of.policyFor(t); policy != nil {
		rules = append(rules, policy.Rule)
	}
	out := mergeRules(rules...)
	if out != nil && out.Form != nil {
		_, properties, _ := t.inputMembers()
		out.Form = t.form().events(properties)
	}
	return out
}

// Policy is the definition's own policy; nil for none.
func (of Asking) Policy() *Approval {
	if of.Approvals == nil {
		return nil
	}
	return of.Approvals.Policy
}

// Rule says who may decide what the definition itself asks; nil: every approver.
func (of Asking) Rule() *events.DecisionRule {
	if p := of.Policy(); p != nil {
		return mergeRules(p.Rule)
	}
	return nil
}

// Reads reports whether a condition about the tool looks at its run.
func (of Asking) Reads(t *Tool) bool {
	policy := of.policyFor(t)
	return t.Approval.When != nil || policy != nil && policy.When != nil
}

// policyFor is the definition's policy for a tool whose calls can wait for a person.
func (of Asking) policyFor(t *Tool) *Approval {
	if t.Signal != nil {
		return nil
	}
	if own := t.AnsweredByRunner(); own != nil && !own.Gate {
		return nil
	}
	return of.Policy()
}

// asks decides the policy alone.
func (a *Approval) asks(vars func() map[string]json.RawMessage) bool {
	switch a.Mode {
	case ApprovalNever:
		return false
	case ApprovalWhen:
		ask, err := a.When.Eval(vars())
		return ask || err != nil
	}
	return true
}

// gateValues is what conditions read. What is not known is absent.
func (t *Tool) gateValues(of Asking, c GateCase) map[string]json.RawMessage {
	vars := map[string]json.RawMessage{"args": c.Args}
	if tool, err := events.Marshal(map[string]string{"name": t.Name, "effect": t.Effect}); err == nil {
		vars["tool"] = tool
	}
	if !c.Now.IsZero() {
		vars["time"] = quote(c.Now.UTC().Truncate(time.Second).Format(time.RFC3339))
	}
	if c.Run == nil {
		return vars
	}
	if run, err := c.Run.JSON(); err == nil {
		vars["run"] = run
	}
	if of.Budget != nil {
		vars["budget"] = of.Budget.facts(*c.Run)
	}
	return vars
}

// facts is what conditions read as budget: of each ceiling of the definition its
// limit, what is used and what is left; cost is in micro-dollars. A raise for one run
// does not change it.
func (b AgentBudget) facts(r RunFacts) json.RawMessage {
	type ceiling struct {
		Limit int64 `json:"limit"`
		Used  int64 `json:"used"`
		Left  int64 `json:"left"`
	}
	all := map[string]ceiling{}
	add := func(name string, limit, used int64) {
		if limit > 0 {
			all[name] = ceiling{limit, used, max(limit-used, 0)}
		}
	}
	add("modelCalls", b.ModelCalls, r.ModelCalls)
	add("toolCalls", b.ToolCalls, r.ToolCalls)
	add("tokens", b.Tokens, r.Tokens)
	add("cost", int64(b.Cost), r.Cost)
	raw, err := events.Marshal(all)
	if err != nil {
		panic(fmt.Sprintf("encode a budget: %v", err)) // numbers always encode
	}
	return raw
}
