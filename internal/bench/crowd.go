package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// mostSenders bounds the connections that start runs: starting is not what a crowd
// is for.
const mostSenders = 16

// crowd keeps so many runs going at once: whenever one ends, it starts another by a
// webhook. Ends are seen as events on NATS, as any program may see them.
type crowd struct {
	senders []*sender
	ends    *nats.Subscription
	next    chan struct{} // a run may start
	stopped chan struct{}
	wg      sync.WaitGroup
	text    bodyOf
	number  *atomic.Int64

	started, ended, turns atomic.Int64
	failed                chan error // the first that went wrong
}

var (
	markTurn      = fmt.Appendf(nil, `"kind":%q`, events.FactToolCompleted)
	markCompleted = fmt.Appendf(nil, `"kind":%q`, events.FactCompleted)
	markBad       = [][]byte{
		fmt.Appendf(nil, `"kind":%q`, events.FactFailed), fmt.Appendf(nil, `"kind":%q`, events.FactAttention), fmt.Appendf(nil, `"kind":%q`, events.FactExpired),
	}
)

// openCrowd starts the first runs.
func (l *lab) openCrowd(ctx context.Context, hook string, atOnce int, text bodyOf) (_ *crowd, err error) {
	c := &crowd{next: make(chan struct{}, atOnce), stopped: make(chan struct{}), failed: make(chan error, 1), text: text, number: &l.sent}
	for range min(atOnce, mostSenders) {
		s, err := newSender(ctx, l.doors["trigger"], hook, text)
		if err != nil {
			return nil, err
		}
		c.senders = append(c.senders, s)
	}
	if c.ends, err = l.nats.Subscribe("hf.event.run.*", c.seen); err != nil {
		return nil, err
	}
	if err := errors.Join(c.ends.SetPendingLimits(-1, -1), l.nats.Flush()); err != nil {
		return nil, err
	}
	for _, s := range c.senders {
		c.wg.Go(func() { c.start(s) })
	}
	for range atOnce {
		c.next <- struct{}{}
	}
	return c, nil
}

// start starts a run for each that may.
func (c *crowd) start(s *sender) {
	defer s.conn.Close()
	for {
		select {
		case <-c.stopped:
			return
		case <-c.next:
		}
		s.n = int(c.number.Add(1))
		if err := s.post(); err != nil {
			c.fail(err)
			return
		}
		c.started.Add(1)
	}
}

func (c *crowd) seen(m *nats.Msg) {
	if bytes.Contains(m.Data, markTurn) {
		c.turns.Add(1)
		return
	}
	if bytes.Contains(m.Data, markCompleted) {
		c.ended.Add(1)
		select {
		case c.next <- struct{}{}:
		default: // it has stopped
		}
		return
	}
	for _, mark := range markBad {
		if bytes.Contains(m.Data, mark) {
			c.fail(fmt.Errorf("a run went wrong: %.2000s", m.Data))
		}
	}
}

func (c *crowd) fail(err error) {
	select {
	case c.failed <- err:
	default:
	}
}

// wait waits until d has passed and that many more turns have ended, but for no longer
// than 20 s, or for what went wrong.
func (c *crowd) wait(ctx context.Context, d time.Duration, turns int) error {
	begun, before := time.Now(), c.turns.Load()
	for time.Since(begun) < d || c.turns.Load()-before < int64(turns) && time.Since(begun) < 20*time.Second {
		select {
		case err := <-c.failed:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// close starts no more runs and, to leave the lab idle, waits until those that go have
// ended.
func (c *crowd) close(ctx context.Context, idle bool) error {
	close(c.stopped)
	c.wg.Wait()
	if !idle {
		return c.ends.Unsubscribe()
	}
	err := until(ctx, "runs to end", func() (bool, error) {
		select {
		case err := <-c.failed:
			return false, err
		default:
			return c.ended.Load() >= c.started.Load(), nil
		}
	})
	return errors.Join(err, c.ends.Unsubscribe())
}
