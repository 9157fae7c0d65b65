package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// PausedPool is a shared budget that runs are paused for.
type PausedPool struct {
	Namespace string
	Name      string
}

// PoolPause is a run that is paused for a pool which has room for it now.
type PoolPause struct {
	RunID     events.RunID
	Namespace string
	Pool      string
	Seq       int64 // of the run
	Wakes     int   // how often it was woken since, this time included
}

const (
	raiseEvery  = 2 * time.Second
	raiseBatch  = 100 // runs of one pool in one look
	raisedPools = 200 // in one look; the next goes on behind them
)

// pausedPools are the next of those that runs are paused for, after the ones of the
// look before; from the first again when there are no more.
func (s *Service) pausedPools(ctx context.Context, after *PausedPool) ([]PausedPool, error) {
	pools, err := s.store.PausedPools(ctx, *after, raisedPools)
	if *after = (PausedPool{}); len(pools) == raisedPools {
		*after = pools[len(pools)-1]
	}
	return pools, err
}

// wakePaused lets runs go on whose pool has room again: its definition says a
// higher limit, or a command raised it. Each look takes as many of the oldest
// as fit at once, and the settlements of those make room for the next. It returns
// the pools in which some were woken.
func (s *Service) wakePaused(ctx context.Context, pools []PausedPool) (moved []PausedPool, err error) {
	for _, p := range pools {
		pool := Pool{Name: p.Name}
		if _, ofFlow := events.FlowOfPool(p.Name); !ofFlow {
			current, err := s.currentPools(ctx, p.Namespace, []Pool{pool})
			if err != nil {
				return moved, err
			}
			if len(current) > 0 {
				pool = current[0]
			}
		}
		woken, err := s.store.WakePaused(ctx, p.Namespace, pool, raiseBatch)
		if err != nil {
			return moved, err
		}
		for _, w := range woken {
			if err := s.bus.Publish(ctx, w.message()); err != nil {
				return moved, err // taken again after 5 s
			}
		}
		if len(woken) > 0 {
			moved = append(moved, p)
		}
		if len(woken) == raiseBatch {
			s.raised(p) // there may be more
		}
	}
	return moved, nil
}

// raised says that runs which are paused for p may have room.
func (s *Service) raised(p PausedPool) {
	select {
	case s.poolRaised <- p:
	default: // a look at all is due anyway
	}
}

// message tells the run to go on if it is still paused for the pool. Its id
// follows from where the run stands, so repeats are recorded once.
func (w PoolPause) message() events.Message {
	cmd := events.Command{ID: fmt.Sprintf("room-%s-%d", w.RunID, w.Seq), RunID: w.RunID, Budget: "pool:" + w.Pool, Reason: "the budget " + w.Pool + " has room again"}
	return events.Message{
		Subject: events.RunSubject(w.RunID, events.RunResume), MsgID: fmt.Sprintf("command:%s:n%d", cmd.ID, w.Wakes), ID: "command:" + cmd.ID, Source: source,
		Type: events.TypeCommandRun, About: string(w.RunID), Namespace: w.Namespace, Data: mustJSON(cmd),
	}
}

// woken reports whether in is the news that a pool has room.
func (in Input) woken() bool {
	return in.Command != nil && in.What == events.RunResume && in.Command.Budget != ""
}

// pausedFor reports whether a raise of budget lets the run go on.
func (s *State) pausedFor(budget string) bool {
	return s.Pause != nil && s.Pause.By == pausedByBudget && s.Pause.Pool == budget && s.Attention == nil && s.Cancel == nil && s.End == ""
}

// outdated reports whether in is news for a pause that is over: nobody waits for
// its row, and there is none.
func (s *State) outdated(in Input) bool {
	return in.woken() && !s.Causes.has(in.Cause) && !s.pausedFor(in.Command.Budget)
}
