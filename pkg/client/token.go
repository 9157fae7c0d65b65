package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// TokenRequest asks for a token. It belongs to the namespace of who asks.
type TokenRequest struct {
	Name string `json:"name"`
	Role string `json:"role"` // viewer, operator, approver or admin
	// Groups are those that rules about who may decide name.
	Groups []string `json:"groups,omitempty"`
	// ExpiresAt is zero for a token that lasts until it is revoked.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// Token is one token. Secret is set once, by CreateToken.
type Token struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Role      string    `json:"role"`
	Groups    []string  `json:"groups,omitempty"`
	Namespace string    `json:"namespace"`
	Secret    string    `json:"token,omitempty"`
	CreatedAt time.Time `json:"created_at,omitzero"`
	CreatedBy string    `json:"created_by,omitempty"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	RevokedAt time.Time `json:"revoked_at,omitzero"`
	RevokedBy string    `json:"revoked_by,omitempty"`
}

// CreateToken makes a token. It is never repeated by itself.
func (c *Client) CreateToken(ctx context.Context, r TokenRequest) (Token, error) {
	var out Token
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/v1/tokens", body: r}, &out)
	return out, err
}

// Tokens lists tokens, also revoked ones, without their secrets.
func (c *Client) Tokens(ctx context.Context, p PageRequest) (Page[Token], error) {
	return get[Page[Token]](ctx, c, "/v1/tokens", p.values())
}

// RevokeToken ends a token; every door knows it after two seconds. Repeating it
// changes nothing.
func (c *Client) RevokeToken(ctx context.Context, id string) (Token, error) {
	var out Token
	_, err := c.do(ctx, call{method: http.MethodDelete, path: "/v1/tokens/" + url.PathEscape(id), idempotent: true}, &out)
	return out, err
}
