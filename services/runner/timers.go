package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// runTimers publishes timers that fall due, sleeping until the next one and at
// most a second. Every replica runs it; a row is taken by one.
func (s *Service) runTimers(ctx context.Context) {
	for ctx.Err() == nil {
		next, err := s.fireTimers(ctx)
		if err != nil && ctx.Err() == nil {
			s.log.Warn("timers not fired", "err", err)
			next = time.Second
		}
		sleep(ctx, next)
	}
}

func (s *Service) fireTimers(ctx context.Context) (next time.Duration, err error) {
	due, next, err := s.store.DueTimers(ctx, 100)
	if err != nil {
		return 0, err
	}
	for i, d := range due {
		err := failpoint.Hit("runner.timer_due", string(d.RunID))
		if err == nil {
			err = s.bus.Publish(ctx, TimerMessage(d, time.Now()))
		}
		if err != nil {
			return 0, putBack(ctx, err, due[i:], s.store.PutBackTimers)
		}
		if err := failpoint.Hit("runner.timer_sent", string(d.RunID)); err != nil {
			return 0, putBack(ctx, err, due[i+1:], s.store.PutBackTimers)
		}
	}
	return max(next, 10*time.Millisecond), nil
}

// TimerMessage tells a run that its timer fell due. Every try has the same logical
// id under a fresh message id.
func TimerMessage(d DueTimer, now time.Time) events.Message {
	id := fmt.Sprintf("timer:%s:%s", d.RunID, d.Timer.Name)
	return events.Message{
		Subject: events.RunSubject(d.RunID, events.RunTimerFired), MsgID: fmt.Sprintf("%s:n%d", id, d.Try), ID: id, Source: source,
		Type: events.TypeTimerFired, About: string(d.RunID), Time: now.UTC(),
		Data: mustJSON(events.TimerFired{RunID: d.RunID, Timer: d.Timer.Name, Due: d.Timer.Due.UTC()}),
	}
}

// putBack gives back what was taken and could not be published because of err. What
// is lost here as well is hidden for a while and then taken again.
func putBack[T any](ctx context.Context, err error, taken []T, back func(context.Context, []T) error) error {
	// Another replica may go on with it when this one stops.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	return errors.Join(err, back(ctx, taken))
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
