package client

import (
	"context"
	"net/url"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Budget is what one window of a shared budget has used.
type Budget struct {
	Name     string        `json:"name"`
	Window   string        `json:"window"` // first day of the window; "all" without one
	Unit     string        `json:"unit"`   // "tokens", "micro_usd", "modelCalls" or "toolCalls"
	Limit    int64         `json:"limit"`
	Used     int64         `json:"used"`
	Reserved int64         `json:"reserved"`
	Alerts   []BudgetAlert `json:"alerts,omitempty"`
}

// BudgetAlert is a threshold that was passed.
type BudgetAlert struct {
	Percent int       `json:"percent"`
	Limit   int64     `json:"limit"`
	At      time.Time `json:"at"`
}

// Budgets lists the newest window of every shared budget, or with a name every
// window of that one, the newest first.
func (c *Client) Budgets(ctx context.Context, name string) ([]Budget, error) {
	q := url.Values{}
	if name != "" {
		q.Set("name", name)
	}
	out, err := get[struct{ Items []Budget }](ctx, c, "/v1/budgets", q)
	return out.Items, err
}

// RaiseBudget lifts a ceiling of a run, or "pool:<name>" of one that draws on that
// shared budget. Money is in micro-dollars, "wallTime" in seconds.
func (c *Client) RaiseBudget(ctx context.Context, id events.RunID, budget string, to int64, reason string) (Commanded, error) {
	body := map[string]any{"budget": budget, "to": to}
	if reason != "" {
		body["reason"] = reason
	}
	return post[Commanded](ctx, c, "/v1/runs/"+url.PathEscape(string(id))+"/budget", body)
}

// RunBudget is how a run stands to a ceiling: its own by the name that RaiseBudget
// takes, or "pool:<name>" for one that it shares.
type RunBudget struct {
	Name     string `json:"name"`
	Unit     string `json:"unit"` // "tokens", "micro_usd", "modelCalls", "toolCalls", "steps" or "seconds"
	Limit    int64  `json:"limit"`
	Used     int64  `json:"used"`
	Reserved int64  `json:"reserved,omitempty"` // booked for calls under way
	Window   string `json:"window,omitempty"`
}
