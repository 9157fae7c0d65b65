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

// CostRow is what one group of model calls used.
type CostRow struct {
	Key                   string `json:"key" doc:"name of the group; empty: belongs to none, as runs below no flow or without the label; (deleted): of runs that were deleted"`
	Calls                 int64  `json:"calls" doc:"answers, summaries and billed attempts"`
	InputTokens           int64  `json:"input_tokens"`
	CacheReadTokens       int64  `json:"cache_read_tokens" doc:"of the input"`
	CacheWriteTokens      int64  `json:"cache_write_tokens" doc:"of the input"`
	OutputTokens          int64  `json:"output_tokens"`
	CostMicroUSD          int64  `json:"cost_micro_usd"`
	CostEstimatedMicroUSD int64  `json:"cost_estimated_micro_usd" doc:"of the cost, what was counted of estimated usage"`
}

type costInput struct {
	By    string `query:"by" maxLength:"100" doc:"agent (default), flow, model, trigger, day or label:<key>"`
	Since string `query:"since" maxLength:"40" doc:"a length of time before now like 7d (default) or 12h, or a moment; rounded down to the hour"`
	Until string `query:"until" maxLength:"40" doc:"a moment; rounded up to the hour. Default: now"`
}

type costOutput struct {
	Body struct {
		By    string    `json:"by"`
		Since time.Time `json:"since"`
		Until time.Time `json:"until"`
		Total CostRow   `json:"total" doc:"of everything in the time, also of groups that are not listed"`
		Items []CostRow `json:"items" doc:"the dearest first, days in their order; at most 500"`
		More  bool      `json:"more,omitempty" doc:"there are more groups than are listed"`
	}
}

func (a *api) cost() {
	door.Register(a.door, huma.Operation{
		OperationID: "get-cost", Method: http.MethodGet, Path: "/v1/cost", Summary: "Say what model calls used and cost", Tags: []string{"system"},
		Description: "Each answer is counted when it is recorded, by the hour, at the prices that its model's definition had then. Runs that were deleted stay counted.",
	}, authn.Viewer, func(ctx context.Context, in *costInput) (*costOutput, error) {
		who, _ := authn.FromContext(ctx)
		q, err := console.NewCostQuery(who.Namespace, in.By, in.Since, in.Until, time.Now())
		if err != nil {
			return nil, door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, err.Error())
		}
		found, err := a.console.Cost(ctx, q)
		if err != nil {
			return nil, err
		}
		out := &costOutput{}
		b := &out.Body
		b.By, b.Since, b.Until, b.Total, b.More = q.By, q.Since, q.Until, CostRow(found.Total), found.More
		b.Items = make([]CostRow, 0, len(found.Rows))
		for _, r := range found.Rows {
			b.Items = append(b.Items, CostRow(r))
		}
		return out, nil
	})
}
