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
	Calls      []SharedCall    `json:"calls,omitempty"`    // that share it; not in lists
	Verdicts   []Verdict       `json:"verdicts,omitempty"` // what was said about it while it was in doubt; not in lists
}

// SharedCall is a call of a run that shares an effect.
type SharedCall struct {
	CallID    events.CallID     `json:"call_id"`
	RunID     events.RunID      `json:"run_id"`
	Run       string            `json:"run,omitempty"` // name of what the run executes
	RunStatus string            `json:"run_status,omitempty"`
	Status    string            `json:"status"`
	Opened    bool              `json:"opened,omitempty"`   // it opened the effect and is the one that acts
	Replayed  bool              `json:"replayed,omitempty"` // it was answered with what another call did
	YesBy     string            `json:"approved_by,omitempty"`
	YesID     events.ApprovalID `json:"approval_id,omitempty"`
	CreatedAt time.Time         `json:"created_at,omitzero"`
	UpdatedAt time.Time         `json:"updated_at,omitzero"`
}

// Verdict is what was said about an effect in doubt.
type Verdict struct {
	Verdict string    `json:"verdict"`
	By      string    `json:"by"`
	Comment string    `json:"comment,omitempty"`
	Applied bool      `json:"applied"` // false: it came too late
	At      time.Time `json:"at"`
}

// EffectFilter narrows a list of effects. Empty fields do not narrow.
type EffectFilter struct {
	State, Tool  string
	Run          events.RunID // and all runs that it started
	Key          string       // the whole key
	Text         string       // in key, arguments, result or error; a page may be short and have a cursor
	Since, Until time.Time    // begun at or after, before
	Twice        bool         // only what may have happened twice
}

// Effects lists the ledger, newest first.
func (c *Client) Effects(ctx context.Context, f EffectFilter, p PageRequest) (Page[Effect], error) {
	q := p.values()
	set(q, "state", f.State)
	set(q, "tool", f.Tool)
	set(q, "run", string(f.Run))
	set(q, "key", f.Key)
	set(q, "text", f.Text)
	if !f.Since.IsZero() {
		q.Set("since", f.Since.UTC().Format(time.RFC3339Nano))
	}
	if !f.Until.IsZero() {
		q.Set("until", f.Until.UTC().Format(time.RFC3339Nano))
	}
	if f.Twice {
		q.Set("twice", "true")
	}
	return get[Page[Effect]](ctx, c, "/v1/effects", q)
}

// EffectTotals counts the ledger: the first four now, the others of 24 hours.
type EffectTotals struct {
	InDoubt   int64 `json:"in_doubt"`
	UnderWay  int64 `json:"under_way"`
	Held      int64 `json:"held"`
	Twice     int64 `json:"may_have_happened_twice"`
	Happened  int64 `json:"happened"`
	Not       int64 `json:"did_not_happen"`
	Prevented int64 `json:"duplicates_prevented"` // calls that were answered with what another call did
	Refused   int64 `json:"mismatches_refused"`   // calls that had the key of something else
}

// EffectTotals counts the ledger.
func (c *Client) EffectTotals(ctx context.Context) (EffectTotals, error) {
	return get[EffectTotals](ctx, c, "/v1/effects/totals", nil)
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
	Epoch   int64           `json:"epoch,omitempty"` // of the doubt that was looked at: refused when it is another by now
}

// Resolve says what became of an effect in doubt. It is not repeated by itself.
func (c *Client) Resolve(ctx context.Context, id string, r Resolution) (Effect, error) {
	var out Effect
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/v1/effects/" + url.PathEscape(id) + "/resolve", body: r}, &out)
	return out, err
}
