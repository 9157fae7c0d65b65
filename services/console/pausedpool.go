package console

import (
	"context"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// PoolPause is how many runs stand still because a shared budget is used up.
type PoolPause struct {
	Runs   int64
	Since  time.Time    // of the one that was last written to longest ago
	Oldest events.RunID // through which the budget can be raised
}

// Rejection is a kind of messages that a service took and could make nothing of.
type Rejection struct {
	Service, Code string
	Count         int64
	First, Last   time.Time
}

// LostNotice is a message to people that is not known to have arrived.
type LostNotice struct {
	ID, Channel, Reason, State, Problem string
	RunID                               events.RunID
	CreatedAt                           time.Time
}

// OperationReader reads what the pages about budgets and the system show beside the rest.
type OperationReader interface {
	// PoolPauses says by the name of a shared budget which runs it stops.
	PoolPauses(ctx context.Context, namespace string) (map[string]PoolPause, error)
	// Rejections lists what was rejected within seven days, of all namespaces: what could
	// not be read names none. The newest first, at most limit.
	Rejections(ctx context.Context, limit int) ([]Rejection, error)
	// LostNotices lists at most limit notices of seven days, the newest first.
	LostNotices(ctx context.Context, namespace string, limit int) ([]LostNotice, error)
}
