package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/internal/chaos"
)

// ChaosCmd breaks everything below the services and counts what became of the work.
type ChaosCmd struct {
	Seed      *uint64       `help:"The order of the scenarios and who is hit. Without one it is drawn and printed first."`
	Scenarios []string      `placeholder:"NAME" help:"Play only these; a * stands for any part of a name up to a /, as in runner/*."`
	Short     bool          `help:"Play a few that show the most, on one deployment: under a minute."`
	List      bool          `help:"Say what there is and play nothing."`
	JSON      bool          `name:"json" help:"Print the report as JSON; progress goes to standard error."`
	Duration  time.Duration `placeholder:"TIME" help:"Play again and again for so long, like 2h. Without it each is played once."`
	Bounds    bool          `negatable:"" default:"true" help:"Fail also when runs resume later than is promised."`
	Write     string        `placeholder:"FILE" help:"Write the report as a page in Markdown."`
	Keep      bool          `help:"Keep data and logs also when everything holds."`
}

// Help implements kong.HelpProvider.
func (*ChaosCmd) Help() string {
	return `Runs every service as a process of its own, on a private NATS and Postgres, and
plays scenes: a webhook, an agent, tools that write, a yes, a flow, a schedule. Each
process is killed at every place that the code names, and started again; runners and
tools workers are stopped and wake up; NATS is killed and loses its data; Postgres is
restarted and takes no writes; lines are cut and slowed down; everything is restarted
under load. What took effect is counted by the other side, which the suite plays.

  holdfast chaos --list
  holdfast chaos --scenarios 'runner/*' --scenarios nats-lost --seed 7

Exit codes: 0 every promise holds, 1 one is broken (the report says which and what was
seen), 2 wrong usage, 6 it could not be played to its end.`
}

// Run implements the command.
func (c *ChaosCmd) Run(ctx context.Context, k *kong.Context) error {
	if c.List {
		return c.list(k.Stdout)
	}
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	seed := rand.Uint64N(1_000_000)
	if c.Seed != nil {
		seed = *c.Seed
	}
	report, err := chaos.Run(ctx, chaos.Config{
		Binary: binary, Seed: seed, Only: c.Scenarios, Short: c.Short, Duration: c.Duration, Bounds: c.Bounds, Keep: c.Keep,
		Err: k.Stderr, TTY: isTerminal(os.Stderr),
	})
	if errors.Is(err, chaos.ErrNoScenario) {
		return usage(err)
	}
	if c.JSON {
		err = errors.Join(err, report.WriteJSON(k.Stdout))
	} else {
		err = errors.Join(err, report.Write(k.Stdout))
	}
	if err != nil {
		return &exitError{exitUnavailable, fmt.Errorf("chaos: it could not be played to its end: %w", err)}
	}
	if c.Write != "" {
		if err := writePage(c.Write, report); err != nil {
			return err
		}
	}
	if !report.OK {
		return &exitError{exitFailure, errors.New("chaos: not every promise holds; the report says which")}
	}
	return nil
}

func (c *ChaosCmd) list(w io.Writer) error {
	all := chaos.Scenarios()
	if c.JSON {
		return printJSON(w, all)
	}
	rows := make([][]string, 0, len(all))
	for _, s := range all {
		rows = append(rows, []string{s.Name, s.What})
	}
	return table(w, []string{"SCENARIO", "WHAT HAPPENS"}, rows)
}

func writePage(path string, r chaos.Report) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(r.WritePage(f), f.Close())
}
