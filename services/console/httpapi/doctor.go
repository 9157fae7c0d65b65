package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/services/console"
)

// Finding is one thing that is not as it should be.
type Finding struct {
	Severity string     `json:"severity" enum:"problem,warning" doc:"problem: somebody must act; warning: somebody should look"`
	Code     string     `json:"code" doc:"stable: no_worker, parked_runs, doubts, newer_runs, orphans, untaken_starts, unlanded_commands, rejected_messages, paused_runs, stop_in_force, streams_unread, backlog, waiting_for_people"`
	What     string     `json:"what" doc:"one sentence for people"`
	Next     string     `json:"next" doc:"a command, or where to look"`
	Count    int64      `json:"count,omitempty"`
	Since    *time.Time `json:"since,omitempty" doc:"of the oldest"`
}

type doctorOutput struct {
	Body struct {
		Findings []Finding `json:"findings" doc:"problems first; empty: nothing was found"`
		At       time.Time `json:"at"`
	}
}

func (a *api) doctor() {
	door.Register(a.door, huma.Operation{
		OperationID: "get-doctor", Method: http.MethodGet, Path: "/v1/doctor", Summary: "Say what is wrong and what to do about it", Tags: []string{"system"},
		Description: "Looks at the runs, effects, commands and questions of the namespace, at the processes and at the streams. It changes nothing.",
	}, authn.Viewer, func(ctx context.Context, _ *struct{}) (*doctorOutput, error) {
		who, _ := authn.FromContext(ctx)
		found, at, err := a.console.Doctor(ctx, who.Namespace)
		if err != nil {
			return nil, err
		}
		out := &doctorOutput{}
		out.Body.At, out.Body.Findings = at, make([]Finding, 0, len(found))
		for _, f := range found {
			out.Body.Findings = append(out.Body.Findings, wireFinding(f))
		}
		return out, nil
	})
}

func wireFinding(f console.Finding) Finding {
	return Finding{Severity: f.Severity, Code: f.Code, What: f.What, Next: f.Next, Count: f.Count, Since: orNil(f.Since)}
}
