package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/console"
)

// CodeTooMany says that more runs fit than the request allows.
const CodeTooMany = "too_many_runs"

type bulkInput struct {
	Key  string `header:"Idempotency-Key" maxLength:"120" doc:"a repeat with the same key commands no run twice"`
	Body struct {
		Command string `json:"command" enum:"cancel,pause,resume,retry,migrate,delete" doc:"delete: of runs that have ended and that no run started, with all that are below them; migrate: to what the agent's name means now; of runs of agents only"`
		Where   string `json:"where" minLength:"1" maxLength:"4096" doc:"CEL over status, kind, name, agent, flow, labels, waiting, error, principal, trigger, parent, model_calls, tool_calls, tokens, attempts, id, cost (micro-dollars), age and idle (seconds)"`
		Reason  string `json:"reason,omitempty" maxLength:"1000"`
		Max     int    `json:"max,omitempty" minimum:"1" maximum:"10000" doc:"when more runs fit, nothing is sent; default 1000"`
		DryRun  bool   `json:"dry_run,omitempty" doc:"only say which runs fit"`
	}
}

// BulkRun is one run that fitted.
type BulkRun struct {
	RunID     events.RunID `json:"run_id"`
	Kind      string       `json:"kind"`
	Name      string       `json:"name"`
	Status    string       `json:"status"`
	Waiting   string       `json:"waiting,omitempty"`
	CommandID string       `json:"command_id,omitempty" doc:"absent in a dry run, and when the run ended meanwhile"`
	Retry     events.RunID `json:"retry,omitempty" doc:"of the command retry: the run that goes on"`
	Replayed  bool         `json:"replayed,omitempty" doc:"an earlier request with the same key had commanded it"`
}

type bulkOutput struct {
	Body struct {
		Command string    `json:"command"`
		DryRun  bool      `json:"dry_run"`
		Runs    []BulkRun `json:"runs"`
		Unclear int       `json:"unclear,omitempty" doc:"runs for which the condition is an error; they get no command"`
		Problem string    `json:"problem,omitempty" doc:"the first of those errors"`
	}
}

func (a *api) bulk() {
	door.Register(a.door, huma.Operation{
		OperationID: "runs-command", Method: http.MethodPost, Path: "/v1/runs/commands", Tags: []string{"commands"},
		Summary:     "Cancel, pause, resume or migrate every open run that fits a condition, retry every failed one, or delete ended ones",
		Description: "The runs that have not ended, for retry those that ended without success, are read once. 200 means that the commands are kept and that each will reach the runner once.",
	}, authn.Operator, func(ctx context.Context, in *bulkInput) (*bulkOutput, error) {
		b := console.Bulk{Order: console.Order{Kind: in.Body.Command, Reason: in.Body.Reason}, Key: in.Key, Max: in.Body.Max, DryRun: in.Body.DryRun}
		where, err := spec.NewCondition(in.Body.Where, console.BulkVariables...)
		if err != nil {
			p := door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, "where: "+strings.TrimSpace(err.Error()))
			return nil, p.At("body.where", "is not a condition over runs")
		}
		if b.Where = where; b.Key == "" {
			b.Key = string(events.NewRunID())
		}
		p, _ := authn.FromContext(ctx)
		done, err := a.console.Bulk(ctx, p.Namespace, p.Name, b)
		if many, ok := errors.AsType[*console.TooManyError](err); ok {
			return nil, door.Error(http.StatusConflict, CodeTooMany, many.Error())
		}
		if err != nil {
			return nil, problem(err, "runs")
		}
		out := &bulkOutput{}
		out.Body.Command, out.Body.DryRun, out.Body.Unclear, out.Body.Problem = b.Kind, b.DryRun, done.Unclear, done.Problem
		out.Body.Runs = make([]BulkRun, 0, len(done.Runs))
		for _, r := range done.Runs {
			out.Body.Runs = append(out.Body.Runs, BulkRun{RunID: r.ID, Kind: r.Kind, Name: r.Name, Status: r.Status, Waiting: r.Waiting, CommandID: r.Command, Retry: r.Retry, Replayed: r.Replayed})
		}
		return out, nil
	})
}
