package console

import (
	"context"
	"time"
)

// Act is what somebody did at a door, as the audit keeps it.
type Act struct {
	ID                 string
	At                 time.Time
	Service            string
	Actor, Role        string
	TokenID, SessionID string
	Door               string // page, client, api; link and slack of approvals
	Action, Target     string
	Reason             string
	RequestID          string
	Status             int    // of HTTP; 0: no end was recorded, or none is of HTTP
	Outcome            string // done, refused, failed; unknown when no end was recorded
	EndedAt            time.Time
}

// Outcomes lists what may become of an act.
func Outcomes() []string { return []string{"done", "refused", "failed", "unknown"} }

// ActPosition is a place in the audit, newest first.
type ActPosition struct {
	At time.Time `json:"t"`
	ID string    `json:"i"`
}

// ActFilter narrows the audit. Namespace and Limit are required; empty fields do not narrow.
type ActFilter struct {
	Namespace                            string
	Actor, Action, Target, Door, Outcome string // Action and Target: parts of it
	Since, Until                         time.Time
	Before                               *ActPosition
	Limit                                int
}

// ActReader reads the audit of all services.
type ActReader interface {
	// Acts lists at most Limit acts, newest first.
	Acts(ctx context.Context, f ActFilter) ([]Act, error)
}
