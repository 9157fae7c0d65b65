package client

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Link is the other run of a fork or a retry.
type Link struct {
	RunID  events.RunID `json:"run_id"`
	Retry  bool         `json:"retry,omitempty"`
	Row    int64        `json:"row"`              // the newest that both have
	Status string       `json:"status,omitempty"` // of a fork
}

// ForkRequest begins a run with the rows of another one.
type ForkRequest struct {
	At           int64                             `json:"at,omitempty"` // newest row to take over; zero: as many as make sense
	Input        json.RawMessage                   `json:"input,omitempty"`
	Prompt       string                            `json:"prompt,omitempty"`       // first message to the model, as it is
	Instructions string                            `json:"instructions,omitempty"` // system prompt
	Message      string                            `json:"message,omitempty"`      // that the model reads next
	Results      map[events.CallID]json.RawMessage `json:"results,omitempty"`      // of calls in the history
	Reason       string                            `json:"reason,omitempty"`
	// IdempotencyKey makes a repeat the same new run, from any process. Empty means a
	// fresh key, which covers the repeats of this one call.
	IdempotencyKey string `json:"-"`
}

// Forked is an accepted fork or retry.
type Forked struct {
	CommandID string          `json:"command_id"`
	RunID     events.RunID    `json:"run_id"` // of the new run
	From      events.RunID    `json:"from"`
	AskedAt   int64           `json:"asked_at,omitempty"`
	At        int64           `json:"at,omitempty"` // row that was taken; zero while no runner has taken the run
	Status    string          `json:"status"`
	Error     *events.Problem `json:"error,omitempty"` // why the order could not be carried out
	Effects   []PastEffect    `json:"effects"`         // of the old run behind that row: not made again
	More      bool            `json:"more_effects,omitempty"`
	Replayed  bool            `json:"replayed,omitempty"` // the key, or an earlier retry, had begun this run
}

// PastEffect is a call of the old run that changed something, or may have.
type PastEffect struct {
	CallID events.CallID `json:"call_id"`
	Row    int64         `json:"row"`
	Tool   string        `json:"tool"`
	Key    string        `json:"key"`
	State  string        `json:"state"` // succeeded, unknown, intent
}

// Fork begins a run with the rows of run id. Calls that equal what that one did
// are answered from the ledger; others that change something wait for a person.
func (c *Client) Fork(ctx context.Context, id events.RunID, r ForkRequest) (Forked, error) {
	return c.fork(ctx, id, "fork", r, r.IdempotencyKey)
}

// Retry tries a failed run again from its last good row, as a new run. A run is
// retried once: a second retry returns the first.
func (c *Client) Retry(ctx context.Context, id events.RunID, reason string) (Forked, error) {
	return c.fork(ctx, id, "retry", ForkRequest{Reason: reason}, "")
}

func (c *Client) fork(ctx context.Context, id events.RunID, what string, body any, key string) (Forked, error) {
	var out Forked
	header, err := c.do(ctx, call{method: http.MethodPost, path: "/v1/runs/" + url.PathEscape(string(id)) + "/" + what, body: body,
		key: cmp.Or(key, newKey()), idempotent: true}, &out)
	out.Replayed = header.Get("Idempotency-Replayed") == "true"
	return out, err
}
