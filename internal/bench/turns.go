package bench

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// turnsWorkload is what an agent does all day: the model answers, one tool acts,
// through the ledger.
var turnsWorkload = Workload{
	Name: "turns", Unit: "turns", Levels: []int{1, 64, 512},
	Doc:      "A model answer (a script in the runner's process) and one write tool over HTTP, through the ledger.",
	Stages:   turnStages,
	services: []string{scriptedRunner, "trigger", "tools"},
	run:      func(ctx context.Context, l *lab) error { return l.turns(ctx, turnsHook) },
}

// turnStages are of all workloads of agents' turns.
var turnStages = []StageDoc{
	{"claimed", "webhook accepted, to the commit that starts the run and takes its claim"},
	{"answered", "model call owed, to the commit of its answer"},
	{"intent", "that, to the intent in the ledger (reads have none)"},
	{"acted", "intent, to the outcome in the ledger, the request to the other system between them"},
	{"tool done", "answer committed, to the tool's result in the run's journal"},
	{"ended", "last result, to the end of the run: its last model answer"},
	{"run", "webhook accepted, to the end of the run"},
}

// turnText is the body of a webhook that starts a run of so many turns.
func turnText(turns int) bodyOf {
	return func(to []byte, n int) []byte {
		to = append(to, `{"order":`...)
		to = strconv.AppendInt(to, int64(n), 10)
		to = append(to, `,"turns":`...)
		to = strconv.AppendInt(to, int64(turns), 10)
		return append(to, `,"note":"a body of about a hundred bytes, as small webhooks have them"}`...)
	}
}

// turns measures runs of an agent, one row for each number of runs at once.
func (l *lab) turns(ctx context.Context, hook string) error {
	levels := l.w.levels(l.c)
	for i, atOnce := range levels {
		l.c.say("%s, %d runs at once", l.w.Name, atOnce)
		if err := l.turnsOf(ctx, hook, atOnce, i == len(levels)-1); err != nil {
			return fmt.Errorf("%d at once: %w", atOnce, err)
		}
	}
	return nil
}

func (l *lab) turnsOf(ctx context.Context, hook string, atOnce int, last bool) error {
	c, err := l.openCrowd(ctx, hook, atOnce, turnText(l.c.Turns))
	if err != nil {
		return err
	}
	// Connections, plans, pages; and runs that began together drift apart.
	if err := c.wait(ctx, l.c.Duration/2, 2*atOnce); err != nil {
		return err
	}
	w, err := l.measure(ctx, func() error { return c.wait(ctx, l.c.Duration, 2*atOnce) })
	if err != nil {
		return err
	}
	if err := c.close(ctx, !last); err != nil {
		return err
	}
	row, err := l.turnRow(ctx, w, atOnce)
	if err != nil {
		return err
	}
	l.report.Rows = append(l.report.Rows, row)
	return nil
}

// turnRow counts the turns that ended in a window.
func (l *lab) turnRow(ctx context.Context, w window, atOnce int) (Row, error) {
	stages, facts, err := l.stages(ctx, w.from.at, w.to.at, "")
	if err != nil {
		return Row{}, err
	}
	var row Row
	n := row.unit(l.w, stages, "turn")
	if n == 0 {
		return Row{}, fmt.Errorf("no turn ended in %s", w.elapsed().Round(time.Millisecond))
	}
	row = w.row(l.w.Name, atOnce, l.w.Unit, n)
	row.unit(l.w, stages, "turn")
	row.FactsPerSecond = float64(facts) / w.elapsed().Seconds()
	return row, nil
}
