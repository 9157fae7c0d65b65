package console

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/pkg/spec"
)

// TakeoversKept is how long the runner keeps what a report on durability counts.
const TakeoversKept = 90 * 24 * time.Hour

// Durability is what became of work whose worker was lost, and what was kept from
// happening twice, in a time that ends now. All of it is counted from what services
// committed, nothing is estimated.
type Durability struct {
	Since time.Time
	Until time.Time

	Lost       int64 // times that a run lost its worker
	HandedOver int64 // times that a worker which was told to stop left a run to another
	Runs       int64 // runs that lost a worker, each once; those deleted since are not counted
	Resumed    int64 // of Runs: written to again after the last loss, or ended
	Parked     int64 // of Runs: need a person now
	Open       int64 // of Runs: neither yet

	// From a lost worker's last sign of life to the claim of the next one. Zero without
	// a loss.
	ResumeP50, ResumeP99, ResumeMax time.Duration

	Prevented int64 // calls that were answered with what another call under the same key did
	Refused   int64 // calls that had the key of something else
	InDoubt   int64 // effects of which nobody knows now whether they happened
}

// DurabilityReader counts what services have committed.
type DurabilityReader interface {
	Durability(ctx context.Context, namespace string, over time.Duration) (Durability, error)
}

// DurabilityOver reads how far back a report goes: a length of time like 24h or 7d, at
// most [TakeoversKept]; empty is 24h. It is pure.
func DurabilityOver(since string) (time.Duration, error) {
	if since == "" {
		return 24 * time.Hour, nil
	}
	d, err := spec.ParseDuration(since)
	if err != nil || d <= 0 || time.Duration(d) > TakeoversKept {
		return 0, fmt.Errorf("since: %q is not a length of time like 24h or 7d, at most 90d", since)
	}
	return time.Duration(d), nil
}
