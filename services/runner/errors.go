package runner

import (
	"errors"
	"fmt"

	"github.com/holdfast-run/holdfast/pkg/events"
)

var (
	// ErrVersionConflict says that the run's journal grew since it was read:
	// read again and decide again.
	ErrVersionConflict = errors.New("run version conflict")
	// ErrFenced says that a claim's epoch rose: another worker owns the call.
	ErrFenced = errors.New("claim lost to a newer epoch")
	// ErrNoRun says that the run has no row.
	ErrNoRun = errors.New("no such run")
	// ErrDeleted is ErrNoRun for a run that was deleted.
	ErrDeleted = fmt.Errorf("%w any more: it was deleted", ErrNoRun)
	// ErrNewer says that a newer release wrote rows to the run that this one does
	// not understand: it is left to that release.
	ErrNewer = errors.New("written by a newer release")
	// ErrDefinition wraps a definition that a run needs and that is not there
	// or does not decode.
	ErrDefinition = errors.New("definition not usable")
)

// ErrOwnerAlive says that a claim cannot be taken over: its worker's heart
// beats, or the taker's own does not beat reliably enough to judge.
var ErrOwnerAlive = errors.New("claim holder is alive")

// DamagedError is a journal that does not give a state: a run is never continued
// from what can be read of it.
type DamagedError struct {
	Seq  int64 // the run's version as its row says
	Last int64 // the last row that is in order; what it says is known
	Err  error
}

func (e *DamagedError) Error() string { return e.Err.Error() }
func (e *DamagedError) Unwrap() error { return e.Err }

// Problem is what a person is told about it.
func (e *DamagedError) Problem() events.Problem {
	return events.Problem{Code: codeDamaged, Message: clip(fmt.Sprintf(
		"the journal cannot be read beyond row %d of %d, and nothing is done from what is left of it: %v", e.Last, e.Seq, e.Err), 500)}
}
