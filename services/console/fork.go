package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/holdfast-run/holdfast/pkg/events"
)

var (
	// ErrFlow says that only an agent's run can be continued by another one.
	ErrFlow = errors.New("run is a flow's")
	// ErrNotFailed says that a run did not end without success.
	ErrNotFailed = errors.New("run has not failed")
	// ErrNoRow says that a run's journal is shorter.
	ErrNoRow = errors.New("no such row")
)

// ForkOrder asks for a new run that goes on from another's rows.
type ForkOrder struct {
	From   events.RunID
	At     int64 // newest row that may be taken over; 0 for any
	Retry  bool
	Edits  events.ForkEdits
	Reason string
}

// Check reports what is wrong with an order, in words for the operator.
func (o ForkOrder) Check() error {
	if len(o.Reason) > 1000 {
		return fmt.Errorf("reason has %d bytes; at most 1000 are kept", len(o.Reason))
	}
	if o.At < 0 {
		return fmt.Errorf("at is %d; rows begin with 1", o.At)
	}
	if o.Retry && (o.At != 0 || !o.Edits.None()) {
		return errors.New("a retry edits nothing and takes the last good row; fork the run to do otherwise")
	}
	for what, text := range map[string]string{"prompt": o.Edits.Prompt, "instructions": o.Edits.Instructions, "message": o.Edits.Message} {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) || text != "" && strings.TrimSpace(text) == "" {
			return fmt.Errorf("%s: use text without NUL that is not blank", what)
		}
	}
	if len(o.Edits.Message) > events.ForkMessageBytes {
		return fmt.Errorf("message has %d bytes; at most %d are taken", len(o.Edits.Message), events.ForkMessageBytes)
	}
	if len(o.Edits.Results) > events.ForkResults {
		return fmt.Errorf("%d results are edited; at most %d may be", len(o.Edits.Results), events.ForkResults)
	}
	bytes := len(o.Edits.Input) + len(o.Edits.Prompt) + len(o.Edits.Instructions) + len(o.Edits.Message)
	for id, result := range o.Edits.Results {
		if _, ok := id.Run(); !ok || id.Row() == 0 {
			return fmt.Errorf("results: %.150q is no id of a call; they stand in the journal as call_id", id)
		}
		if _, err := events.Canonical(result); err != nil {
			return fmt.Errorf("results of call %s: %w", id, err)
		}
		bytes += len(result)
	}
	if _, err := events.Canonical(o.Edits.Input); len(o.Edits.Input) > 0 && err != nil {
		return fmt.Errorf("input: %w", err)
	}
	if bytes > events.ForkBytes {
		return fmt.Errorf("the edits have %d bytes; at most %d are taken", bytes, events.ForkBytes)
	}
	return nil
}

// ForkStore keeps orders for new runs.
type ForkStore interface {
	// AddFork inserts c, a command of the kind fork, and gives its run its id. When
	// its Key was used before, or o is a retry and its run was retried, the stored
	// command is returned instead; ErrKeyReused when that one orders something else.
	// ErrNotFound, ErrProgram, ErrFlow and ErrNotFailed are about the old run.
	AddFork(ctx context.Context, c Command, o ForkOrder) (stored Command, replayed bool, err error)
	// PastEffects lists what the ledger has of a run's calls behind row at that
	// happened or may have, at most limit.
	PastEffects(ctx context.Context, namespace string, run events.RunID, at int64, limit int) ([]events.PastEffect, error)
}

// Fork is an accepted order and, once a runner has it, what was made of it.
type Fork struct {
	Command
	Replayed bool
	From     events.RunID
	AskedAt  int64
	At       int64 // 0: no runner has it yet
	Status   string
	Problem  json.RawMessage
	// Behind are the calls of the old run behind the row that was taken, or that was
	// asked for, which changed something or may have.
	Behind []events.PastEffect
	More   bool // there are more than MaxBehindEffects
}

// MaxBehindEffects is how many calls an answer lists.
const MaxBehindEffects = 200

// forkWait is how long an answer waits for a runner, to say which row it took.
const forkWait = 2 * time.Second

// Fork records an order for a new run. The same key, or a second retry of the
// same run, returns the same command.
func (s *Service) Fork(ctx context.Context, namespace, principal, key string, o ForkOrder) (Fork, error) {
	c, replayed, err := s.addFork(ctx, namespace, principal, key, o)
	if err != nil {
		return Fork{}, err
	}
	s.relay.Kick()
	f := Fork{Command: c, Replayed: replayed, From: o.From, AskedAt: o.At, Status: events.StatusQueued}
	taken, err := s.takenFork(ctx, namespace, c.RunID)
	if err != nil {
		return Fork{}, err
	}
	after := o.At
	if taken != nil {
		if f.Status, f.Problem = taken.Status, taken.Error; taken.Origin != nil {
			f.At, after = taken.Origin.Row, taken.Origin.Row
		}
	}
	f.Behind, err = s.PastEffects(ctx, namespace, o.From, after, MaxBehindEffects+1)
	if f.More = len(f.Behind) > MaxBehindEffects; f.More {
		f.Behind = f.Behind[:MaxBehindEffects]
	}
	return f, err
}

func (s *Service) addFork(ctx context.Context, namespace, principal, key string, o ForkOrder) (Command, bool, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Command{}, false, err
	}
	run := events.NewRunID()
	raw, err := events.Marshal(events.ForkRun{ID: id.String(), RunID: run, From: o.From, At: o.At, Retry: o.Retry, Edits: o.Edits, Principal: principal, Reason: o.Reason})
	if err != nil {
		return Command{}, false, fmt.Errorf("marshal fork: %w", err)
	}
	return s.AddFork(ctx, Command{ID: id.String(), Namespace: namespace, RunID: run, Kind: events.RunFork, Principal: principal, Key: key, Body: raw}, o)
}

// takenFork waits a little for a runner; nil when none has it yet.
func (s *Service) takenFork(ctx context.Context, namespace string, id events.RunID) (*Run, error) {
	for deadline := time.Now().Add(forkWait); ; {
		seq, _, err := s.Head(ctx, namespace, id)
		if err != nil {
			return nil, err
		}
		if seq > 0 {
			r, err := s.GetRun(ctx, namespace, id)
			return &r, err
		}
		if time.Now().After(deadline) {
			return nil, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(30 * time.Millisecond):
		}
	}
}
