package client

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/url"
	"strconv"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Outcome is how a run ended, or where it was when the waiting was over.
type Outcome struct {
	Started
	Output json.RawMessage `json:"output,omitempty"` // of a run that completed
	Error  *events.Problem `json:"error,omitempty"`  // of one that ended otherwise
}

// Ended says whether the run has ended; its Status says how.
func (o Outcome) Ended() bool { return events.Ended(o.Status) }

// maxAsk is how long one request asks the server to keep its answer back. The
// server may have a lower bound of its own.
const maxAsk = time.Minute

// StartAndWait starts a run and waits until it has ended, but no longer than
// wait (zero: as long as ctx lasts). A run that is still going when the wait is
// over is no error: see Outcome.Ended. An error after the start, ctx's included,
// comes with the run's id, and the run goes on.
func (c *Client) StartAndWait(ctx context.Context, r StartRequest, wait time.Duration) (Outcome, error) {
	begun := time.Now()
	ask := maxAsk
	if wait > 0 {
		ask = min(ask, wait)
	}
	var out Outcome
	header, err := c.start(ctx, r, url.Values{"wait": {strconv.Itoa(int((ask + time.Second - 1) / time.Second))}}, &out)
	out.Replayed = header.Get("Idempotency-Replayed") == "true"
	if err != nil || out.Ended() {
		return out, err
	}
	if wait > 0 {
		if wait -= time.Since(begun); wait <= 0 {
			return out, nil
		}
	}
	started := out.Started
	out, err = c.Wait(ctx, started.RunID, wait)
	out.StatusURL, out.Replayed = started.StatusURL, started.Replayed
	return out, err
}

// Wait waits until a run has ended, but no longer than wait (zero: as long as
// ctx lasts), and returns where it is then. It reconnects by itself.
func (c *Client) Wait(ctx context.Context, id events.RunID, wait time.Duration) (Outcome, error) {
	out := Outcome{Started: Started{RunID: id, StatusURL: "/v1/runs/" + string(id)}}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	if wait > 0 {
		watching, stop = context.WithTimeout(ctx, wait)
		defer stop()
	}
	for e, err := range c.Watch(watching, id, 0) {
		if err != nil {
			return out, err
		}
		out.Status = e.Status
	}
	if ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	r, err := c.Run(ctx, id)
	if err != nil {
		return out, err
	}
	out.Status, out.Output, out.Error = r.Status, r.Output, r.Error
	return out, nil
}

// Delta is a piece of an answer that the model is writing.
type Delta = events.Delta

// Frame is what WatchLive yields: a row of the journal, or a piece of an answer.
type Frame struct {
	Event *Event
	Delta *Delta
}

// WatchLive is Watch with what the model writes between the events. Pieces may be
// missing, and none comes twice; the event model_answered replaces those of its
// turn, a Delta of kind events.DeltaReset takes them back.
func (c *Client) WatchLive(ctx context.Context, id events.RunID, after int64) iter.Seq2[Frame, error] {
	return c.watch(ctx, id, after, true)
}

// Stream starts a run and yields what happens in it from its first event on, as
// WatchLive does. The run goes on when the reader stops.
func (c *Client) Stream(ctx context.Context, r StartRequest) (Started, iter.Seq2[Frame, error], error) {
	started, err := c.Start(ctx, r)
	if err != nil {
		return started, nil, err
	}
	if started.RunID == "" {
		return started, nil, errors.New("the answer to the start names no run")
	}
	return started, c.WatchLive(ctx, started.RunID, 0), nil
}
