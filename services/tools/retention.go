package tools

import (
	"context"
	"time"
)

// KeyRetention is how long a key is kept after its effect ended when nothing
// else is set: 400 days.
const KeyRetention = 400 * 24 * time.Hour

const (
	lapseEvery = time.Second
	expireEach = time.Hour
	keepBatch  = 500
)

// Keep marks programs' acts unknown whose leases ran out, and turns keys that
// outlived their retention into tombstones, until ctx ends. Any number of
// processes may do so at once.
func (s *Service) Keep(ctx context.Context) error {
	tick := time.NewTicker(lapseEvery)
	defer tick.Stop()
	var expired time.Time // the first sweep is due at once
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := s.LapseDue(ctx); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "sweep of leases failed, the next one repeats it", "err", err)
		}
		if s.now().Sub(expired) < expireEach {
			continue
		}
		if err := s.ExpireKeys(ctx); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "sweep of old keys failed, the next one repeats it", "err", err)
			continue
		}
		expired = s.now()
	}
}

// LapseDue marks every act of a program unknown whose lease is over and whose
// policy does not let it be repeated, so that operators see it without anybody
// asking for the key.
func (s *Service) LapseDue(ctx context.Context) error {
	for {
		found, err := s.once.LapseDue(ctx, lapsed(), keepBatch)
		if err != nil {
			return err
		}
		for _, e := range found {
			s.metrics.doubted(ctx, e.InDoubt)
			s.log.WarnContext(ctx, "effect of a program in doubt", "effect_id", e.ID, "epoch", e.Claim.Epoch, "policy", e.InDoubt)
		}
		if len(found) < keepBatch {
			return nil
		}
	}
}

// ExpireKeys turns effects that ended longer ago than the retention into
// tombstones: their keys are refused for ever, what was done is forgotten.
// Open acts and doubts that nobody has settled stay as they are.
func (s *Service) ExpireKeys(ctx context.Context) error {
	for {
		n, err := s.once.ExpireKeys(ctx, s.retention, keepBatch)
		if err != nil {
			return err
		}
		if n > 0 {
			s.log.InfoContext(ctx, "keys expired", "count", n)
		}
		if n < keepBatch {
			return nil
		}
	}
}
