package client

import (
	"context"
	"net/url"
	"time"
)

// AuditAct is what somebody did at a door of any service.
type AuditAct struct {
	ID        string    `json:"id"`
	At        time.Time `json:"at"`
	Service   string    `json:"service"`
	Actor     string    `json:"actor"`
	Role      string    `json:"role,omitempty"`
	TokenID   string    `json:"token_id,omitempty"`
	SessionID string    `json:"session_id,omitempty"`
	Door      string    `json:"door"` // page, client, api, link or slack
	Action    string    `json:"action"`
	Target    string    `json:"target,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	RequestID string    `json:"request_id,omitempty"`
	Status    int       `json:"status,omitempty"` // of HTTP
	Outcome   string    `json:"outcome"`          // done, refused, failed or unknown
	EndedAt   time.Time `json:"ended_at,omitzero"`
}

// AuditActFilter narrows the audit of acts. Empty fields do not narrow.
type AuditActFilter struct {
	Actor, Action, Target, Door, Outcome string
	Since, Until                         time.Time
}

// AuditActs lists what was done, newest first.
func (c *Client) AuditActs(ctx context.Context, f AuditActFilter, p PageRequest) (Page[AuditAct], error) {
	q := p.values()
	if q == nil {
		q = url.Values{}
	}
	for k, v := range map[string]string{"actor": f.Actor, "action": f.Action, "target": f.Target, "door": f.Door, "outcome": f.Outcome} {
		if v != "" {
			q.Set(k, v)
		}
	}
	for k, t := range map[string]time.Time{"since": f.Since, "until": f.Until} {
		if !t.IsZero() {
			q.Set(k, t.UTC().Format(time.RFC3339))
		}
	}
	return get[Page[AuditAct]](ctx, c, "/v1/audit", q)
}
