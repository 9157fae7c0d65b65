package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

const slotBatch = 200

// runSlots gives free places under concurrency keys to who is first in line, and
// tells runs what became of them: at once after a run of this process has ended or
// come, and every second for what other processes did and for news that were lost.
func (s *Service) runSlots(ctx context.Context) {
	tick := time.NewTicker(wakeEvery)
	defer tick.Stop()
	var dropped time.Time
	for ctx.Err() == nil {
		err := s.moveSlots(ctx)
		if err == nil && time.Since(dropped) > time.Minute {
			dropped, err = time.Now(), s.store.DropKeys(ctx)
		}
		if err != nil && ctx.Err() == nil {
			s.log.Warn("runs that wait for a place not looked at", "err", err)
			sleep(ctx, wakeEvery)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-s.slotMoved:
		}
	}
}

func (s *Service) moveSlots(ctx context.Context) error {
	for {
		n, err := s.store.GrantSlots(ctx, slotBatch)
		if err != nil {
			return err
		}
		news, err := s.store.UntoldSlots(ctx, slotBatch)
		if err != nil {
			return err
		}
		for _, w := range news {
			if err := s.bus.Publish(ctx, slotMessage(w)); err != nil {
				return err
			}
		}
		if n < slotBatch && len(news) < slotBatch {
			return nil
		}
	}
}

// slotsMoved says that a look at the queues is due.
func (s *Service) slotsMoved() {
	select {
	case s.slotMoved <- struct{}{}:
	default: // a look is due anyway
	}
}

// slotMessage tells a run that it has its place, or cancels one that is replaced.
// Its id is the run's, so it is recorded once.
func slotMessage(w SlotNews) events.Message {
	m := events.Message{Source: source, About: string(w.RunID), Namespace: w.Namespace, Time: time.Now().UTC()}
	if w.ReplacedBy != "" {
		cmd := events.Command{ID: "replaced-" + string(w.RunID), RunID: w.RunID, Principal: "run " + string(w.ReplacedBy),
			Reason: fmt.Sprintf("replaced by run %s, the newest under the concurrency key %s", w.ReplacedBy, w.Shown)}
		m.Subject, m.ID, m.Type, m.Data = events.RunSubject(w.RunID, events.RunCancel), "command:"+cmd.ID, events.TypeCommandRun, mustJSON(cmd)
	} else {
		m.Subject, m.ID, m.Type = events.RunSubject(w.RunID, events.RunTimerFired), fmt.Sprintf("timer:%s:%s", w.RunID, slotsTimer), events.TypeTimerFired
		m.Data = mustJSON(events.TimerFired{RunID: w.RunID, Timer: slotsTimer, Due: m.Time})
	}
	m.MsgID = fmt.Sprintf("%s:w%d", m.ID, w.Tries)
	return m
}
