package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
	"github.com/holdfast-run/holdfast/web"
)

// Overview is what runs, what is stuck, what waits for a person, what was
// changed and what it cost.
type Overview struct {
	At    time.Time `json:"at"`
	Since time.Time `json:"since" doc:"the beginning of the day, UTC, from which the last two answers count"`

	Running  int `json:"running" doc:"runs"`
	Asking   int `json:"asking" doc:"of the running ones, those that ask a model right now"`
	Queued   int `json:"queued"`
	Waiting  int `json:"waiting" doc:"for a call, a person, a time, a signal or a child"`
	Stopping int `json:"stopping"`

	Stuck  int `json:"stuck" doc:"runs that do not go on by themselves: parked and paused ones"`
	Parked int `json:"parked" doc:"status needs_attention"`
	Paused int `json:"paused"`

	Approvals  int        `json:"approvals" doc:"requests that wait for a person"`
	NextExpiry *time.Time `json:"next_expiry,omitempty" doc:"of the first of them"`

	Changed  int `json:"changed" doc:"effects that happened since"`
	UnderWay int `json:"under_way" doc:"effects that began since and have no outcome"`
	Failed   int `json:"failed" doc:"effects that did not happen, since"`
	InDoubt  int `json:"in_doubt" doc:"effects of any day of which nobody knows whether they happened"`

	Runs         int   `json:"runs" doc:"that were accepted since"`
	CostMicroUSD int64 `json:"cost_micro_usd" doc:"that model calls cost since, of whatever run"`
}

type overviewOutput struct{ Body Overview }

func (a *api) overview() {
	door.Register(a.door, huma.Operation{
		OperationID: "get-overview", Method: http.MethodGet, Path: "/v1/overview", Summary: "Say what runs, what is stuck, what waits for a person, what changed and what it cost", Tags: []string{"system"},
		Description: "The numbers that the console's pages show, counted at most once a second by each process.",
	}, authn.Viewer, func(ctx context.Context, _ *struct{}) (*overviewOutput, error) {
		who, _ := authn.FromContext(ctx)
		now := time.Now().UTC()
		found, err := a.console.Answers(ctx, who.Namespace, console.Today(now), time.Time{})
		if err != nil {
			return nil, err
		}
		return &overviewOutput{Overview{
			At: now, Since: found.Since,
			Running: found.Open[events.StatusRunning], Asking: found.Asking, Queued: found.Open[events.StatusQueued],
			Waiting: found.Open[events.StatusWaiting], Stopping: found.Open[events.StatusCancelling],
			Stuck: found.Stuck(), Parked: found.Open[events.StatusAttention], Paused: found.Open[events.StatusPaused],
			Approvals: found.Approvals, NextExpiry: orNil(found.NextExpiry),
			Changed: found.Effects["succeeded"], UnderWay: found.Effects["intent"], Failed: found.Effects["failed"], InDoubt: found.Doubts,
			Runs: found.Runs, CostMicroUSD: found.Cost,
		}}, nil
	})
}

// countsOf are the numbers beside the entries of the menu.
func countsOf(a console.Answers) []web.Count {
	return web.Numbers{Running: a.Open[events.StatusRunning], Approvals: a.Approvals, Doubts: a.Doubts, Stops: a.Stops}.Counts()
}
