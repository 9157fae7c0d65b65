package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/holdfast-run/holdfast/internal/bench"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// BenchRunnerCmd is "serve runner" with a script instead of the adapters of models.
type BenchRunnerCmd struct {
	DatabaseSettings
	NatsSettings
	ProcessSettings
	ServiceSettings

	HealthListen string `group:"http" required:"" help:"Where /ready listens."`
}

// Run implements the command.
func (c *BenchRunnerCmd) Run(ctx context.Context) error {
	serve := ServeCmd{
		Services: []string{"runner"}, DatabaseSettings: c.DatabaseSettings, NatsSettings: c.NatsSettings, ProcessSettings: c.ProcessSettings,
		ServiceSettings: c.ServiceSettings, HealthListen: c.HealthListen, model: scriptedModel{},
	}
	return serve.Run(ctx)
}

// scriptedModel answers by bench.Script, at once.
type scriptedModel struct{}

var _ runner.Model = scriptedModel{}

// Answer implements runner.Model.
func (scriptedModel) Answer(_ context.Context, r runner.Request) (runner.Answer, error) {
	var tools []string
	for _, t := range r.Tools {
		tools = append(tools, t.Name)
	}
	answers, first := 0, ""
	for i, e := range r.Entries {
		if i == 0 {
			first = e.User
		}
		if e.Assistant != "" {
			answers++
		}
	}
	said := bench.Script(tools, answers, first)
	a := runner.Answer{Model: r.Model.Model, StopReason: "end_turn", Text: said.Text, Usage: events.Usage{InputTokens: 400 + 100*int64(answers), OutputTokens: 40}}
	if said.Tool == "" {
		a.Raw = fmt.Sprintf(`{"role":"assistant","content":[{"type":"text","text":%q}],"stop_reason":"end_turn"}`, said.Text)
		return a, nil
	}
	id := fmt.Sprintf("toolu_%s_%d", r.RunID, answers)
	a.StopReason, a.Calls = "tool_use", []runner.ModelCall{{ProviderID: id, Tool: said.Tool, Args: json.RawMessage(said.Args)}}
	a.Raw = fmt.Sprintf(`{"role":"assistant","content":[{"type":"text","text":%q},{"type":"tool_use","id":%q,"name":%q,"input":%s}],"stop_reason":"tool_use"}`, said.Text, id, said.Tool, said.Args)
	return a, nil
}
