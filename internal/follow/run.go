package follow

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// History is where a run's events are read for sure.
type History interface {
	// Events returns at most limit events of the run after seq, in order.
	Events(ctx context.Context, namespace string, run events.RunID, after int64, limit int) ([]events.RunEvent, error)
	// Head returns the run's newest seq and its status, or the service's own
	// error for a run that the namespace does not have; an accepted start has
	// seq 0 and status queued.
	Head(ctx context.Context, namespace string, run events.RunID) (seq int64, status string, err error)
}

const (
	historyPage = 100 // rows may be large, and each stream holds one page
	// pollEvery bounds how long a stream can miss an event that the tail lost.
	pollEvery = 2 * time.Second
)

// Follow hands every event of a run after seq to emit, in order and without a
// gap, until the run has ended, ctx ends or emit fails. The history is read
// first; then the hub says what is new, and where it skips a number or left out
// a large body the history is read again. idle is called at least every two seconds while nothing happens.
func (f *Follower) Follow(ctx context.Context, namespace string, run events.RunID, after int64, emit func(events.RunEvent) error, idle func() error) error {
	return f.follow(ctx, namespace, run, after, emit, nil, idle)
}

// follow also hands what is shown of the answers that are being written to
// show, when it is not nil, as far as it arrives.
func (f *Follower) follow(ctx context.Context, namespace string, run events.RunID, after int64, emit func(events.RunEvent) error, show func(events.Delta) error, idle func() error) error {
	sub := f.hub.Subscribe(run)
	defer func() { sub.Close() }()
	var pieces <-chan events.Delta
	if show != nil {
		c, stop := f.live.subscribe(run)
		defer stop()
		pieces = c
	}
	screen := view{namespace: namespace}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()

	next, ended := after+1, false
	send := func(e events.RunEvent) error {
		if e.Seq != next {
			return fmt.Errorf("run %s: event %d follows %d", run, e.Seq, next-1)
		}
		if err := emit(e); err != nil {
			return err
		}
		next, ended = next+1, events.Ended(e.Status)
		screen.row(e)
		return nil
	}
	read := func() error {
		for {
			page, err := f.history.Events(ctx, namespace, run, next-1, historyPage)
			if err != nil {
				return err
			}
			for _, e := range page {
				if err := send(e); err != nil {
					return err
				}
			}
			if len(page) < historyPage {
				return nil
			}
		}
	}

	if err := read(); err != nil {
		return err
	}
	if next == after+1 { // nothing new: it may have ended before
		seq, status, err := f.history.Head(ctx, namespace, run)
		if err != nil {
			return err
		}
		ended = events.Ended(status) && seq < next
	}
	for !ended {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			if err := read(); err != nil {
				return err
			}
			if !ended {
				if err := idle(); err != nil {
					return err
				}
			}
		case d := <-pieces:
			for _, d := range screen.take(d) {
				if err := show(d); err != nil {
					return err
				}
			}
		case e, open := <-sub.C:
			switch {
			case !open: // fell behind; the history has what was missed
				sub = f.hub.Subscribe(run)
				if err := read(); err != nil {
					return err
				}
			case e.Run.Seq < next:
			case e.Run.Seq == next && e.Run.Namespace == namespace && e.Run.Elided == 0:
				if err := send(*e.Run); err != nil {
					return err
				}
			default:
				if err := read(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
