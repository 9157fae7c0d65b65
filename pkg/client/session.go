package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Session is somebody who is signed in with a browser.
type Session struct {
	ID         string    `json:"id"`
	Name       string    `json:"name"`
	Namespace  string    `json:"namespace"`
	Role       string    `json:"role"`
	Grants     []string  `json:"grants"` // NAMESPACE/ROLE
	Groups     []string  `json:"groups,omitempty"`
	TokenID    string    `json:"token_id,omitempty"` // empty of a person
	Issuer     string    `json:"issuer,omitempty"`
	Subject    string    `json:"subject,omitempty"`
	UserAgent  string    `json:"user_agent,omitempty"`
	CreatedAt  time.Time `json:"created_at"`
	LastSeenAt time.Time `json:"last_seen_at"`
	EndsAt     time.Time `json:"ends_at"`    // unless it is used
	ExpiresAt  time.Time `json:"expires_at"` // at the latest
	RevokedAt  time.Time `json:"revoked_at,omitzero"`
	RevokedBy  string    `json:"revoked_by,omitempty"`
}

// Sessions lists who is signed in and may act in the namespace.
func (c *Client) Sessions(ctx context.Context, p PageRequest) (Page[Session], error) {
	return get[Page[Session]](ctx, c, "/v1/sessions", p.values())
}

// RevokeSession ends a session; every door knows it after two seconds. Repeating it
// changes nothing.
func (c *Client) RevokeSession(ctx context.Context, id string) (Session, error) {
	var out Session
	_, err := c.do(ctx, call{method: http.MethodDelete, path: "/v1/sessions/" + url.PathEscape(id), idempotent: true}, &out)
	return out, err
}
