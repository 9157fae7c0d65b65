package runner

import (
	"context"
	"errors"

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
	for _, d := range due {
		if err := s.nudgeOne(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) nudgeOne(ctx context.Context, d DueNudge) error {
	kind, _, _ := cutItem(d.Item)
	if stream, durable := inboxOf(kind); s.lag != nil {
		// A backlog explains the silence: the command is still in the queue.
		if waiting, err := s.lag.Pending(ctx, stream, durable); err == nil && waiting > 0 {
			return nil
		}
	}
	l, err := s.store.Load(ctx, d.RunID, s.cache.get(d.RunID))
	if errors.Is(err, ErrNoRun) {
		return nil
	}
	if err != nil {
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
	s.logFor(d.RunID).Info("asked again about pending work", "item", d.Item, "attempt", d.Try)
	return s.bus.Publish(ctx, m)
}

func inboxOf(kind string) (stream, durable string) {
	switch kind {
	case "call":
		return events.StreamTools, events.ToolConsumer("default")
	case "approval":
		return events.StreamApprovals, events.ConsumerApprovals
	case "model":
		return events.StreamRuns, events.ConsumerRunnerStep
	}
	return events.StreamRuns, events.ConsumerRunner
}
