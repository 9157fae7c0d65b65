package follow

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// beatEvery keeps proxies from closing a quiet stream.
const beatEvery = 10 * time.Second

// Sink takes server-sent events; door.Stream is one.
type Sink interface {
	Send(id, event string, data []byte) error
	Beat() error
}

// EventDelta is the type of the events that carry an events.Delta. They have no
// id, so a reader resumes after the last row of the journal that it saw.
const EventDelta = "delta"

// EventResync is the type of the event that says that the reader's place is none
// of this stream: what follows begins anew.
const EventResync = "resync"

// Stream writes every event of a run after seq to sink, id = seq without a gap,
// and "event: end" with the final status when the run has ended. With live set
// the answers that are being written come between them as "event: delta". A seq
// that the run has not reached, another run's for instance, is answered with
// "event: resync" and every event from the first on. It
// returns when the end is written, ctx ends, or sink or the history fails; the
// reader may resume after the last id that it saw.
func (f *Follower) Stream(ctx context.Context, namespace string, run events.RunID, after int64, live bool, sink Sink) error {
	if after > 0 {
		head, _, err := f.history.Head(ctx, namespace, run)
		if err != nil {
			return err
		}
		if after > head {
			data, err := events.Marshal(map[string]string{"run_id": string(run), "reason": fmt.Sprintf("this run has no event %d yet; here is every event from the first on", after)})
			if err != nil {
				return err
			}
			if err := sink.Send("", EventResync, data); err != nil {
				return err
			}
			after = 0
		}
	}
	status, wrote := "", time.Now()
	var show func(events.Delta) error
	if live {
		show = func(d events.Delta) error {
			data, err := events.Marshal(d)
			if err != nil {
				return nil
			}
			wrote = time.Now()
			return sink.Send("", EventDelta, data)
		}
	}
	err := f.follow(ctx, namespace, run, after,
		func(e events.RunEvent) error {
			data, err := events.Marshal(e)
			if err != nil {
				return fmt.Errorf("marshal event %d of run %s: %w", e.Seq, run, err)
			}
			status, wrote = e.Status, time.Now()
			return sink.Send(strconv.FormatInt(e.Seq, 10), "", data)
		},
		show,
		func() error {
			if time.Since(wrote) < beatEvery {
				return nil
			}
			wrote = time.Now()
			return sink.Beat()
		})
	if err != nil {
		return err
	}
	if status == "" { // it had ended before
		if _, status, err = f.history.Head(ctx, namespace, run); err != nil {
			return err
		}
	}
	data, err := events.Marshal(map[string]string{"run_id": string(run), "status": status})
	if err != nil {
		return err
	}
	return sink.Send("", "end", data)
}

// Await asks look whether the run has ended until it has, it fails or ctx ends:
// at once, whenever the tail tells of an end, and every two seconds in case the
// tail missed it.
func (f *Follower) Await(ctx context.Context, run events.RunID, look func(context.Context) (ended bool, err error)) error {
	sub := f.hub.Subscribe(run)
	defer func() { sub.Close() }()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if ended, err := look(ctx); ended || err != nil {
			return err
		}
		for again := false; !again; {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-tick.C:
				again = true
			case e, open := <-sub.C:
				if !open { // fell behind
					sub = f.hub.Subscribe(run)
				}
				again = !open || events.Ended(e.Run.Status)
			}
		}
	}
}
