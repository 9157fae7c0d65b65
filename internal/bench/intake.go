package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// intakeWorkload is the webhook door by itself.
var intakeWorkload = Workload{
	Name: "intake", Unit: "webhooks", Levels: []int{1, 16, 64},
	Doc:      "Signed webhooks over loopback, each stored and answered 202, and announced on NATS.",
	services: []string{"trigger"},
	run:      measureIntake,
}

func measureIntake(ctx context.Context, l *lab) error {
	insert := l.c.Insert(l.pool)
	var number atomic.Int64
	err := l.limit(ctx, limitStart, "starts", many, func(ctx context.Context) error { return insert(ctx, appendBody(nil, int(number.Add(1)))) })
	if err != nil {
		return err
	}
	if err := l.limitOf(ctx, limitHTTP, "requests", many, l.bareHTTP); err != nil {
		return err
	}
	for _, senders := range l.w.levels(l.c) {
		l.c.say("%s, %d senders", l.w.Name, senders)
		if err := l.intake(ctx, senders); err != nil {
			return fmt.Errorf("%d senders: %w", senders, err)
		}
	}
	return nil
}

const countDeliveries = `SELECT count(*) FROM trigger.deliveries`

func (l *lab) intake(ctx context.Context, senders int) error {
	if _, err := l.pool.Exec(ctx, "TRUNCATE trigger.announcements, trigger.deliveries, trigger.attempts"); err != nil {
		return err
	}
	door := l.doors["trigger"]
	if _, err := flood(ctx, door, senders, l.c.Duration/10); err != nil { // connections, plans, pages
		return err
	}
	if err := l.announced(ctx); err != nil {
		return err
	}
	var before, after int
	if err := l.pool.QueryRow(ctx, countDeliveries).Scan(&before); err != nil {
		return err
	}
	var s sample
	w, err := l.measure(ctx, func() (err error) {
		if s, err = flood(ctx, door, senders, l.c.Duration); err != nil {
			return err
		}
		return l.announced(ctx)
	})
	if err != nil {
		return err
	}
	if err := l.pool.QueryRow(ctx, countDeliveries).Scan(&after); err != nil {
		return err
	}
	if after-before != len(s.took) {
		return fmt.Errorf("%d webhooks were answered 202 and %d are stored", len(s.took), after-before)
	}
	row := w.row(l.w.Name, senders, l.w.Unit, len(s.took))
	s.into(&row)
	l.report.Rows = append(l.report.Rows, row)
	return nil
}

// announced waits until the relay has announced every start, so that its share is in
// the counts.
func (l *lab) announced(ctx context.Context) error {
	return until(ctx, "starts to be announced", func() (bool, error) {
		var open int64
		err := l.pool.QueryRow(ctx, "SELECT count(*) FROM trigger.announcements WHERE announced_at IS NULL").Scan(&open)
		return open == 0, err
	})
}

// bareHTTP is a server that reads the same requests and answers at once: what
// the loopback, the HTTP library and the senders cost by themselves.
func (l *lab) bareHTTP(ctx context.Context, short bool) (sample, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return sample{}, err
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the sender sees what is wrong
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, `{"run_id":"00000000-0000-7000-8000-000000000000","status":"queued"}`+"\n")
	})}
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(listener) }) // ends with ErrServerClosed
	defer wg.Wait()
	defer server.Close()
	d := l.c.Duration
	if short {
		d /= 10
	}
	return flood(ctx, listener.Addr().String(), many, d)
}
