package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// StreamEvent is one server-sent event.
type StreamEvent struct {
	ID    string // resumes after this event
	Event string // its type; empty for a plain one
	Data  json.RawMessage
}

// Watch yields every event of a run after number after (0 for all of them),
// without gaps and in order, and returns after the run's end. It reconnects by
// itself. An error that no reconnection cures is yielded last.
func (c *Client) Watch(ctx context.Context, id events.RunID, after int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for f, err := range c.watch(ctx, id, after, false) {
			var e Event
			if f.Event != nil {
				e = *f.Event
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func (c *Client) watch(ctx context.Context, id events.RunID, after int64, live bool) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		last := ""
		if after > 0 {
			last = strconv.FormatInt(after, 10)
		}
		var piece Delta
		path := "/v1/runs/" + url.PathEscape(string(id)) + "/events"
		for raw, err := range c.stream(ctx, path, url.Values{"live": {strconv.FormatBool(live)}}, last) {
			if err != nil {
				yield(Frame{}, err)
				return
			}
			switch raw.Event {
			case "end": // after the last event of a run that has ended
				return
			case "resync": // the run has not got as far as after; it begins anew
				after = 0
				continue
			case "delta":
				var d Delta
				repeat := json.Unmarshal(raw.Data, &d) != nil ||
					d.Kind != events.DeltaReset && d.Epoch == piece.Epoch && d.Turn == piece.Turn && d.N <= piece.N
				if repeat {
					continue
				}
				if piece = d; !yield(Frame{Delta: &d}, nil) {
					return
				}
				continue
			}
			var e Event
			if err := json.Unmarshal(raw.Data, &e); err != nil || raw.ID == "" || e.Kind == "" {
				continue // another type of event than this version knows
			}
			if e.Seq <= after {
				continue // the stream began again further back
			}
			if e.Seq > after+1 && after > 0 {
				yield(Frame{}, fmt.Errorf("events %d to %d of run %s are missing", after+1, e.Seq-1, id))
				return
			}
			after = e.Seq
			if !yield(Frame{Event: &e}, nil) {
				return
			}
		}
	}
}

// Events yields the events of the namespace as they happen, each at least once,
// until ctx ends. after is the ID of the last one seen; empty means from now
// on. An event of type "resync" says that older ones than asked for are gone.
func (c *Client) Events(ctx context.Context, after string) iter.Seq2[StreamEvent, error] {
	return c.stream(ctx, "/v1/events", nil, after)
}

// errStreamOver says that the server wants no reconnection.
var errStreamOver = errors.New("stream over")

// stream follows one event stream and resumes it after the last id it saw.
func (c *Client) stream(ctx context.Context, path string, q url.Values, last string) iter.Seq2[StreamEvent, error] {
	return func(yield func(StreamEvent, error) bool) {
		failures := 0
		for {
			more := true
			err := c.readStream(ctx, path, q, last, func(e StreamEvent) bool {
				failures = 0
				if e.ID != "" {
					last = e.ID
				}
				if e.Data == nil {
					return true
				}
				more = yield(e, nil)
				return more
			})
			switch {
			case !more || errors.Is(err, errStreamOver):
				return
			case ctx.Err() != nil:
				return
			}
			wait := 100 * time.Millisecond
			if err != nil {
				var again bool
				failures++
				if wait, again = retryable(err, failures); !again {
					yield(StreamEvent{}, err)
					return
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
		}
	}
}

// readStream reads one connection until it ends or each returns false.
// Source: WHATWG HTML, "Server-sent events", section 9.2.6.
func (c *Client) readStream(ctx context.Context, path string, q url.Values, last string, each func(StreamEvent) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := c.send(ctx, call{method: http.MethodGet, path: path, query: q, last: last}, nil, "text/event-stream")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNoContent:
		return errStreamOver
	case resp.StatusCode != http.StatusOK:
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		return problem(resp, body)
	}
	lines := bufio.NewReaderSize(resp.Body, 64<<10)
	var e StreamEvent
	var data strings.Builder
	has := false
	for {
		line, err := lines.ReadString('\n')
		if err != nil { // an event that was cut off is dropped and comes again
			return fmt.Errorf("%w: the stream was cut: %w", ErrUnreachable, err)
		}
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			if has {
				e.Data = json.RawMessage(strings.TrimSuffix(data.String(), "\n"))
			}
			if (has || e.ID != "") && !each(e) {
				return nil
			}
			e, has = StreamEvent{}, false
			data.Reset()
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			e.ID = value
		case "event":
			e.Event = value
		case "data":
			has = true
			data.WriteString(value + "\n")
		}
		if data.Len() > maxAnswer {
			return fmt.Errorf("an event is larger than %d bytes", maxAnswer)
		}
	}
}
