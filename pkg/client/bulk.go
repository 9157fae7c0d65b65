package client

import (
	"context"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Bulk is one command for every open run that fits a condition.
type Bulk struct {
	Command string `json:"command"` // "cancel", "pause", "resume", "migrate", "retry" for failed runs, or "delete" for ended ones
	// Where is CEL over status, kind, name, agent, flow, labels, waiting, error,
	// principal, trigger, parent, model_calls, tool_calls, tokens, attempts, id, cost
	// (micro-dollars), age and idle (seconds).
	Where  string `json:"where"`
	Reason string `json:"reason,omitempty"`
	Max    int    `json:"max,omitempty"` // when more fit nothing is sent; zero means 1000
	DryRun bool   `json:"dry_run,omitempty"`
}

// BulkDone is what became of a Bulk.
type BulkDone struct {
	Command string    `json:"command"`
	DryRun  bool      `json:"dry_run"`
	Runs    []BulkRun `json:"runs"`
	Unclear int       `json:"unclear,omitempty"` // runs for which the condition is an error
	Problem string    `json:"problem,omitempty"` // the first of those errors
}

// BulkRun is a run that fitted. CommandID is empty in a dry run, and when the run
// ended meanwhile.
type BulkRun struct {
	RunID     events.RunID `json:"run_id"`
	Kind      string       `json:"kind"`
	Name      string       `json:"name"`
	Status    string       `json:"status"`
	Waiting   string       `json:"waiting,omitempty"`
	CommandID string       `json:"command_id,omitempty"`
	Retry     events.RunID `json:"retry,omitempty"` // the run that goes on
	Replayed  bool         `json:"replayed,omitempty"`
}

// Bulk sends one command to every open run that fits. A repeat after a lost
// answer commands no run twice.
func (c *Client) Bulk(ctx context.Context, b Bulk) (BulkDone, error) {
	return post[BulkDone](ctx, c, "/v1/runs/commands", b)
}
