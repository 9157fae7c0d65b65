package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// PoolWait is a run that waits for room in a shared pool and is to try again.
type PoolWait struct {
	RunID     events.RunID
	Namespace string
	Seq       int64
	Epoch     int64
	Place     int64 // in the queue of its pool
	Wakes     int   // how often it was woken, this time included
	Agent     string
	Priority  string
}

const (
	wakeEvery = time.Second
	wakeBatch = 100 // of one pool
)

// runPoolWaits wakes runs for which a pool has room: at once after a booking
// was settled or a pool raised in this process, and every second for what other
// processes did and for wakes that were lost. Runs that are paused for a pool are
// looked at less often, but for what makes room for more of them.
func (s *Service) runPoolWaits(ctx context.Context) {
	tick, raises := time.NewTicker(wakeEvery), time.NewTicker(raiseEvery)
	defer tick.Stop()
	defer raises.Stop()
	var after PausedPool
	var look, moved []PausedPool // pools to look at now, and those in which the last look woke runs
	all := true
	for ctx.Err() == nil {
		err := s.wakeWaits(ctx)
		if all && err == nil {
			look, err = s.pausedPools(ctx, &after)
		}
		if len(look) > 0 && err == nil {
			moved, err = s.wakePaused(ctx, look)
		}
		if err != nil && ctx.Err() == nil {
			s.log.Warn("runs that wait for a budget not woken", "err", err)
			sleep(ctx, wakeEvery)
		}
		look, all = nil, false
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-s.poolMoved:
			look, moved = moved, nil
		case <-raises.C:
			all = true
		case p := <-s.poolRaised:
			look = []PausedPool{p}
		}
	}
}

func (s *Service) wakeWaits(ctx context.Context) error {
	due, err := s.store.WakeWaits(ctx, wakeBatch)
	if err != nil {
		return err
	}
	for _, w := range due {
		m := s.inLane(ctx, StepMessage(w.RunID, w.Namespace, w.Seq, w.Epoch), w.Agent, w.Priority)
		m.MsgID = fmt.Sprintf("%s:w%d.%d", m.ID, w.Place, w.Wakes)
		if err := s.bus.Publish(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// moved says that a pool may have room, or a new wait, since the last look.
func (s *Service) moved() {
	select {
	case s.poolMoved <- struct{}{}:
	default: // a look is due anyway
	}
}
