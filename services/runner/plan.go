package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Kinds of definition besides agent and flow, as the catalog names them.
const (
	kindTool   = "tool"
	kindModel  = "model"
	kindBudget = "budget"
)

// Pin resolves every name that a start needs to a digest and writes it into the
// first row. It reads definitions and nothing else.
func Pin(ctx context.Context, defs Definitions, namespace string, start *Start) (*Plan, error) {
	return (&Service{defs: defs}).pin(ctx, namespace, start)
}

// PlanOf reads the definitions that a run pinned.
func PlanOf(ctx context.Context, defs Definitions, st *State) (*Plan, error) {
	return (&Service{defs: defs}).plan(ctx, st)
}

// pin resolves every name that a start needs to a digest and writes it into
// the first row. A definition that is gone is recorded as the run's failure:
// the start was accepted. Any other error is worth a retry.
func (s *Service) pin(ctx context.Context, namespace string, start *Start) (*Plan, error) {
	body := &start.Body
	broken := func(err error) (*Plan, error) {
		if !isMissing(err) {
			return nil, err
		}
		start.Broken = &events.Problem{Code: "definition", Message: err.Error()}
		return &Plan{Flow: &spec.Flow{}, Agent: &spec.Agent{}}, nil
	}
	if body.Ref.Kind == events.KindFlow {
		flow, err := s.defs.Flow(ctx, namespace, body.Ref.Digest)
		if err != nil {
			return broken(err)
		}
		plan, err := s.pinSteps(ctx, namespace, flow, body)
		if err != nil {
			return broken(err)
		}
		if flow.Budget != nil {
			body.WallTimeMs = flow.Budget.WallTime.Std().Milliseconds()
		}
		return plan, nil
	}
	agent, err := s.defs.Agent(ctx, namespace, body.Ref.Digest)
	if err != nil {
		return broken(err)
	}
	names := []events.Ref{{Kind: kindModel, Name: agent.Model}}
	for _, name := range agent.Tools {
		names = append(names, events.Ref{Kind: kindTool, Name: name})
	}
	for _, name := range agent.Budget.Pools {
		names = append(names, events.Ref{Kind: kindBudget, Name: name})
	}
	refs, err := s.resolveAll(ctx, namespace, names)
	if err != nil {
		return broken(err)
	}
	body.Model = &refs[0]
	if body.Fallbacks, err = s.pinFallbacks(ctx, namespace, refs[0]); err != nil {
		return broken(err)
	}
	tooled := 1 + len(agent.Tools)
	body.Tools, body.Pools = append(body.Tools, refs[1:tooled]...), append(body.Pools, refs[tooled:]...)
	plan, err := s.planOf(ctx, namespace, *body)
	if err == nil {
		err = s.pinStarts(ctx, namespace, plan, body)
	}
	if err != nil {
		return broken(err)
	}
	body.WallTimeMs = agent.Budget.WallTime.Std().Milliseconds()
	if agent.Output != nil {
		body.Wording = spec.OutputWording()
	}
	if start.Broken == nil {
		start.Broken = plan.unpriced()
	}
	tools := make([]*spec.Tool, 0, len(body.Tools))
	for _, ref := range body.Tools {
		tools = append(tools, plan.Tools[ref.Name])
	}
	body.Policies = spec.PoliciesDigest(tools)
	return plan, nil
}

func (s *Service) resolve(ctx context.Context, namespace, kind, name string) (events.Ref, error) {
	digest, err := s.defs.CurrentDigest(ctx, namespace, kind, name)
	if err != nil {
		return events.Ref{}, fmt.Errorf("%s %s: %w", kind, name, err)
	}
	return events.Ref{Kind: kind, Name: name, Digest: digest}, nil
}

// resolveAll is resolve for many names in one look.
func (s *Service) resolveAll(ctx context.Context, namespace string, names []events.Ref) ([]events.Ref, error) {
	digests, err := s.defs.CurrentDigests(ctx, namespace, names)
	if err != nil {
		return nil, err
	}
	for i, d := range digests {
		if d == "" {
			return nil, fmt.Errorf("%s %s: there is none in namespace %s: %w", names[i].Kind, names[i].Name, namespace, ErrDefinition)
		}
		names[i].Digest = d
	}
	return names, nil
}

// plan loads the definitions that a run pinned.
func (s *Service) plan(ctx context.Context, st *State) (*Plan, error) {
	if st.End != "" && st.Started.Model == nil && st.Started.Steps == nil { // it failed at the start
		return &Plan{Flow: &spec.Flow{}, Agent: &spec.Agent{}}, nil
	}
	p, err := s.planOf(ctx, st.Namespace, st.Started)
	if err != nil {
		return nil, err
	}
	p.Pools = append(p.Pools, ownPools(st.RunID, p.Flow)...)
	return p, s.loadNext(ctx, st, p)
}

func (s *Service) planOf(ctx context.Context, namespace string, started events.RunStarted) (*Plan, error) {
	var err error
	p := &Plan{Tools: map[string]*spec.Tool{}}
	if started.Ref.Kind == events.KindFlow {
		if p.Flow, err = s.defs.Flow(ctx, namespace, started.Ref.Digest); err != nil {
			return nil, err
		}
		p.Pools = sharedPools(started.Parent)
		return p, s.loadTools(ctx, namespace, started, p)
	}
	if p.Agent, err = s.defs.Agent(ctx, namespace, started.Ref.Digest); err != nil {
		return nil, err
	}
	if p.Model, err = s.defs.Model(ctx, namespace, started.Model.Digest); err != nil {
		return nil, err
	}
	for _, ref := range started.Fallbacks {
		m, err := s.defs.Model(ctx, namespace, ref.Digest)
		if err != nil {
			return nil, err
		}
		p.Fallbacks = append(p.Fallbacks, NamedModel{Name: ref.Name, Model: m})
	}
	p.ModelName = started.Model.Name
	if err := s.loadTools(ctx, namespace, started, p); err != nil {
		return nil, err
	}
	for _, ref := range started.Pools {
		b, err := s.defs.Budget(ctx, namespace, ref.Digest)
		if err != nil {
			return nil, err
		}
		p.Pools = append(p.Pools, Pool{Name: ref.Name, Budget: b})
	}
	p.Pools = append(p.Pools, sharedPools(started.Parent)...)
	return p, s.loadStarts(ctx, namespace, started, p)
}

func isMissing(err error) bool { return errors.Is(err, ErrDefinition) }

func maxTokens(plan *Plan, model *spec.Model) int64 {
	if plan.Agent.MaxTokens > 0 {
		return plan.Agent.MaxTokens
	}
	return model.MaxTokens
}

// request builds the next model call of a run from its journal.
func (s *Service) request(st *State, plan *Plan, c claimed) (Request, error) {
	return NextRequest(st, plan, c.Epoch)
}

// system is the system prompt: frozen for the run, but for a fork's edit.
func (s *State) system(plan *Plan) (string, error) {
	text, o := cmp.Or(s.System, plan.Agent.Instructions), plan.Agent.Output
	if o == nil {
		return text, nil
	}
	rule, err := o.Rule(s.Started.Wording)
	return text + "\n\n" + rule, err
}

// NextRequest is the model call that a run owes, built from its journal alone.
func NextRequest(st *State, plan *Plan, epoch int64) (Request, error) {
	first, err := st.firstMessage(plan)
	if err != nil {
		return Request{}, err
	}
	entries, err := st.entries(first)
	if err != nil {
		return Request{}, err
	}
	system, err := st.system(plan)
	if err != nil {
		return Request{}, err
	}
	model := plan.answering(st).Model
	r := Request{Summary: st.Compacting != nil, RunID: st.RunID, Seq: st.Seq, Epoch: epoch, Model: model, System: system, Entries: entries, Messages: st.readable(), MaxTokens: maxTokens(plan, model)}
	for _, ref := range st.Started.Tools {
		r.Tools = append(r.Tools, NamedTool{Name: ref.Name, Tool: plan.Tools[ref.Name]})
	}
	return r, nil
}
