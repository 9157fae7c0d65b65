package client

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// MigrateRequest asks to move a run to another version of its agent.
type MigrateRequest struct {
	To     string `json:"to,omitempty"` // a digest, or "current", which empty means
	DryRun bool   `json:"dry_run,omitempty"`
	Reason string `json:"reason,omitempty"`
	// IdempotencyKey: the same key is the same order, from any process. Empty means a
	// fresh one, which covers the repeats of one call.
	IdempotencyKey string `json:"-"`
}

// Migration is what an order to move a run changes.
type Migration struct {
	RunID     events.RunID    `json:"run_id"`
	CommandID string          `json:"command_id,omitempty"` // empty in a dry run
	DryRun    bool            `json:"dry_run,omitempty"`
	From      events.Digest   `json:"from"`
	To        events.Digest   `json:"to,omitempty"`
	Movable   bool            `json:"movable"`
	Problem   *events.Problem `json:"problem,omitempty"` // why it is not
	Waits     string          `json:"waits,omitempty"`   // what comes before the move
	Changes   []Change        `json:"changes"`
	More      bool            `json:"more_changes,omitempty"`
	Diff      string          `json:"diff"` // the changes for people
}

// Change is one difference between two versions. Without a Path it is about the
// definition as a whole, and Before and After are digests.
type Change struct {
	Kind   string          `json:"kind"`
	Name   string          `json:"name"`
	Op     string          `json:"op"` // added, removed or changed
	Path   string          `json:"path,omitempty"`
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// Move is an order to move a run and what became of it.
type Move struct {
	Seq       int64           `json:"seq"`
	State     string          `json:"state"` // waiting, moved or refused
	At        time.Time       `json:"at"`
	From      events.Digest   `json:"from,omitempty"`
	To        events.Digest   `json:"to"`
	Principal string          `json:"principal"`
	Reason    string          `json:"reason,omitempty"`
	Problem   *events.Problem `json:"problem,omitempty"`
}

// Migrate orders that a run goes on under another version of its agent, once none of
// its calls is open and its model is not answering, or says what that would change.
func (c *Client) Migrate(ctx context.Context, id events.RunID, r MigrateRequest) (Migration, error) {
	var out Migration
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/v1/runs/" + url.PathEscape(string(id)) + "/migrate", body: r,
		key: cmp.Or(r.IdempotencyKey, newKey()), idempotent: true}, &out)
	return out, err
}
