package client

import (
	"context"
	"net/url"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Schedule is one schedule and when it fires next.
type Schedule struct {
	Name      string        `json:"name"`
	Namespace string        `json:"namespace"`
	Digest    events.Digest `json:"digest,omitempty"`
	Cron      string        `json:"cron"`
	TimeZone  string        `json:"time_zone"`
	Agent     string        `json:"agent,omitempty"` // what it starts: this or Flow
	Flow      string        `json:"flow,omitempty"`
	Paused    bool          `json:"paused"`
	Problem   string        `json:"problem,omitempty"` // why this version never fires
	Next      []Fire        `json:"next"`
	Missed    int64         `json:"missed"` // fires that were found too late to start a run
	Last      *PastFire     `json:"last,omitempty"`
}

// Fire is one coming fire of a schedule.
type Fire struct {
	At      time.Time `json:"at"`
	Local   string    `json:"local"`             // the same instant on the schedule's wall clock
	Nominal string    `json:"nominal"`           // the wall time that the expression names
	Fold    int       `json:"fold,omitempty"`    // 1 on the second pass of a wall time that occurs twice
	Shifted bool      `json:"shifted,omitempty"` // the wall time is skipped that day, so it fires later
}

// PastFire is the latest fire of a schedule.
type PastFire struct {
	Nominal string       `json:"nominal"`
	Fold    int          `json:"fold,omitempty"`
	FiredAt time.Time    `json:"fired_at"`
	RunID   events.RunID `json:"run_id,omitempty"` // empty when the fire could start nothing
}

// Schedules lists schedules by name.
func (c *Client) Schedules(ctx context.Context, p PageRequest) (Page[Schedule], error) {
	return get[Page[Schedule]](ctx, c, "/v1/schedules", p.values())
}

// Schedule reads one schedule.
func (c *Client) Schedule(ctx context.Context, name string) (Schedule, error) {
	return get[Schedule](ctx, c, "/v1/schedules/"+url.PathEscape(name), nil)
}

// TriggerSchedule starts now what the schedule starts, besides its own times
// and also while it is paused.
func (c *Client) TriggerSchedule(ctx context.Context, name string) (Started, error) {
	return post[Started](ctx, c, "/v1/schedules/"+url.PathEscape(name)+"/trigger", nil)
}
