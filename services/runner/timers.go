package runner

import (
	"context"
	"fmt"
	"time"

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
	for _, d := range due {
		id := fmt.Sprintf("timer:%s:%s", d.RunID, d.Timer.Name)
		m := events.Message{
			Subject: events.RunSubject(d.RunID, events.RunTimerFired), MsgID: fmt.Sprintf("%s:n%d", id, d.Try), ID: id, Source: source,
			Type: events.TypeTimerFired, About: string(d.RunID), Time: time.Now().UTC(),
			Data: mustJSON(events.TimerFired{RunID: d.RunID, Timer: d.Timer.Name, Due: d.Timer.Due.UTC()}),
		}
		if err := s.bus.Publish(ctx, m); err != nil {
			return 0, err // hidden for 30 s, then taken again
		}
	}
	return max(next, 10*time.Millisecond), nil
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
