package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Effect is one row of the ledger: what a tool did to the outside world.
type Effect struct {
	EffectID   string          `json:"effect_id"`
	Namespace  string          `json:"namespace"`
	Tool       string          `json:"tool"`
	Key        string          `json:"key"`
	State      string          `json:"state"` // intent, held, awaiting, succeeded, failed, unknown, expired
	Epoch      int64           `json:"epoch"`
	RunID      events.RunID    `json:"run_id"`
	CallID     events.CallID   `json:"call_id"`
	Args       json.RawMessage `json:"args,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"`
	Error      *events.Problem `json:"error,omitempty"`
	InDoubt    string          `json:"in_doubt,omitempty"` // ask: a person is asked; fail: nobody is; probe: a lookup is to say
	SettledBy  string          `json:"settled_by,omitempty"`
	HeldBy     string          `json:"held_by,omitempty"`    // with held: the id of the stop
	ReplyUntil time.Time       `json:"reply_until,omitzero"` // with awaiting: when the wait for the callback ends
	OnDoubt    string          `json:"on_doubt,omitempty"`   // of a program's act: its policy
	Damaged    string          `json:"damaged,omitempty"`    // why the stored record cannot be understood
	Worker     string          `json:"worker,omitempty"`
	LeaseUntil time.Time       `json:"lease_until,omitzero"`
	Attempts   int             `json:"attempts"`
	NextTry    time.Time       `json:"next_attempt_at,omitzero"`
	CreatedAt  time.Time       `json:"created_at,omitzero"`
	UpdatedAt  time.Time       `json:"updated_at,omitzero"`
	ActedAt    time.Time       `json:"acted_at,omitzero"`
	Receipts   json.RawMessage `json:"receipts,omitempty"` // not in lists
}

// EffectFilter narrows a list of effects. Empty fields do not narrow.
type EffectFilter struct {
	State, Tool string
	Run         events.RunID // and all runs that it started
}

// Effects lists the ledger, newest first.
func (c *Client) Effects(ctx context.Context, f EffectFilter, p PageRequest) (Page[Effect], error) {
	q := p.values()
	set(q, "state", f.State)
	set(q, "tool", f.Tool)
	set(q, "run", string(f.Run))
	return get[Page[Effect]](ctx, c, "/v1/effects", q)
}

// Effect reads one row of the ledger.
func (c *Client) Effect(ctx context.Context, id string) (Effect, error) {
	return get[Effect](ctx, c, "/v1/effects/"+url.PathEscape(id), nil)
}

// Resolution settles an effect in doubt.
type Resolution struct {
	Verdict string          `json:"verdict"`          // happened, not_happened or give_up
	Result  json.RawMessage `json:"result,omitempty"` // with happened: what the call returned
	Comment string          `json:"comment,omitempty"`
}

// Resolve says what became of an effect in doubt. It is not repeated by itself.
func (c *Client) Resolve(ctx context.Context, id string, r Resolution) (Effect, error) {
	var out Effect
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/v1/effects/" + url.PathEscape(id) + "/resolve", body: r}, &out)
	return out, err
}
