package trigger

import (
	"context"
	"encoding/json"

	"github.com/holdfast-run/holdfast/internal/follow"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// Runs reads the runs that the API started, and no others.
type Runs interface {
	follow.History
	// Outcome returns where a run is; one that no runner has yet is queued.
	// ErrNotFound outside the namespace.
	Outcome(ctx context.Context, namespace string, run events.RunID) (Outcome, error)
}

// Outcome is how a run ended, or its status when it has not.
type Outcome struct {
	Status string
	Output json.RawMessage // of a run that completed
	Error  json.RawMessage // of one that ended otherwise: {"code", "message"}
}

// Await returns the outcome of a run that the API started when it has ended, or
// ctx's error when that comes first. The run goes on either way.
func (s *Service) Await(ctx context.Context, namespace string, run events.RunID) (out Outcome, err error) {
	err = s.follower.Await(ctx, run, func(ctx context.Context) (bool, error) {
		out, err = s.store.Outcome(ctx, namespace, run)
		return events.Ended(out.Status), err
	})
	return out, err
}

// Stream writes every event of a run that the API started to sink, from the
// first one on, what the model writes meanwhile, and "event: end". It waits for a run that no runner has yet.
func (s *Service) Stream(ctx context.Context, namespace string, run events.RunID, sink follow.Sink) error {
	return s.follower.Stream(ctx, namespace, run, 0, true, sink)
}
