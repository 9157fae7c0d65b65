package tools

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// What a stop is about.
const (
	StopAll   = "all"   // every write of the namespace
	StopAgent = "agent" // writes of runs of an agent or flow, and of the runs that they started
	StopTool  = "tool"  // writes of one tool; program/<name> for what programs do
)

// EffectHeld is how an intent is shown that a stop holds. In the rows it is an
// intent without an attempt that names the stop.
const EffectHeld = "held"

// Stop is an order that no new write leaves, until somebody ends it.
type Stop struct {
	ID        string
	Namespace string
	Scope     string // StopAll, StopAgent or StopTool
	Name      string // of the agent or tool
	Note      string
	By        string
	Since     time.Time
	EndedAt   time.Time // zero while it stands
	EndedBy   string
	EndNote   string
	Held      int64 // effects that wait because of it
}

// String says for people who holds a write, since when and why.
func (s Stop) String() string {
	return fmt.Sprintf("held by the stop of %s since %s: %s", s.By, s.Since.UTC().Format("2006-01-02 15:04:05 UTC"), s.Note)
}

// MaxStopNote is how long the note of a stop may be, in bytes.
const MaxStopNote = 1000

// Check says what is wrong with a stop that somebody asks for; ErrInvalid.
func (s Stop) Check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch s.Scope {
	case StopAll:
		if s.Name != "" {
			bad("name: a stop of all has none")
		}
	case StopAgent:
		if !events.ValidToken(s.Name) {
			bad("name: of the agent or flow, 1 to 120 of A-Z a-z 0-9 _ -")
		}
	case StopTool:
		if name := strings.TrimPrefix(s.Name, ProgramPrefix); !events.ValidToken(name) && name != events.CallbackTool {
			bad("name: of the tool, or program/NAME, or %s", events.CallbackTool)
		}
	default:
		bad("scope is %.40q, want all, agent or tool", s.Scope)
	}
	if err := checkNote(s.Note); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return fmt.Errorf("%w: %w", ErrInvalid, errors.Join(errs...))
	}
	return nil
}

func checkNote(note string) error {
	if strings.TrimSpace(note) == "" || len(note) > MaxStopNote || !utf8.ValidString(note) || strings.ContainsRune(note, 0) {
		return fmt.Errorf("note: say why, in 1 to %d bytes of text", MaxStopNote)
	}
	return nil
}

// StopFilter narrows a list of stops.
type StopFilter struct {
	Namespace string // required
	Standing  bool   // leave out those that have ended
	Limit     int
	After     *StopPosition
}

// StopPosition is a place in a list of stops, newest first.
type StopPosition struct {
	Since time.Time `json:"t"`
	ID    string    `json:"i"`
}

// Position is where the stop stands in a list.
func (s Stop) Position() StopPosition { return StopPosition{Since: s.Since, ID: s.ID} }

// StopStore keeps stops.
type StopStore interface {
	// PutStop stores a stop, or returns the one that stands for the same scope
	// and name.
	PutStop(ctx context.Context, s Stop) (stored Stop, made bool, err error)
	// EndStop ends a stop once and returns it as it stands; ErrNotFound.
	EndStop(ctx context.Context, namespace, id, by, note string) (Stop, error)
	// Stop returns one; ErrNotFound.
	Stop(ctx context.Context, namespace, id string) (Stop, error)
	// Stops lists them, newest first.
	Stops(ctx context.Context, f StopFilter) ([]Stop, error)
}

// StopWrites orders that no new write of the scope leaves. When it returns, no
// process begins one any more: the statement that commits an intent reads the
// stops. What stands already is returned. ErrInvalid.
func (s *Service) StopWrites(ctx context.Context, stop Stop) (Stop, error) {
	if err := stop.Check(); err != nil {
		return Stop{}, err
	}
	var b [10]byte
	if _, err := rand.Read(b[:]); err != nil {
		return Stop{}, fmt.Errorf("read random bytes: %w", err)
	}
	stop.ID = "stop-" + hex.EncodeToString(b[:])
	stored, made, err := s.stops.PutStop(ctx, stop)
	if err != nil {
		return Stop{}, fmt.Errorf("stop %s %s: %w", stop.Scope, stop.Name, err)
	}
	if made {
		s.log.WarnContext(ctx, "writes are stopped", "stop", stored.ID, "scope", stored.Scope, "name", stored.Name, telemetry.KeyPrincipal, stored.By)
	}
	return stored, nil
}

// StartWrites ends a stop. What it held goes on within a sweep, unless another
// stop holds it. A stop that has ended is returned as it is.
// ErrNotFound, ErrInvalid.
func (s *Service) StartWrites(ctx context.Context, namespace, id, by, note string) (Stop, error) {
	if note != "" {
		if err := checkNote(note); err != nil {
			return Stop{}, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	stop, err := s.stops.EndStop(ctx, namespace, id, by, note)
	if err != nil {
		return Stop{}, fmt.Errorf("end stop %s: %w", id, err)
	}
	s.log.WarnContext(ctx, "writes go on", "stop", stop.ID, "scope", stop.Scope, "name", stop.Name, telemetry.KeyPrincipal, stop.EndedBy)
	return stop, nil
}

// FindStop returns one stop; ErrNotFound.
func (s *Service) FindStop(ctx context.Context, namespace, id string) (Stop, error) {
	return s.stops.Stop(ctx, namespace, id)
}

// Stops lists stops, newest first.
func (s *Service) Stops(ctx context.Context, f StopFilter) ([]Stop, error) {
	return s.stops.Stops(ctx, f)
}

// heldError says that the intent was not committed: a stop holds the effect,
// which waits as a row.
type heldError struct{ stop string }

func (e *heldError) Error() string { return "held by stop " + e.stop }

// staleIntent is how old an intent may be that acts without looking at the stops
// again.
const staleIntent = 100 * time.Millisecond

// stopped looks at the stops again for an intent that was committed a while ago.
func (s *Service) stopped(ctx context.Context, j *job, in *intent) (bool, error) {
	if in.Read || s.now().Sub(in.sent) < staleIntent {
		return false, nil
	}
	stop, err := s.store.Standing(ctx, j.c.Namespace, j.c.Tool, j.c.RunID)
	if err != nil {
		return false, fmt.Errorf("read stops before the act of call %s: %w", j.c.CallID, err)
	}
	return stop != nil, nil
}

// onceHeld answers a program whose act a stop forbids; nil when none does.
func (s *Service) onceHeld(ctx context.Context, o Once) (*OnceAnswer, error) {
	stop, err := s.store.Standing(ctx, o.Namespace, o.Tool, o.RunID)
	if err != nil {
		return nil, fmt.Errorf("read stops for key %q: %w", o.Key, err)
	}
	if stop == nil {
		return nil, nil
	}
	return &OnceAnswer{Status: OnceHeld, Effect: Effect{Key: o.Key}, RetryAfter: heldRetry, Advice: stop.String()}, nil
}

// heldRetry is when a program that a stop holds should ask again.
const heldRetry = 5 * time.Second

func orZero(a *OnceAnswer) OnceAnswer {
	if a == nil {
		return OnceAnswer{}
	}
	return *a
}
