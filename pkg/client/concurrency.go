package client

import (
	"context"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// ConcurrencyKey is how one concurrency key stands.
type ConcurrencyKey struct {
	Key     string         `json:"key"`            // as it is shown
	Name    string         `json:"name,omitempty"` // of the agent or flow; empty for a key of the namespace
	Max     int64          `json:"max"`
	Held    int64          `json:"held"`
	Holders []events.RunID `json:"holders"` // at most ten, the oldest first
	Waiting int64          `json:"waiting"`
	Next    []events.RunID `json:"next"` // at most ten that wait, in their order
}

// Concurrency lists the concurrency keys under which runs are open, the longest
// queue first; with a name those of that agent or flow.
func (c *Client) Concurrency(ctx context.Context, name string, p PageRequest) (Page[ConcurrencyKey], error) {
	q := p.values()
	set(q, "name", name)
	return get[Page[ConcurrencyKey]](ctx, c, "/v1/concurrency", q)
}
