package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
)

// Budget is what one window of a shared budget has used.
type Budget struct {
	Name     string        `json:"name"`
	Window   string        `json:"window" doc:"first day of the window; all without one"`
	Unit     string        `json:"unit" enum:"tokens,micro_usd,modelCalls,toolCalls"`
	Limit    int64         `json:"limit"`
	Used     int64         `json:"used" doc:"settled"`
	Reserved int64         `json:"reserved" doc:"booked by calls in flight"`
	Alerts   []BudgetAlert `json:"alerts,omitempty" doc:"thresholds that were passed"`
}

// BudgetAlert is a threshold that was passed.
type BudgetAlert struct {
	Percent int       `json:"percent"`
	Limit   int64     `json:"limit" doc:"at that time"`
	At      time.Time `json:"at"`
}

type budgetsInput struct {
	Name string `query:"name" maxLength:"200" doc:"every window of this budget, the newest first; without it the newest of each"`
}

type budgetsOutput struct {
	Body struct {
		Items []Budget `json:"items" doc:"by name, at most 500; a budget is here once a run has drawn on it"`
	}
}

func (a *api) budgets() {
	door.Register(a.door, huma.Operation{
		OperationID: "list-budgets", Method: http.MethodGet, Path: "/v1/budgets", Summary: "List what shared budgets have used", Tags: []string{"system"},
	}, authn.Viewer, func(ctx context.Context, in *budgetsInput) (*budgetsOutput, error) {
		who, _ := authn.FromContext(ctx)
		found, err := a.console.Pools(ctx, who.Namespace, in.Name, 500)
		if err != nil {
			return nil, err
		}
		out := &budgetsOutput{}
		out.Body.Items = make([]Budget, 0, len(found))
		for _, p := range found {
			b := Budget{Name: p.Name, Window: p.Window, Unit: p.Unit, Limit: p.Limit, Used: p.Used, Reserved: p.Reserved}
			for _, x := range p.Alerts {
				b.Alerts = append(b.Alerts, BudgetAlert{Percent: x.Percent, Limit: x.Limit, At: x.At.UTC()})
			}
			out.Body.Items = append(out.Body.Items, b)
		}
		return out, nil
	})
}
