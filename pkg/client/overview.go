package client

import (
	"context"
	"time"
)

// Overview is what runs, what is stuck, what waits for a person, what was
// changed and what it cost.
type Overview struct {
	At    time.Time `json:"at"`
	Since time.Time `json:"since"` // the beginning of the day, UTC

	Running  int `json:"running"`
	Asking   int `json:"asking"` // of the running ones, a model right now
	Queued   int `json:"queued"`
	Waiting  int `json:"waiting"`
	Stopping int `json:"stopping"`

	Stuck  int `json:"stuck"` // Parked and Paused together
	Parked int `json:"parked"`
	Paused int `json:"paused"`

	Approvals  int        `json:"approvals"`
	NextExpiry *time.Time `json:"next_expiry,omitempty"`

	Changed  int `json:"changed"`   // effects that happened since Since
	UnderWay int `json:"under_way"` // effects that began since and have no outcome
	Failed   int `json:"failed"`    // effects that did not happen, since
	InDoubt  int `json:"in_doubt"`  // effects of any day

	Runs         int   `json:"runs"` // accepted since Since
	CostMicroUSD int64 `json:"cost_micro_usd"`
}

// Overview counts what there is in the namespace. It changes nothing.
func (c *Client) Overview(ctx context.Context) (Overview, error) {
	return get[Overview](ctx, c, "/v1/overview", nil)
}
