package client

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Schedule is one schedule and when it fires next.
type Schedule struct {
	Name      string      `json:"name"`
	Namespace string      `json:"namespace"`
	Cron      string      `json:"cron"`
	TimeZone  string      `json:"time_zone"`
	Kind      string      `json:"kind,omitempty"` // of what it starts: agent or flow
	Target    string      `json:"target,omitempty"`
	Paused    bool        `json:"paused"`
	Next      []time.Time `json:"next,omitempty"`
}

// Schedules lists schedules by name.
func (c *Client) Schedules(ctx context.Context, p PageRequest) (Page[Schedule], error) {
	return get[Page[Schedule]](ctx, c, "/v1/schedules", p.values())
}

// Schedule reads one schedule.
func (c *Client) Schedule(ctx context.Context, name string) (Schedule, error) {
	return get[Schedule](ctx, c, "/v1/schedules/"+url.PathEscape(name), nil)
}

// TriggerSchedule starts now what the schedule starts, besides its own times.
func (c *Client) TriggerSchedule(ctx context.Context, name string) (Started, error) {
	return post[Started](ctx, c, "/v1/schedules/"+url.PathEscape(name)+"/trigger", nil)
}

// Delivery is one accepted start: by a webhook, the API, a schedule or a message.
type Delivery struct {
	DeliveryID  string            `json:"delivery_id"`
	Namespace   string            `json:"namespace"`
	SourceKind  string            `json:"source_kind"` // webhook, api, schedule, event
	SourceName  string            `json:"source_name"`
	DedupeKey   string            `json:"dedupe_key"`
	RunID       events.RunID      `json:"run_id"`
	RefKind     string            `json:"ref_kind"`
	RefName     string            `json:"ref_name"`
	RefDigest   events.Digest     `json:"ref_digest"`
	Input       json.RawMessage   `json:"input,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Principal   string            `json:"principal,omitempty"`
	AcceptedAt  time.Time         `json:"accepted_at"`
	AnnouncedAt time.Time         `json:"announced_at,omitzero"`
	LandedAt    time.Time         `json:"landed_at,omitzero"` // the runner has it
}

// Deliveries lists accepted starts, newest first.
func (c *Client) Deliveries(ctx context.Context, p PageRequest) (Page[Delivery], error) {
	return get[Page[Delivery]](ctx, c, "/v1/deliveries", p.values())
}

// Delivery reads one accepted start.
func (c *Client) Delivery(ctx context.Context, id string) (Delivery, error) {
	return get[Delivery](ctx, c, "/v1/deliveries/"+url.PathEscape(id), nil)
}
