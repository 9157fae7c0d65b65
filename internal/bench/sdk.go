package bench

import (
	"context"
	"encoding/json"

	"github.com/holdfast-run/holdfast/internal/scriptmodel"
)

// sdkWorkload is turns with the adapter and the official SDK of a provider between.
var sdkWorkload = Workload{
	Name: "sdk", Unit: "turns", Levels: []int{1, 64, 512},
	Doc:      "Turns again, and the model is asked over HTTP through the provider's official SDK.",
	Stages:   turnStages,
	services: []string{"runner", "trigger", "tools"},
	run:      func(ctx context.Context, l *lab) error { return l.turns(ctx, turnsHook) },
}

// modelServer answers as the provider does, from Script.
func modelServer() *scriptmodel.Server {
	return scriptmodel.New(scriptmodel.Config{Alone: true, Script: func(r scriptmodel.Request) (scriptmodel.Answer, error) {
		var tools []string
		for _, t := range r.Tools {
			tools = append(tools, t.Name)
		}
		said := Script(tools, r.Turn(), r.FirstText())
		a := scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Text(said.Text)}}
		if said.Tool != "" {
			a.Parts = append(a.Parts, scriptmodel.Call(said.Tool, json.RawMessage(said.Args)))
		}
		return a, nil
	}})
}
