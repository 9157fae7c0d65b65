package client

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Version is one change of what the name of a definition means.
type Version struct {
	Version   int           `json:"version,omitempty"` // 0: stored before changes were kept
	Digest    events.Digest `json:"digest"`
	ChangedAt time.Time     `json:"changed_at"`
	ChangedBy string        `json:"changed_by"`
	Current   bool          `json:"current,omitempty"`
	Runs      int64         `json:"runs"` // of the newest 5000 of the name
	Open      int64         `json:"open"`
}

// Difference is one member that differs between two versions.
type Difference struct {
	Kind   string          `json:"kind"`
	Name   string          `json:"name"`
	Op     string          `json:"op"` // added, removed or changed
	Path   string          `json:"path"`
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// DefinitionDiff is how two versions of a definition differ.
type DefinitionDiff struct {
	From    Version      `json:"from"`
	To      Version      `json:"to"`
	Changes []Difference `json:"changes"`
	More    bool         `json:"more,omitempty"`
	Diff    string       `json:"diff"` // the same for people
}

// Versions lists what a name meant, newest first.
func (c *Client) Versions(ctx context.Context, kind, name string) ([]Version, error) {
	out, err := get[struct{ Items []Version }](ctx, c, definition(kind, name)+"/versions", nil)
	return out.Items, err
}

// Diff compares two versions of a definition, each a number or a digest. An empty to
// is the current one, an empty from the one before to.
func (c *Client) Diff(ctx context.Context, kind, name, from, to string) (DefinitionDiff, error) {
	q := url.Values{}
	set(q, "from", from)
	set(q, "to", to)
	return get[DefinitionDiff](ctx, c, definition(kind, name)+"/diff", q)
}

func definition(kind, name string) string {
	return "/v1/resources/" + url.PathEscape(kind) + "/" + url.PathEscape(name)
}
