package httpapi

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

// IdempotencyKey is the header that makes a repeated command the same command.
type IdempotencyKey struct {
	Key string `header:"Idempotency-Key" maxLength:"200" doc:"the same key is the same command"`
}

type reasonInput struct {
	RunPath
	IdempotencyKey
	Body *struct {
		Reason string `json:"reason,omitempty" maxLength:"1000"`
	}
}

type budgetInput struct {
	RunPath
	IdempotencyKey
	Body struct {
		Budget string `json:"budget" maxLength:"200" doc:"toolCalls, modelCalls, tokens, steps, cost (micro-dollars) or wallTime (seconds) of the run, or pool:<name>"`
		To     int64  `json:"to" minimum:"1" doc:"the new ceiling"`
		Reason string `json:"reason,omitempty" maxLength:"1000"`
	}
}

type signalInput struct {
	RunPath
	IdempotencyKey
	Body struct {
		Name string          `json:"name" pattern:"^[A-Za-z0-9_-]{1,120}$"`
		Key  string          `json:"key,omitempty" doc:"only a wait with this key takes it; any of the name when absent"`
		Data json.RawMessage `json:"data,omitempty" doc:"any JSON value of at most 256 KiB; the result that the model reads"`
	}
}

type commandOutput struct {
	Replayed string `header:"Idempotency-Replayed"`
	Body     struct {
		CommandID string       `json:"command_id"`
		RunID     events.RunID `json:"run_id"`
	}
}

func (a *api) commands() {
	plain := map[string]string{
		events.RunCancel: "Stop a run for good",
		events.RunPause:  "Let a run stand still before its next step",
		events.RunResume: "Let a paused or parked run go on",
	}
	for _, kind := range []string{events.RunCancel, events.RunPause, events.RunResume} {
		door.Register(a.door, command(kind, kind, plain[kind]), authn.Operator,
			func(ctx context.Context, in *reasonInput) (*commandOutput, error) {
				o := console.Order{Kind: kind}
				if in.Body != nil {
					o.Reason = in.Body.Reason
				}
				return a.order(ctx, in.ID, in.Key, o)
			})
	}
	door.Register(a.door, command("budget", events.RunRaiseBudget, "Raise a budget of a run or a shared pool"), authn.Admin,
		func(ctx context.Context, in *budgetInput) (*commandOutput, error) {
			return a.order(ctx, in.ID, in.Key, console.Order{Kind: events.RunRaiseBudget, Budget: in.Body.Budget, To: in.Body.To, Reason: in.Body.Reason})
		})
	door.Register(a.door, command("signal", events.RunSignal, "Hand data to a run that waits for it, or will"), authn.Operator,
		func(ctx context.Context, in *signalInput) (*commandOutput, error) {
			return a.order(ctx, in.ID, in.Key, console.Order{Kind: events.RunSignal, Signal: in.Body.Name, WaitKey: in.Body.Key, Data: in.Body.Data})
		})
}

func command(path, id, summary string) huma.Operation {
	return huma.Operation{
		OperationID: "run-" + id, Method: http.MethodPost, Path: "/v1/runs/{id}/" + path, Summary: summary, Tags: []string{"commands"},
		Description:   "202 means that the command is kept and will reach the runner once; what came of it is in the run's events.",
		DefaultStatus: http.StatusAccepted,
	}
}

func (a *api) order(ctx context.Context, run events.RunID, key string, o console.Order) (*commandOutput, error) {
	if err := o.Check(); err != nil {
		return nil, door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, err.Error())
	}
	p, _ := authn.FromContext(ctx)
	c, replayed, err := a.console.Command(ctx, p.Namespace, p.Name, key, run, o)
	if err != nil {
		return nil, problem(err, "run %s", run)
	}
	return commanded(c, replayed), nil
}

func commanded(c console.Command, replayed bool) *commandOutput {
	out := &commandOutput{}
	out.Body.CommandID, out.Body.RunID = c.ID, c.RunID
	if replayed {
		out.Replayed = "true"
	}
	return out
}
