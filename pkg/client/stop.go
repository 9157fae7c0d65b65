package client

import (
	"context"
	"net/url"
	"time"
)

// What a stop is about.
const (
	StopAll   = "all"
	StopAgent = "agent"
	StopTool  = "tool"
)

// Stop is an order that no new write leaves.
type Stop struct {
	ID      string    `json:"stop_id"`
	Scope   string    `json:"scope"`
	Name    string    `json:"name,omitempty"` // of the agent or tool
	Note    string    `json:"note"`
	By      string    `json:"by"`
	Since   time.Time `json:"since"`
	EndedAt time.Time `json:"ended_at,omitzero"` // zero while it stands
	EndedBy string    `json:"ended_by,omitempty"`
	EndNote string    `json:"end_note,omitempty"`
	Held    int64     `json:"held"` // effects that wait because of it
}

// StopWrites lets no new write leave: of everything in the namespace, an agent
// or a tool. When it returns without an error, nothing begins any more. A stop
// that stands for the same scope and name is returned, so a repeat is harmless.
func (c *Client) StopWrites(ctx context.Context, scope, name, note string) (Stop, error) {
	return post[Stop](ctx, c, "/v1/stops", struct {
		Scope string `json:"scope"`
		Name  string `json:"name,omitempty"`
		Note  string `json:"note"`
	}{scope, name, note})
}

// ReleaseStop ends a stop: what it held goes on.
func (c *Client) ReleaseStop(ctx context.Context, id, note string) (Stop, error) {
	return post[Stop](ctx, c, "/v1/stops/"+url.PathEscape(id)+"/release", map[string]string{"note": note})
}

// Stops lists stops, newest first; standing leaves out those that have ended.
func (c *Client) Stops(ctx context.Context, standing bool, p PageRequest) (Page[Stop], error) {
	q := p.values()
	if standing {
		q.Set("standing", "true")
	}
	return get[Page[Stop]](ctx, c, "/v1/stops", q)
}

// StopPreview is what a stop would meet.
type StopPreview struct {
	Runs     int64    `json:"runs"`      // that have not ended
	Waiting  int64    `json:"waiting"`   // effects that would be held
	UnderWay int64    `json:"under_way"` // effects that cannot be called back
	Means    []string `json:"means"`     // the same for people
}

// PreviewStop says what a stop would meet now, and stops nothing.
func (c *Client) PreviewStop(ctx context.Context, scope, name string) (StopPreview, error) {
	q := url.Values{"scope": {scope}}
	set(q, "name", name)
	return get[StopPreview](ctx, c, "/v1/stops/preview", q)
}
