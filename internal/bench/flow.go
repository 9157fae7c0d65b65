package bench

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// flowWorkload is a flow that starts many children at once and waits for all.
var flowWorkload = Workload{
	Name: "flow", Unit: "children",
	Doc: "A flow of one step with a thousand children, all of them open at once: an agent that answers once.",
	Stages: []StageDoc{
		{"claimed", "child asked for by its parent, to the commit that starts it"},
		{"answered", "model call owed, to the commit of its answer, which ends the child"},
		{"run", "child asked for, to its end"},
	},
	services: []string{scriptedRunner, "trigger"},
	run:      measureFlow,
}

const queryFlowEnd = `SELECT coalesce((SELECT status FROM runner.runs WHERE kind = 'flow' ORDER BY run_id DESC LIMIT 1), 'queued'), (SELECT count(*) FROM runner.runs WHERE kind = 'flow')`

func measureFlow(ctx context.Context, l *lab) error {
	if err := l.fanOut(ctx, 1, 10); err != nil { // connections, plans, pages
		return err
	}
	l.c.say("flow, %d children", l.c.Children)
	w, err := l.measure(ctx, func() error { return l.fanOut(ctx, 2, l.c.Children) })
	if err != nil {
		return err
	}
	stages, facts, err := l.stages(ctx, w.from.at, w.to.at, "agent")
	if err != nil {
		return err
	}
	row := w.row(l.w.Name, l.c.Children, l.w.Unit, l.c.Children)
	row.unit(l.w, stages, "run")
	row.FactsPerSecond = float64(facts) / w.elapsed().Seconds()
	l.report.Rows = append(l.report.Rows, row)
	return nil
}

// fanOut starts flow number n and waits for its end.
func (l *lab) fanOut(ctx context.Context, n, children int) error {
	s, err := newSender(ctx, l.doors["trigger"], flowHook, func(to []byte, _ int) []byte {
		to = append(to, `{"items":[`...)
		for i := range children {
			if i > 0 {
				to = append(to, ',')
			}
			to = append(strconv.AppendInt(append(to, `{"n":`...), int64(i), 10), '}')
		}
		return append(to, "]}"...)
	})
	if err != nil {
		return err
	}
	defer s.conn.Close()
	s.n = n
	if err := s.post(); err != nil {
		return err
	}
	return until(ctx, "the flow to end", func() (bool, error) {
		var status string
		var flows int
		if err := l.pool.QueryRow(ctx, queryFlowEnd).Scan(&status, &flows); err != nil || flows < n {
			return false, err
		}
		switch status {
		case "completed":
			return true, nil
		case "failed", "needs_attention", "expired", "cancelled":
			return false, fmt.Errorf("the flow is %s", status)
		}
		return false, pause(ctx, 30*time.Millisecond)
	})
}

// pause waits for d, or returns why it could not.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
