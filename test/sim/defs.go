package sim

import (
	"context"
	"fmt"
	"sync"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/runner"
	"github.com/holdfast-run/holdfast/services/tools"
)

// documents are what the runs of every world execute.
const documents = `
apiVersion: holdfast/v1
kind: Model
metadata: {name: m}
spec: {provider: anthropic, model: x, apiKey: {env: KEY}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: look}
spec: {description: looks, effect: read, input: {type: object}, http: {method: GET, url: "http://h/l"}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: pay}
spec: {description: pays, effect: write, input: {type: object}, http: {method: POST, url: "http://h/p", body: "${args}"}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: refund}
spec: {description: refunds, effect: write, approval: always, approvalValidFor: 3s, approvalExpiresAfter: 5m, input: {type: object}, http: {method: POST, url: "http://h/r", body: "${args}"}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: charge}
spec: {description: charges an order once, effect: write, inDoubt: fail, key: "order/${args.n}", input: {type: object}, http: {method: POST, url: "http://h/c", body: "${args}"}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: note}
spec: {description: notes, effect: idempotent, input: {type: object}, http: {method: POST, url: "http://h/n", body: "${args}"}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: await}
spec: {description: waits, effect: read, input: {type: object}, signal: {name: paid, key: "${args.n}", timeout: 1h}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: delegate}
spec: {builtin: start_run, startRun: {agents: [helper]}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: sleep}
spec: {builtin: sleep_until}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: clerk}
spec: {model: m, instructions: i, tools: [look, pay, refund, charge, note, await, delegate, sleep], budget: {toolCalls: 6, modelCalls: 8}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: helper}
spec: {model: m, instructions: i, tools: [look, pay, charge], budget: {toolCalls: 3, modelCalls: 4}}
---
apiVersion: holdfast/v1
kind: Flow
metadata: {name: round}
spec:
  steps:
    - {name: each, agent: helper, forEach: "${input.items}", limit: 2}
    - {name: last, agent: helper, needs: [each]}
`

// definitions answers what the catalog would. It is the same for every world.
type definitions struct {
	docs  map[events.Digest]*spec.Document
	names map[events.Ref]events.Digest // of refs without a digest
}

var catalog = sync.OnceValue(func() *definitions {
	docs, err := spec.Parse("sim.yaml", []byte(documents))
	if err != nil {
		panic(err)
	}
	d := &definitions{docs: map[events.Digest]*spec.Document{}, names: map[events.Ref]events.Digest{}}
	for i := range docs {
		x := &docs[i]
		d.docs[x.Digest] = x
		d.names[events.Ref{Kind: kindName(x), Name: x.Name}] = x.Digest
	}
	return d
})

func kindName(d *spec.Document) string {
	switch {
	case d.Agent != nil:
		return events.KindAgent
	case d.Flow != nil:
		return events.KindFlow
	case d.Tool != nil:
		return "tool"
	case d.Model != nil:
		return "model"
	}
	return d.Kind
}

func (d *definitions) find(digest events.Digest) (*spec.Document, error) {
	if x := d.docs[digest]; x != nil {
		return x, nil
	}
	return nil, fmt.Errorf("digest %s: %w", digest, runner.ErrDefinition)
}

func (d *definitions) ref(kind, name string) events.Ref {
	return events.Ref{Kind: kind, Name: name, Digest: d.names[events.Ref{Kind: kind, Name: name}]}
}

// planOf reads the plan that a run pinned.
func (d *definitions) planOf(st *runner.State) (*runner.Plan, error) {
	return runner.PlanOf(context.Background(), d, st)
}

// toolPlan is what a tool's definition says about a call.
func (d *definitions) toolPlan(c events.CallTool) tools.Plan {
	x := d.docs[c.ToolDigest]
	if x == nil || x.Tool == nil {
		return tools.Plan{Class: tools.ClassWrite, Key: c.Key, Policy: tools.DoubtAsk, Problem: &events.Problem{Code: tools.CodeUnknownTool, Message: "no such tool"}}
	}
	return tools.MakePlan(x.Tool, c)
}

func (d *definitions) Agent(_ context.Context, _ string, digest events.Digest) (*spec.Agent, error) {
	x, err := d.find(digest)
	if err != nil {
		return nil, err
	}
	return x.Agent, nil
}

func (d *definitions) Flow(_ context.Context, _ string, digest events.Digest) (*spec.Flow, error) {
	x, err := d.find(digest)
	if err != nil {
		return nil, err
	}
	return x.Flow, nil
}

func (d *definitions) Tool(_ context.Context, _ string, digest events.Digest) (*spec.Tool, error) {
	x, err := d.find(digest)
	if err != nil {
		return nil, err
	}
	return x.Tool, nil
}

func (d *definitions) Model(_ context.Context, _ string, digest events.Digest) (*spec.Model, error) {
	x, err := d.find(digest)
	if err != nil {
		return nil, err
	}
	return x.Model, nil
}

func (d *definitions) Budget(_ context.Context, _ string, digest events.Digest) (*spec.Budget, error) {
	x, err := d.find(digest)
	if err != nil {
		return nil, err
	}
	return x.Budget, nil
}

func (d *definitions) CurrentDigest(_ context.Context, _, kind, name string) (events.Digest, error) {
	return d.ref(kind, name).Digest, nil
}

func (d *definitions) CurrentDigests(_ context.Context, _ string, names []events.Ref) ([]events.Digest, error) {
	out := make([]events.Digest, 0, len(names))
	for _, n := range names {
		out = append(out, d.ref(n.Kind, n.Name).Digest)
	}
	return out, nil
}

var _ runner.Definitions = (*definitions)(nil)
