package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// watchWorkload is people and programs that look on while agents work.
var watchWorkload = Workload{
	Name: "watch", Unit: "events",
	Doc:      "What happens to agents at 16 turns at once, sent to a thousand watchers (--watchers), each on a stream of its own.",
	services: []string{scriptedRunner, "trigger", "tools", "console"},
	run:      measureWatch,
}

const (
	watchedRuns = 16
	// timedWatchers look when what they see happened; the others only count.
	timedWatchers = 4
)

// watchers are open streams of events.
type watchers struct {
	seen atomic.Int64
	open atomic.Bool // what is seen counts
	mu   sync.Mutex
	took []time.Duration // from an event's commit until it was seen
}

func measureWatch(ctx context.Context, l *lab) error {
	l.c.say("watch, %d watchers", l.c.Watchers)
	c, err := l.openCrowd(ctx, turnsHook, watchedRuns, turnText(l.c.Turns))
	if err != nil {
		return err
	}
	wctx, cancel := context.WithCancel(ctx)
	var w watchers
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	errs := make(chan error, l.c.Watchers)
	for i := range l.c.Watchers {
		conn, err := l.watch(wctx)
		if err != nil {
			return fmt.Errorf("watcher %d: %w", i+1, err)
		}
		stop := context.AfterFunc(wctx, func() { _ = conn.Close() })
		wg.Go(func() {
			defer stop()
			if err := w.read(conn, i < timedWatchers); wctx.Err() == nil {
				errs <- fmt.Errorf("watcher %d: %w", i+1, err)
			}
		})
	}
	if err := c.wait(ctx, l.c.Duration/2, 2*watchedRuns); err != nil {
		return err
	}
	before := w.seen.Load()
	w.open.Store(true)
	win, err := l.measure(ctx, func() error { return c.wait(ctx, l.c.Duration, watchedRuns) })
	n := int(w.seen.Load() - before)
	w.open.Store(false)
	if err != nil {
		return err
	}
	select {
	case err := <-errs:
		return err
	default:
	}
	if err := c.close(ctx, false); err != nil {
		return err
	}
	if n == 0 {
		return errors.New("no watcher saw anything")
	}
	row := win.row(l.w.Name, l.c.Watchers, l.w.Unit, n)
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.took)
	s := sample{took: w.took}
	row.P50Ms, row.P99Ms = ms(s.percentile(50)), ms(s.percentile(99))
	l.report.Rows = append(l.report.Rows, row)
	return nil
}

// watch opens a stream of all events and reads the head of its answer.
func (l *lab) watch(ctx context.Context) (*bufferedConn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.doors["console"])
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(conn, "GET /v1/events HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nAccept: text/event-stream\r\n\r\n", l.doors["console"], l.asked.token); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	in := bufio.NewReaderSize(conn, 16<<10)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if res.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("the stream is answered %s", res.Status), conn.Close())
	}
	return &bufferedConn{conn, in, res}, nil
}

// bufferedConn is a stream whose head has been read.
type bufferedConn struct {
	net.Conn
	in  *bufio.Reader
	res *http.Response // its body is the stream
}

var (
	dataLine = []byte("data: ")
	atMember = []byte(`"at":"`)
)

// read counts events until the stream ends.
func (w *watchers) read(c *bufferedConn, timed bool) error {
	in := bufio.NewReaderSize(c.res.Body, 16<<10)
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			continue // the rest of a long line begins like none that counts
		}
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(line, dataLine) || !w.open.Load() {
			continue
		}
		w.seen.Add(1)
		if !timed {
			continue
		}
		if _, rest, ok := bytes.Cut(line, atMember); ok {
			text, _, _ := bytes.Cut(rest, []byte(`"`))
			if at, err := time.Parse(time.RFC3339Nano, string(text)); err == nil {
				w.mu.Lock()
				w.took = append(w.took, time.Since(at))
				w.mu.Unlock()
			}
		}
	}
}
