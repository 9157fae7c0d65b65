package client

import (
	"context"
	"net/url"
	"time"
)

// Durability is what became of work whose worker was lost, and what was kept from
// happening twice, in a time that ends now.
type Durability struct {
	Since       time.Time `json:"since"`
	Until       time.Time `json:"until"`
	Lost        int64     `json:"workers_lost"`         // times that a run lost its worker
	HandedOver  int64     `json:"handed_over"`          // times that a worker which was told to stop left a run to another
	Runs        int64     `json:"runs"`                 // that lost a worker, each once
	Resumed     int64     `json:"resumed"`              // of Runs: gone on since, or ended
	Parked      int64     `json:"parked"`               // of Runs: need a person now
	NotYet      int64     `json:"not_yet"`              // of Runs: neither yet
	ResumeP50ms int64     `json:"resume_p50_ms"`        // from the last sign of life to the next claim; 0 without a loss
	ResumeP99ms int64     `json:"resume_p99_ms"`        //
	ResumeMaxms int64     `json:"resume_max_ms"`        //
	Prevented   int64     `json:"duplicates_prevented"` // calls that were answered with what another one did
	Refused     int64     `json:"mismatches_refused"`   // calls that had the key of something else
	InDoubt     int64     `json:"in_doubt"`             // effects, now
}

// Durability counts over since, a length of time before now like 24h or 7d, at most 90d.
func (c *Client) Durability(ctx context.Context, since string) (Durability, error) {
	q := url.Values{}
	set(q, "since", since)
	return get[Durability](ctx, c, "/v1/durability", q)
}
