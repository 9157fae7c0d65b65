package tools

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// HandleControl takes one ControlTool message: a verdict on a doubt, or a run
// that takes a call back. Each is recorded once; a repeat is answered with what
// the rows say.
func (s *Service) HandleControl(ctx context.Context, m events.Received) error {
	if m.Type != events.TypeControlTool {
		return fault.Terminal("unknown_type", fmt.Errorf("tool control cannot handle messages of type %q", m.Type))
	}
	var c events.ControlTool
	if err := events.Decode(m.Message, &c); err != nil {
		return fault.Terminal("decode", err)
	}
	if run, ok := c.CallID.Run(); !ok || run != c.RunID || !events.ValidToken(string(c.CallID)) {
		return fault.Terminal("invalid", fmt.Errorf("%s: call_id %.150q is not a call of run %.50q", m.ID, c.CallID, c.RunID))
	}
	switch c.Action {
	case events.ControlRevoke:
		return s.revoke(ctx, m, c)
	case events.ControlSettle:
		return s.settle(ctx, m, c)
	}
	return fault.Terminal("invalid", fmt.Errorf("%s: action %q is not known", m.ID, c.Action))
}

func (s *Service) revoke(ctx context.Context, m events.Received, c events.ControlTool) error {
	call, err := s.controls.Revoke(ctx, m.ID, c, m.Namespace, m.TraceParent)
	if errors.Is(err, ErrRunDeleted) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("revoke call %s: %w", c.CallID, err)
	}
	s.log.InfoContext(ctx, "call revoked or its outcome awaited", telemetry.KeyRunID, c.RunID, telemetry.KeyCallID, c.CallID, "status", call.Status)
	return s.announce(ctx, []Call{call}, controlSuffix(m))
}

func (s *Service) settle(ctx context.Context, m events.Received, c events.ControlTool) error {
	if err := checkVerdict(c.Verdict, c.Result); err != nil {
		return fault.Terminal("invalid", fmt.Errorf("%s: %w", m.ID, err))
	}
	done, err := s.controls.Settle(ctx, Settle{
		ID: m.ID, CallID: c.CallID, RunID: c.RunID, Verdict: c.Verdict, Epoch: c.Epoch,
		Result: c.Result, By: c.By, Reason: c.Reason,
	})
	if err != nil {
		return fmt.Errorf("settle call %s: %w", c.CallID, err)
	}
	log := s.log.With(telemetry.KeyRunID, c.RunID, telemetry.KeyCallID, c.CallID, "verdict", c.Verdict, telemetry.KeyPrincipal, c.By)
	if done.Effect == nil {
		log.WarnContext(ctx, "verdict about a call that has no effect")
		return nil
	}
	if !done.Applied {
		log.WarnContext(ctx, "verdict came too late, the rows are sent again", "state", done.Effect.State)
	}
	return s.tell(ctx, done, c.CallID, controlSuffix(m))
}

// controlSuffix makes ids of repeats fresh; the first delivery needs none.
func controlSuffix(m events.Received) string {
	if m.Redelivered() {
		return replaySuffix(m)
	}
	return ""
}

// tell publishes what follows from a verdict: the answers of the effect's
// calls, and the call that acts now when it did not happen.
func (s *Service) tell(ctx context.Context, done Settled, call events.CallID, suffix string) error {
	msgs, err := SettledMessages(done, call)
	if err != nil {
		return err
	}
	for _, m := range msgs {
		if suffix != "" {
			m.MsgID += ":" + suffix
		}
		if err := s.bus.Publish(ctx, m); err != nil {
			return fmt.Errorf("publish %s: %w", m.ID, err)
		}
	}
	return nil
}

// SettledMessages lists what follows from a verdict. An empty call means the
// call that opened the effect.
func SettledMessages(done Settled, call events.CallID) ([]events.Message, error) {
	if call == "" {
		call = done.Effect.CallID
	}
	var out []events.Message
	for _, c := range done.Calls {
		var m events.Message
		var err error
		switch {
		case c.Status != CallOpen:
			m, err = Completed(c)
		case c.ID == call && done.Effect.State == EffectFailed:
			m, err = Again(c, fmt.Sprintf("e%d", done.Effect.Claim.Epoch))
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

func checkVerdict(verdict string, result []byte) error {
	switch verdict {
	case events.Happened, events.NotHappened, events.GiveUp:
	default:
		return fmt.Errorf("verdict is %q, want %s, %s or %s", verdict, events.Happened, events.NotHappened, events.GiveUp)
	}
	if len(result) > 0 {
		if verdict != events.Happened {
			return fmt.Errorf("only the verdict %s carries a result", events.Happened)
		}
		if _, err := events.Canonical(result); err != nil {
			return fmt.Errorf("result: %w", err)
		}
	}
	return nil
}

// Reject keeps a message that can never be handled. When it names a call that
// has not begun, its run is told, so that it does not wait for ever.
func (s *Service) Reject(ctx context.Context, m events.Received, code string, err error) error {
	s.log.ErrorContext(ctx, "tool message rejected", telemetry.KeyEvent, m.ID, telemetry.KeyCode, code, telemetry.KeyErr, err)
	if rerr := s.controls.Reject(ctx, m, code, err); rerr != nil {
		return fmt.Errorf("keep rejected message %s: %w", m.ID, rerr)
	}
	var c events.CallTool
	if m.Type != events.TypeCallTool || code == "call_reused" || events.Decode(m.Message, &c) != nil {
		return nil
	}
	if run, ok := c.CallID.Run(); !ok || run != c.RunID || !events.ValidToken(string(c.CallID)) {
		return nil
	}
	j := &job{m: m, c: c, plan: Plan{Pool: defaultPool, Key: c.Key}, log: s.log}
	row := j.call()
	if row.Args, err = events.Canonical(c.Args); err != nil {
		row.Args = []byte("null")
	}
	row.ArgsDigest = events.DigestOf(row.Args)
	call, ok, err := s.store.Answer(ctx, row, Answer{Status: events.CallFailed, Error: problem(code, "the call could not be handled; nothing was done")})
	if err != nil || !ok || call.Acting {
		return err
	}
	return s.announce(ctx, []Call{call}, "")
}
