package console

import (
	"context"
	"time"

	"github.com/holdfast-run/holdfast/internal/follow"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// RunReader reads the views of the runner, the trigger and the approvals.
type RunReader interface {
	// Runs lists at most Limit runs, newest first, queued ones included.
	Runs(ctx context.Context, f RunFilter) ([]Run, error)
	// NthRun is the id of the n-th run that a runner has and that fits; empty when
	// fewer do.
	NthRun(ctx context.Context, f RunFilter, n int) (events.RunID, error)
	// Situations returns what Why needs for each of runs, which were just listed, but
	// for what is queued before them.
	Situations(ctx context.Context, namespace string, runs []Run) ([]Situation, error)
	// GetRun returns one run; ErrNotFound outside the namespace.
	GetRun(ctx context.Context, namespace string, id events.RunID) (Run, error)
	// Situation returns what Why needs; ErrNotFound outside the namespace.
	Situation(ctx context.Context, namespace string, id events.RunID) (Situation, error)
}

// CommandStore keeps operators' orders until the runner has them.
type CommandStore interface {
	// AddCommand inserts c. When its Key was used before, the stored command is
	// returned instead; ErrKeyReused when that one orders something else.
	// ErrNotFound and ErrEnded are about the run.
	AddCommand(ctx context.Context, c Command) (stored Command, replayed bool, err error)
}

// TokenStore keeps bearer tokens.
type TokenStore interface {
	// AddToken adds t; ErrNameTaken when a person of that name is signed in.
	AddToken(ctx context.Context, t Token) (Token, error)
	// Tokens lists at most limit tokens of a namespace with ids after the given one.
	Tokens(ctx context.Context, namespace, after string, limit int) ([]Token, error)
	// RevokeToken is idempotent; ErrNotFound outside the namespace.
	RevokeToken(ctx context.Context, namespace, id, by string) (Token, error)
}

// ResourceStore keeps definitions.
type ResourceStore interface {
	// Apply stores a whole set or nothing. *MissingError when the set needs
	// what neither it nor the catalog has.
	Apply(ctx context.Context, set Set) ([]Applied, error)
	// Resources lists at most limit current definitions of a namespace after
	// the given place, by kind and name; kind "" means all.
	Resources(ctx context.Context, namespace, kind string, after ResourceName, limit int) ([]Resource, error)
	// Resource returns the current version with its body, or ErrNotFound.
	Resource(ctx context.Context, namespace, kind, name string) (Resource, error)
}

// SystemReader reads who is at work, and what must not be done.
type SystemReader interface {
	Workers(ctx context.Context) ([]Worker, error)
	// Stops lists at most 100 standing stops of a namespace, oldest first.
	Stops(ctx context.Context, namespace string) ([]Stop, error)
}

// Streams tells how far consumers are behind.
type Streams interface {
	Lag(ctx context.Context, stream, durable string) (Lag, error)
}

// Lag is the backlog of one durable consumer.
type Lag struct {
	Stream, Durable string
	Pending         uint64 // not yet delivered
	AckPending      uint64 // delivered and not finished
	Redelivered     int
}

// LagFunc is a function that is a Streams.
type LagFunc func(ctx context.Context, stream, durable string) (Lag, error)

// Lag implements Streams.
func (f LagFunc) Lag(ctx context.Context, stream, durable string) (Lag, error) {
	return f(ctx, stream, durable)
}

// System is what GET /v1/system answers.
type System struct {
	Workers []Worker
	Stops   []Stop
	Lags    []Lag
	// NoLag says why Lags is empty or short; the bus may be away.
	NoLag  string
	Events follow.Position
	At     time.Time
}
