package bench

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
)

// wakeWorkload is runs that wait for another system, and are all told.
var wakeWorkload = Workload{
	Name: "wake", Unit: "wakes",
	Doc: "Runs that wait for a signal, all of them waiting, then woken by a webhook each (--waiting).",
	Stages: []StageDoc{
		{"woken", "signal accepted, to its row in the run's journal"},
		{"answered", "model call owed, to the commit of its answer, which ends the run"},
	},
	services: []string{scriptedRunner, "trigger"},
	run:      measureWake,
}

// queryWakes is of runs that a signal woke, by when the signal was accepted.
const queryWakes = `
WITH j AS (
    SELECT s.received_at, j.kind, j.at, max(j.at) FILTER (WHERE j.kind = 'signal_received') OVER (PARTITION BY j.run_id) AS woken
      FROM runner.journal j JOIN trigger.signals s ON s.run_id = j.run_id
     WHERE j.at >= $1 AND j.at < $2),
took AS (
    SELECT 'woken' AS stage, at - received_at AS d FROM j WHERE kind = 'signal_received'
    UNION ALL SELECT 'answered', at - woken FROM j WHERE kind = 'run_completed'
    UNION ALL SELECT 'wake', at - received_at FROM j WHERE kind = 'run_completed')
` + percentiles

const (
	queryWaiting   = `SELECT count(*) FROM runner.pending WHERE kind = 'signal'`
	queryCompleted = `SELECT count(*) FROM runner.runs WHERE ended_at IS NOT NULL`
)

func measureWake(ctx context.Context, l *lab) error {
	n := l.c.Waiting
	l.c.say("wake, %d runs begin to wait", n)
	if err := l.each(ctx, waitHook, n, func(to []byte, i int) []byte {
		return append(strconv.AppendInt(append(to, `{"turns":1,"key":"k`...), int64(i), 10), `"}`...)
	}); err != nil {
		return err
	}
	if err := l.reach(ctx, "runs to wait", queryWaiting, n); err != nil {
		return err
	}
	l.c.say("wake, %d runs are woken", n)
	w, err := l.measure(ctx, func() error {
		if err := l.each(ctx, wakeHook, n, func(to []byte, i int) []byte {
			return append(strconv.AppendInt(append(to, `{"key":"k`...), int64(i), 10), `"}`...)
		}); err != nil {
			return err
		}
		return l.reach(ctx, "runs to end", queryCompleted, n)
	})
	if err != nil {
		return err
	}
	stages, facts, err := l.stagesBy(ctx, queryWakes, w.from.at, w.to.at)
	if err != nil {
		return err
	}
	row := w.row(l.w.Name, n, l.w.Unit, n)
	row.unit(l.w, stages, "wake")
	row.FactsPerSecond = float64(facts) / w.elapsed().Seconds()
	l.report.Rows = append(l.report.Rows, row)
	return nil
}

// each sends n webhooks, numbered from 1.
func (l *lab) each(ctx context.Context, hook string, n int, text bodyOf) error {
	var number atomic.Int64
	errs := make([]error, min(n, mostSenders))
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			var s *sender
			if s, errs[i] = newSender(ctx, l.doors["trigger"], hook, text); errs[i] != nil {
				return
			}
			defer s.conn.Close()
			for s.n = int(number.Add(1)); s.n <= n && errs[i] == nil; s.n = int(number.Add(1)) {
				errs[i] = s.post()
			}
		})
	}
	wg.Wait()
	return firstOf(errs)
}

// reach waits until a query counts n; while the count moves it waits on.
func (l *lab) reach(ctx context.Context, what, query string, n int) error {
	for had := -1; ; {
		count := 0
		err := until(ctx, what, func() (bool, error) {
			err := l.pool.QueryRow(ctx, query).Scan(&count)
			return count > had, err
		})
		if err != nil || count >= n {
			return err
		}
		had = count
	}
}
