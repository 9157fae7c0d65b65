package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Grant is a bounded permission: the calls that it allows are approved when they are
// asked.
type Grant struct {
	GrantID   string    `json:"grant_id"`
	Namespace string    `json:"namespace"`
	State     string    `json:"state"` // "active", "used_up", "expired" or "revoked"
	Tool      string    `json:"tool"`
	Agent     string    `json:"agent,omitempty"` // empty: any
	When      string    `json:"when,omitempty"`
	Count     int64     `json:"count"`
	Used      int64     `json:"used"`
	AmountOf  string    `json:"amount_of,omitempty"`
	MaxAmount string    `json:"max_amount,omitempty"` // decimal
	Amount    string    `json:"amount,omitempty"`
	ExpiresAt time.Time `json:"expires_at"`
	Comment   string    `json:"comment,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by"`
	RevokedAt time.Time `json:"revoked_at,omitzero"`
	RevokedBy string    `json:"revoked_by,omitempty"`
}

// GrantRequest asks for a grant.
type GrantRequest struct {
	Like      events.ApprovalID `json:"like,omitempty"` // the same tool and agent
	Tool      string            `json:"tool,omitempty"`
	Agent     string            `json:"agent,omitempty"`
	When      string            `json:"when,omitempty"` // CEL over args
	Count     int64             `json:"count"`
	AmountOf  string            `json:"amount_of,omitempty"` // a path like args.amount, with MaxAmount
	MaxAmount string            `json:"max_amount,omitempty"`
	ExpiresIn int64             `json:"expires_in_s"`
	Comment   string            `json:"comment,omitempty"`
}

// MakeGrant makes a grant. Asked twice it makes two.
func (c *Client) MakeGrant(ctx context.Context, r GrantRequest) (out Grant, err error) {
	_, err = c.do(ctx, call{method: http.MethodPost, path: "/v1/grants", body: r}, &out)
	return out, err
}

// Grants lists grants, newest first; without all only those that still allow something.
func (c *Client) Grants(ctx context.Context, all bool, p PageRequest) (Page[Grant], error) {
	q := p.values()
	if all {
		set(q, "all", "true")
	}
	return get[Page[Grant]](ctx, c, "/v1/grants", q)
}

// Grant reads one grant.
func (c *Client) Grant(ctx context.Context, id string) (Grant, error) {
	return get[Grant](ctx, c, "/v1/grants/"+url.PathEscape(id), nil)
}

// RevokeGrant ends a grant; again it changes nothing.
func (c *Client) RevokeGrant(ctx context.Context, id string) (out Grant, err error) {
	_, err = c.do(ctx, call{method: http.MethodPost, path: "/v1/grants/" + url.PathEscape(id) + "/revoke", body: struct{}{}, idempotent: true}, &out)
	return out, err
}
