package client

import (
	"context"
	"net/url"
	"time"
)

// CostRow is what one group of model calls used and cost.
type CostRow struct {
	Key                   string `json:"key"` // empty: belongs to no group
	Calls                 int64  `json:"calls"`
	InputTokens           int64  `json:"input_tokens"`
	CacheReadTokens       int64  `json:"cache_read_tokens"`  // of the input
	CacheWriteTokens      int64  `json:"cache_write_tokens"` // of the input
	OutputTokens          int64  `json:"output_tokens"`
	CostMicroUSD          int64  `json:"cost_micro_usd"`
	CostEstimatedMicroUSD int64  `json:"cost_estimated_micro_usd"` // of the cost
}

// CostReport is what was spent in a time, the dearest group first.
type CostReport struct {
	By    string    `json:"by"`
	Since time.Time `json:"since"` // whole hours, UTC
	Until time.Time `json:"until"`
	Total CostRow   `json:"total"`
	Items []CostRow `json:"items"`
	More  bool      `json:"more,omitempty"` // there are more groups; Total has them
}

// Cost says what model calls used and cost. by is agent, flow, model, trigger, day or
// label:<key>; since a length of time like 7d, or a moment; until a moment or empty.
func (c *Client) Cost(ctx context.Context, by, since, until string) (CostReport, error) {
	q := url.Values{}
	set(q, "by", by)
	set(q, "since", since)
	set(q, "until", until)
	return get[CostReport](ctx, c, "/v1/cost", q)
}
