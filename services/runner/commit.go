package runner

import (
	"context"
	"time"
)

// write is how rows get into the store, as Store.Commit and Store.Create.
type write func(context.Context, Commit) (epoch int64, at time.Time, err error)

// commit appends rows to a run.
func (s *Service) commit(ctx context.Context, c Commit) (epoch int64, at time.Time, err error) {
	return s.write(ctx, c, s.store.Commit)
}

// create makes a run of its first rows.
func (s *Service) create(ctx context.Context, c Commit) (epoch int64, at time.Time, err error) {
	return s.write(ctx, c, s.store.Create)
}

// write writes the rows with the notices that they give reason to, and counts what
// they made of the run.
func (s *Service) write(ctx context.Context, c Commit, to write) (epoch int64, at time.Time, err error) {
	if c.Notices, err = s.notices(ctx, c.After, c.Facts); err != nil {
		return 0, at, err
	}
	c.MaxTreeRuns = s.cfg.MaxTreeRuns
	if epoch, at, err = to(ctx, c); err == nil {
		s.metrics.committed(ctx, c.Before, c.After)
	}
	return epoch, at, err
}
