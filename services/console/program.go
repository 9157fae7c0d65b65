package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// KindProgram is the kind of a run whose loop is a program of the user.
const KindProgram = "program"

// Bounds of what a program may send and of what is kept of it.
const (
	DefaultCheckpointBytes = 1 << 20
	// KeptCheckpoints is how many of a run's newest checkpoints are kept.
	KeptCheckpoints = 50
	maxProgramLabel = 16
	maxProgramKey   = 200 // bytes of an Idempotency-Key
	maxOutputBytes  = 1 << 20
)

var (
	// ErrStale says that a checkpoint was saved over another one than the newest.
	ErrStale = errors.New("checkpoint is stale")
	// ErrProgram says that no runner knows the run: its program drives it.
	ErrProgram = errors.New("run is driven by its program")
	// ErrInvalid says that a request makes no sense.
	ErrInvalid = errors.New("invalid")
)

// Program starts a program's own run.
type Program struct {
	ID        events.RunID
	Namespace string
	Name      string
	Input     json.RawMessage
	Labels    map[string]string
	Principal string
	Key       string // the caller's Idempotency-Key; the same key is the same run
	digest    events.Digest
}

// Digest tells requests apart: name, input and labels.
func (p Program) Digest() events.Digest { return p.digest }

// Checkpoint is a saved state of a program's run; Version 0 and no state before
// the first one.
type Checkpoint struct {
	RunID   events.RunID
	Status  string // of the run
	Version int64
	State   json.RawMessage
	SavedAt time.Time
}

// Save stores the next checkpoint over version Over.
type Save struct {
	Namespace string
	RunID     events.RunID
	Over      int64
	State     json.RawMessage
	Key       string // a repeat of the same save is the same save
}

// End is how a program's run ended.
type End struct {
	Namespace string
	RunID     events.RunID
	Status    string // completed, failed or cancelled
	Output    json.RawMessage
	Error     *events.Problem
	digest    events.Digest
}

// Digest tells ends apart.
func (e End) Digest() events.Digest { return e.digest }

// ProgramStore keeps programs' own runs. Each write is one guarded statement.
type ProgramStore interface {
	// StartProgram stores p, or returns the run that its key has started;
	// ErrKeyReused when that was another request.
	StartProgram(ctx context.Context, p Program) (run events.RunID, status string, replayed bool, err error)
	// LoadCheckpoint returns the newest checkpoint, or that of a version;
	// ErrNotFound.
	LoadCheckpoint(ctx context.Context, namespace string, run events.RunID, version int64) (Checkpoint, error)
	// SaveCheckpoint stores the next checkpoint if Over is the newest; ErrStale,
	// ErrEnded, ErrNotFound. The same key over the same version again returns what
	// it saved.
	SaveCheckpoint(ctx context.Context, s Save) (Checkpoint, error)
	// EndProgram ends a run; the same end again is no error. ErrEnded, ErrNotFound.
	EndProgram(ctx context.Context, e End) (status string, err error)
}

// CheckpointBytes is the largest state that a program may save.
func (s *Service) CheckpointBytes() int64 { return s.limit }

// StartProgram starts a program's own run. Its id is minted here; a repeat of
// the key gets the first one.
func (s *Service) StartProgram(ctx context.Context, p Program) (run events.RunID, status string, replayed bool, err error) {
	if err := p.check(); err != nil {
		return "", "", false, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	p.ID = events.NewRunID()
	run, status, replayed, err = s.Store.StartProgram(ctx, p)
	if err == nil && !replayed {
		s.log.InfoContext(ctx, "a program's run was started", telemetry.KeyRunID, run, "name", p.Name)
	}
	return run, status, replayed, err
}

func (p *Program) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !events.ValidToken(p.Name) {
		bad("name: use 1 to 120 of A-Z a-z 0-9 _ -")
	}
	if len(p.Labels) > maxProgramLabel {
		bad("labels: at most %d", maxProgramLabel)
	}
	for k, v := range p.Labels {
		if k == "" || len(k) > 120 || len(v) > 500 {
			bad("labels: keys of 1 to 120 bytes, values of at most 500")
		}
	}
	if len(p.Key) > maxProgramKey {
		bad("Idempotency-Key: at most %d bytes", maxProgramKey)
	}
	if len(p.Input) == 0 {
		p.Input = json.RawMessage("{}")
	}
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	digest, err := digestOf(map[string]any{"name": p.Name, "input": p.Input, "labels": p.Labels})
	if err != nil {
		bad("input: %w", err)
	}
	p.digest = digest
	return errors.Join(errs...)
}

// EndProgram ends a program's own run, once.
func (s *Service) EndProgram(ctx context.Context, e End) (string, error) {
	if err := e.check(); err != nil {
		return "", fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	status, err := s.Store.EndProgram(ctx, e)
	if err == nil {
		s.log.InfoContext(ctx, "a program's run ended", telemetry.KeyRunID, e.RunID, "status", status)
	}
	return status, err
}

func (e *End) check() error {
	switch e.Status {
	case events.StatusCompleted:
		if e.Error != nil {
			return errors.New("error: a run that completed has none")
		}
		if len(e.Output) == 0 {
			e.Output = json.RawMessage("null")
		}
	case events.StatusFailed, events.StatusCancelled:
		if len(e.Output) > 0 {
			return fmt.Errorf("output: a run that is %s has none", e.Status)
		}
		if e.Error == nil && e.Status == events.StatusFailed {
			return errors.New("error: say why it failed")
		}
	default:
		return fmt.Errorf("status is %.40q, want completed, failed or cancelled", e.Status)
	}
	digest, err := digestOf(map[string]any{"status": e.Status, "output": e.Output, "error": e.Error})
	e.digest = digest
	return err
}

func digestOf(v any) (events.Digest, error) {
	raw, err := events.Marshal(v)
	if err != nil {
		return "", err
	}
	canonical, err := events.Canonical(raw)
	return events.DigestOf(canonical), err
}
