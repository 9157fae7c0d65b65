package runner

import (
	"context"
	"fmt"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// pinSteps resolves what each step starts or calls and writes it into the first
// row, in step order; tools stand in Tools as well.
func (s *Service) pinSteps(ctx context.Context, namespace string, flow *spec.Flow, body *events.RunStarted) (*Plan, error) {
	plan := &Plan{Flow: flow, Tools: map[string]*spec.Tool{}}
	var tools []*spec.Tool
	for i := range flow.Steps {
		step := &flow.Steps[i]
		ref := events.Ref{Kind: step.Kind(), Name: step.Name} // an approval or a sleep starts nothing
		if name := step.Starts(); name != "" {
			var err error
			if ref, err = s.resolve(ctx, namespace, step.Kind(), name); err != nil {
				return nil, fmt.Errorf("step %s: %w", step.Name, err)
			}
		}
		body.Steps = append(body.Steps, ref)
		if ref.Kind != kindTool || plan.Tools[ref.Name] != nil {
			continue
		}
		tool, err := s.defs.Tool(ctx, namespace, ref.Digest)
		if err != nil {
			return nil, fmt.Errorf("step %s: %w", step.Name, err)
		}
		if tool.AnsweredByRunner() != nil || tool.Signal != nil {
			return nil, fmt.Errorf("step %s: tool %s is answered where a model's run is, so a flow's step cannot call it: %w", step.Name, ref.Name, ErrDefinition)
		}
		body.Tools, tools = append(body.Tools, ref), append(tools, tool)
		plan.Tools[ref.Name] = tool
	}
	body.Policies = events.DigestOf(nil)
	if len(tools) > 0 {
		body.Policies = spec.PoliciesDigest(tools)
	}
	return plan, nil
}

func (s *Service) loadTools(ctx context.Context, namespace string, started events.RunStarted, p *Plan) (err error) {
	for _, ref := range started.Tools {
		if p.Tools[ref.Name], err = s.defs.Tool(ctx, namespace, ref.Digest); err != nil {
			return err
		}
	}
	return nil
}
