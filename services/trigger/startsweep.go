package trigger

import "context"

// SweepStarts forgets starts whose runs were deleted longer ago than their retention.
// Run does it now and then. A repeat of one that is forgotten starts a run of its own.
func (s *Service) SweepStarts(ctx context.Context) error {
	for ctx.Err() == nil {
		n, err := s.store.SweepStarts(ctx, s.cfg.StartRetention, sweepBatch)
		if err != nil || n < sweepBatch {
			return err
		}
	}
	return ctx.Err()
}
