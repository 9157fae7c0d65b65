package client

import (
	"context"
	"time"
)

// Checkup is what the doctor found.
type Checkup struct {
	Findings []Finding `json:"findings"` // problems first; empty when nothing was found
	At       time.Time `json:"at"`
}

// Finding is one thing that is not as it should be.
type Finding struct {
	Severity string     `json:"severity"` // "problem": somebody must act; "warning": somebody should look
	Code     string     `json:"code"`
	What     string     `json:"what"`
	Next     string     `json:"next"` // a command, or where to look
	Count    int64      `json:"count,omitempty"`
	Since    *time.Time `json:"since,omitempty"` // of the oldest
}

// Doctor looks at the namespace, the processes and the streams. It changes
// nothing.
func (c *Client) Doctor(ctx context.Context) (Checkup, error) {
	return get[Checkup](ctx, c, "/v1/doctor", nil)
}
