package runner

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// runDoctor asks about pending work without progress instead of looking at it:
// it re-sends the item's command under a fresh message id, and the receiver
// answers from its own rows. So even the loss of all messages loses nothing.
func (s *Service) runDoctor(ctx context.Context) {
	for ctx.Err() == nil {
		if err := s.nudge(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("pending work not asked about", "err", err)
		}
		sleep(ctx, s.cfg.DoctorEvery)
	}
}

func (s *Service) nudge(ctx context.Context) error {
	due, err := s.store.DueNudges(ctx, 200)
	if err != nil {
		return err
	}
	for i, d := range due {
		if err := s.nudgeOne(ctx, d); err != nil {
			if !errors.Is(err, errUnsent) {
				i++ // the fault is its own: it is not asked about sooner than any
			}
			return putBack(ctx, err, due[i:], s.store.PutBackNudges)
		}
	}
	return nil
}

func (s *Service) nudgeOne(ctx context.Context, d DueNudge) error {
	kind, _, _ := cutItem(d.Item)
	l, err := s.store.Load(ctx, d.RunID, s.cache.get(d.RunID))
	switch _, damaged := errors.AsType[*DamagedError](err); {
	case damaged:
		return ignore(s.parkOn(ctx, d.RunID, "", err), err)
	case errors.Is(err, ErrNoRun), errors.Is(err, ErrNewer):
		return nil
	case err != nil:
		return err
	}
	if kind == pendingModel && l.Claim.Held() && s.working(d.RunID, l.Claim) {
		return nil
	}
	plan, err := s.plan(ctx, l.State)
	if err != nil {
		return err
	}
	m, ok := Nudge(l.State, plan, d.Item, d.Try)
	if !ok {
		return nil // it moved on since
	}
	if m.Type == events.TypeStepRun {
		m = s.inLane(ctx, m, l.State.Started.Ref.Name, l.State.Started.Priority)
	}
	if s.inQueue(ctx, m, d.Try) {
		return nil
	}
	if err := s.publish(ctx, m); err != nil {
		return fmt.Errorf("%w: %w", errUnsent, err)
	}
	s.logFor(d.RunID).Info("asked again about pending work", "item", d.Item, "attempt", d.Try)
	return nil
}

// errUnsent says that a question about pending work did not get out.
var errUnsent = errors.New("not asked")

// patience is how many looks a backlog may explain an item's silence; after
// that it is asked about anyway, since its command may be the lost one.
const patience = 3

// inQueue reports whether m's like is probably still waiting to be consumed.
func (s *Service) inQueue(ctx context.Context, m events.Message, try int) bool {
	if s.lag == nil || try > patience {
		return false
	}
	stream, durable := events.StreamRuns, events.ConsumerRunner
	switch m.Type {
	case events.TypeCallTool:
		pool, _, _ := strings.Cut(strings.TrimPrefix(m.Subject, "hf.tool."), ".")
		stream, durable = events.StreamTools, events.ToolConsumer(pool)
	case events.TypeControlTool:
		stream, durable = events.StreamTools, events.ConsumerToolCtl
	case events.TypeAskApproval:
		stream, durable = events.StreamApprovals, events.ConsumerApprovals
	case events.TypeStepRun:
		durable = events.StepConsumer(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:])
	}
	waiting, err := s.lag.Pending(ctx, stream, durable)
	return err == nil && waiting > 0
}
