package console

import (
	"context"
	"time"
)

// Pool is what one window of a shared budget has used. Unit says what its numbers
// are: "tokens", "micro_usd", "modelCalls" or "toolCalls".
type Pool struct {
	Name, Window, Unit    string
	Limit, Used, Reserved int64
	Alerts                []PoolAlert
}

// PoolAlert is a threshold that was passed.
type PoolAlert struct {
	Percent int       `json:"percent"`
	Limit   int64     `json:"ceiling"`
	At      time.Time `json:"at"`
}

// PoolReader reads shared budgets.
type PoolReader interface {
	// Pools lists at most limit windows of a namespace by the name of their budget,
	// the newest first: of every name the newest one, or all of the name that is
	// given.
	Pools(ctx context.Context, namespace, name string, limit int) ([]Pool, error)
}
