package tools

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// Resolve is an operator's verdict on an effect in doubt.
type Resolve struct {
	Namespace string
	EffectID  string
	Verdict   string // events.Happened, NotHappened or GiveUp
	Result    json.RawMessage
	Comment   string
	By        string
	// Epoch, when set, is of the doubt that By looked at.
	Epoch int64
}

// Resolve settles an effect in doubt. The verdict and the messages that follow
// from it are committed together before anything is sent; after a nil error
// they reach the runs by themselves. The same verdict of the same person again
// is no error. ErrNotFound; *NotInDoubt when the outcome
// is known or somebody resolved it before.
func (s *Service) Resolve(ctx context.Context, r Resolve) (Effect, error) {
	if err := checkVerdict(r.Verdict, r.Result); err != nil {
		return Effect{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	e, err := s.reader.Effect(ctx, r.Namespace, r.EffectID)
	if err != nil {
		return Effect{}, err
	}
	if !e.Open() {
		if e.SettledBy == r.By && e.settledAs() == r.Verdict {
			return e, nil // the same verdict again, whose answer may have been lost
		}
		return Effect{}, &NotInDoubt{Effect: e}
	}
	if r.Epoch != 0 && r.Epoch != e.Claim.Epoch {
		return Effect{}, &NotInDoubt{Effect: e, Shown: r.Epoch}
	}
	done, err := s.controls.Settle(ctx, Settle{
		ID:     fmt.Sprintf("resolve:%s:%d", e.ID, e.Claim.Epoch),
		CallID: e.CallID, RunID: e.RunID, EffectID: e.ID, Verdict: r.Verdict, Epoch: e.Claim.Epoch,
		Result: r.Result, By: r.By, Reason: r.Comment,
		Messages: func(d Settled) ([]events.Message, error) { return SettledMessages(d, "") },
	})
	if err != nil {
		return Effect{}, fmt.Errorf("resolve effect %s: %w", e.ID, err)
	}
	if !done.Applied || done.Known {
		return Effect{}, &NotInDoubt{Effect: *done.Effect}
	}
	s.log.InfoContext(ctx, "effect resolved", "effect_id", e.ID, "verdict", r.Verdict, telemetry.KeyPrincipal, r.By)
	s.kick()
	return *done.Effect, nil
}

// settledAs is the verdict that an effect was settled with.
func (e Effect) settledAs() string {
	switch e.State {
	case EffectSucceeded:
		return events.Happened
	case EffectFailed:
		return events.NotHappened
	case EffectUnknown:
		return events.GiveUp
	}
	return ""
}

// Effect returns one effect; ErrNotFound.
func (s *Service) Effect(ctx context.Context, namespace, id string) (Effect, error) {
	return s.reader.Effect(ctx, namespace, id)
}

// Effects lists effects, those in doubt first.
func (s *Service) Effects(ctx context.Context, f Filter) ([]Effect, error) {
	return s.reader.Effects(ctx, f)
}

// Standing returns the stop that would hold an effect, nil when none does.
func (s *Service) Standing(ctx context.Context, e Effect) (*Stop, error) {
	return s.store.Standing(ctx, e.Namespace, e.Tool, e.RunID)
}
