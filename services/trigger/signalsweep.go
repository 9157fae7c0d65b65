package trigger

import (
	"context"
	"time"

	"github.com/holdfast-run/holdfast/internal/telemetry"
)

// SweepSignals forgets signals that are over: that were taken, or that no run waited
// for in time, longer ago than their retention. Run does it now and then. A repeat of
// one that is forgotten is a signal of its own.
func (s *Service) SweepSignals(ctx context.Context) error {
	for ctx.Err() == nil {
		n, err := s.store.SweepSignals(ctx, s.cfg.SignalRetention, sweepBatch)
		if err != nil || n < sweepBatch {
			return err
		}
	}
	return ctx.Err()
}

func (s *Service) sweepSignals(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := s.SweepSignals(ctx); err != nil && ctx.Err() == nil {
				s.log.WarnContext(ctx, "sweep of signals failed", telemetry.KeyErr, err)
			}
			if err := s.SweepStarts(ctx); err != nil && ctx.Err() == nil {
				s.log.WarnContext(ctx, "sweep of starts failed", telemetry.KeyErr, err)
			}
		}
	}
}
