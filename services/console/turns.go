package console

import (
	"context"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// PastTurn is an answer of a run's model, for who chooses where to go on from.
type PastTurn struct {
	Seq  int64
	At   time.Time
	Text string   // its first characters
	Asks []string // tools that it called
}

// PastResult is a call of a run that has its result.
type PastResult struct {
	CallID events.CallID
	Seq    int64
	Tool   string
	Result string // its first bytes
	Whole  bool
}

// TurnReader reads what a fork can begin with.
type TurnReader interface {
	// PastTurns lists at most limit answers up to a row, the newest first.
	PastTurns(ctx context.Context, namespace string, run events.RunID, to int64, limit int) ([]PastTurn, error)
	// PastResults lists at most limit results up to a row, the newest first.
	PastResults(ctx context.Context, namespace string, run events.RunID, to int64, limit int) ([]PastResult, error)
}
