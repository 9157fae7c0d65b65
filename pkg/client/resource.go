package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Document is one file of definitions.
type Document struct {
	File string `json:"file"` // named in errors
	Text string `json:"text"` // YAML, any number of documents
}

// Applied is what became of one definition.
type Applied struct {
	Kind      string        `json:"kind"`
	Name      string        `json:"name"`
	Namespace string        `json:"namespace"`
	Digest    events.Digest `json:"digest"`
	Version   int           `json:"version"`
	Changed   bool          `json:"changed"`
	// Warnings are what is valid and may not be what was meant.
	Warnings []Place `json:"warnings,omitempty"`
}

// Apply stores definitions, all or none. Repeating it changes nothing.
func (c *Client) Apply(ctx context.Context, docs []Document) ([]Applied, error) {
	body := struct {
		Documents []Document `json:"documents"`
	}{docs}
	var out []Applied
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/v1/resources", body: body, idempotent: true}, &out)
	return out, err
}

// Resource is one stored definition.
type Resource struct {
	Kind      string          `json:"kind"`
	Name      string          `json:"name"`
	Namespace string          `json:"namespace"`
	Digest    events.Digest   `json:"digest"`
	Version   int             `json:"version"`
	UpdatedAt time.Time       `json:"updated_at,omitzero"`
	Body      json.RawMessage `json:"body,omitempty"`
}

// Resources lists definitions, of one kind when kind is not empty.
func (c *Client) Resources(ctx context.Context, kind string, p PageRequest) (Page[Resource], error) {
	q := p.values()
	set(q, "kind", kind)
	return get[Page[Resource]](ctx, c, "/v1/resources", q)
}

// Resource reads the current version of one definition.
func (c *Client) Resource(ctx context.Context, kind, name string) (Resource, error) {
	return get[Resource](ctx, c, "/v1/resources/"+url.PathEscape(kind)+"/"+url.PathEscape(name), nil)
}
