package runner

import "errors"

var (
	// ErrVersionConflict says that the run's journal grew since it was read:
	// read again and decide again.
	ErrVersionConflict = errors.New("run version conflict")
	// ErrFenced says that a claim's epoch rose: another worker owns the call.
	ErrFenced = errors.New("claim lost to a newer epoch")
	// ErrNoRun says that the run has no row.
	ErrNoRun = errors.New("no such run")
	// ErrDefinition wraps a definition that a run needs and that is not there
	// or does not decode.
	ErrDefinition = errors.New("definition not usable")
)

// ErrOwnerAlive says that a claim cannot be taken over: its worker's heart
// beats, or the taker's own does not beat reliably enough to judge.
var ErrOwnerAlive = errors.New("claim holder is alive")
