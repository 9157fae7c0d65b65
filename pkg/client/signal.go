package client

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Signal is something that happened outside, for the one run that waits for its
// name and key, and what became of it.
type Signal struct {
	SignalID   string        `json:"signal_id"`
	Namespace  string        `json:"namespace"`
	Name       string        `json:"name"`
	Key        string        `json:"key"`
	State      string        `json:"state"` // kept, sent, taken, expired
	Held       bool          `json:"held,omitempty"`
	Source     string        `json:"source"` // webhook, api
	SourceName string        `json:"source_name"`
	RunID      events.RunID  `json:"run_id,omitempty"` // that it was sent to
	CallID     events.CallID `json:"call_id,omitempty"`
	Late       int           `json:"late,omitempty"` // waits that had ended when it reached them
	ReceivedAt time.Time     `json:"received_at"`
	ExpiresAt  time.Time     `json:"expires_at"` // given up then, if no run waits
	TakenAt    time.Time     `json:"taken_at,omitzero"`
}

// SignalRequest is what is sent to the run that waits for a key.
type SignalRequest struct {
	Key  string          `json:"key"`
	Data json.RawMessage `json:"data,omitempty"` // at most events.SignalDataBytes
	// KeepFor is how long the signal waits for a run, in seconds; 0 is seven days.
	KeepFor int64 `json:"keep_for_seconds,omitempty"`
}

// SendSignal hands data to the run that waits for the signal and the key, or to
// the next one that does. However often this call is repeated, it is one signal.
func (c *Client) SendSignal(ctx context.Context, name string, r SignalRequest) (id string, err error) {
	type sent struct {
		SignalID string `json:"signal_id"`
	}
	out, err := post[sent](ctx, c, "/v1/signals/"+url.PathEscape(name), r)
	return out.SignalID, err
}

// SignalFilter narrows a list of signals. Zero fields do not narrow.
type SignalFilter struct{ State, Name, Key string }

// Signals lists signals, newest first.
func (c *Client) Signals(ctx context.Context, f SignalFilter, p PageRequest) (Page[Signal], error) {
	q := p.values()
	set(q, "state", f.State)
	set(q, "name", f.Name)
	set(q, "key", f.Key)
	return get[Page[Signal]](ctx, c, "/v1/signals", q)
}
