package follow

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Position is a place in the EVENTS stream: "<epoch>-<seq>".
type Position struct {
	Epoch string // of the stream; a stream that was made anew has another one
	Seq   uint64
}

// String is the event id of a place.
func (p Position) String() string { return fmt.Sprintf("%s-%d", p.Epoch, p.Seq) }

// ParsePosition reads an event id.
func ParsePosition(s string) (Position, bool) {
	i := strings.LastIndexByte(s, '-')
	if i <= 0 {
		return Position{}, false
	}
	seq, err := strconv.ParseUint(s[i+1:], 10, 64)
	return Position{Epoch: s[:i], Seq: seq}, err == nil
}

// FeedReader takes what Feed reads. Every method may end the feed by an error.
type FeedReader interface {
	Event(at Position, e Event) error
	// Resync says that events before at are gone and will not come.
	Resync(at Position, reason string) error
	// Idle is called while nothing happens; at is where the reader may resume.
	Idle(at Position) error
}

// ErrNoTail says that the event stream was not reached yet.
var ErrNoTail = errors.New("event stream not reached yet")

// ErrBehind ends a feed whose reader did not keep up; it may resume.
var ErrBehind = errors.New("reader fell behind")

const (
	feedIdle = 10 * time.Second
	// catchUpIdle gives up a catch-up that hears nothing: the events it waits
	// for were removed meanwhile.
	catchUpIdle = 5 * time.Second
)

// Feed hands the events of one namespace to r, from the place after since on
// (nil: from now on), at least once, until ctx ends or r fails. Where the
// stream no longer has what is asked for, it says so by Resync and goes on with
// what is new. ErrNoTail before the stream was reached.
func (f *Follower) Feed(ctx context.Context, namespace string, since *Position, r FeedReader) error {
	epoch, last, recent, sub, err := f.hub.SubscribeAll()
	if err != nil {
		return err
	}
	defer sub.Close()

	at := Position{Epoch: epoch, Seq: last}
	emit := func(e Event) error {
		if e.Seq <= at.Seq {
			return nil
		}
		at.Seq = e.Seq
		if e.Message.Namespace != namespace {
			return nil
		}
		return r.Event(at, e)
	}
	switch {
	case since == nil:
	case since.Epoch != epoch:
		if err := r.Resync(at, "the event stream was made anew"); err != nil {
			return err
		}
	case since.Seq > last:
		// Another replica was ahead of this one, or it is no place of the stream.
		if _, _, newest, err := f.tail.EventsState(ctx); err != nil {
			return fmt.Errorf("%w: %w", ErrNoTail, err)
		} else if since.Seq > newest {
			if err := r.Resync(at, "this place is not in the event stream"); err != nil {
				return err
			}
			break
		}
		at.Seq = since.Seq
	case since.Seq < last:
		at.Seq = since.Seq
		if len(recent) == 0 || recent[0].Seq > since.Seq+1 {
			if err := f.catchUp(ctx, Position{epoch, since.Seq}, last, emit); err != nil {
				if !errors.Is(err, errTrimmed) {
					return err
				}
				at.Seq = last
				if err := r.Resync(at, "older events are no longer kept"); err != nil {
					return err
				}
			}
		}
		for _, e := range recent {
			if err := emit(e); err != nil {
				return err
			}
		}
	}
	if err := r.Idle(at); err != nil { // names the place at once
		return err
	}

	tick := time.NewTicker(feedIdle)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			if err := r.Idle(at); err != nil {
				return err
			}
		case e, open := <-sub.C:
			if !open {
				return ErrBehind
			}
			if err := emit(e); err != nil {
				return err
			}
		}
	}
}

var errTrimmed = errors.New("events were trimmed")

// catchUp reads the stream itself for a reader that is older than the hub's
// memory, up to the place to.
func (f *Follower) catchUp(ctx context.Context, since Position, to uint64, emit func(Event) error) error {
	epoch, first, _, err := f.tail.EventsState(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoTail, err)
	}
	if epoch != since.Epoch || first > since.Seq+1 {
		return errTrimmed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(catchUpIdle, func() { cancel(errTrimmed) })
	defer silent.Stop()
	done := errors.New("caught up")
	err = f.tail.TailEvents(ctx, since.Seq+1, func(m events.Received) {
		if ctx.Err() != nil {
			return
		}
		silent.Reset(catchUpIdle)
		if m.Type == typeResync {
			cancel(errTrimmed)
			return
		}
		e := readEvent(m)
		if err := emit(e); err != nil {
			cancel(err)
			return
		}
		if e.Seq >= to {
			cancel(done)
		}
	})
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if errors.Is(err, done) {
		return nil
	}
	return err
}
