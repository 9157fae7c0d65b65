package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// RunsMigrateCmd moves runs to another version of their agent.
type RunsMigrateCmd struct {
	Output
	ID             string `arg:"" optional:"" help:"Id of the run."`
	To             string `env:"-" default:"current" placeholder:"DIGEST" help:"Version of the run's agent, or current: what its name means now."`
	DryRun         bool   `env:"-" help:"Only say what would change, and whether the run could be moved."`
	Reason         string `env:"-" placeholder:"TEXT" help:"Kept in the journal."`
	IdempotencyKey string `env:"-" placeholder:"KEY" help:"The same key is the same order instead of a second one."`
	Where          string `env:"-" placeholder:"CEL" help:"Instead of an id: every run of an agent that has not ended and for which this is true, like agent==\"pricing\"."`
	Max            int    `env:"-" default:"1000" placeholder:"N" help:"With --where: when more runs fit, send nothing."`
}

// Validate is called by kong.
func (c *RunsMigrateCmd) Validate() error {
	switch {
	case (c.ID == "") == (c.Where == ""):
		return errors.New("give the id of a run, or --where with a condition")
	case c.Where != "" && c.To != "current":
		return errors.New("--where moves each run to what its agent's name means now; --to is for one run")
	case c.Where != "" && c.IdempotencyKey != "":
		return errors.New("--idempotency-key is for one run")
	}
	return nil
}

// Help implements kong.HelpProvider.
func (*RunsMigrateCmd) Help() string {
	return `Prints what changes. The run goes on under the new version once none of its calls
is open and its model is not answering: what was asked is finished under the old
one, and the rows of the journal stay as they are.

  holdfast runs migrate 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a --dry-run
  holdfast runs migrate 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a --reason "new price tool"
  holdfast runs migrate --where 'agent=="pricing" && status=="waiting"' --dry-run

A run that cannot be moved is left as it is and the command says why. --json prints
{"run_id", "command_id", "from", "to", "movable", "problem", "waits", "changes",
"diff"}; with --where one line per run.`
}

// Run implements the command.
func (c *RunsMigrateCmd) Run(ctx context.Context, k *kong.Context, group *RunsCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	if c.Where != "" {
		return (&Order{Output: c.Output, Where: c.Where, Reason: c.Reason, DryRun: c.DryRun, Max: c.Max}).sendWhere(ctx, k, api, "migrate")
	}
	done, err := api.Migrate(ctx, events.RunID(c.ID), client.MigrateRequest{To: c.To, DryRun: c.DryRun, Reason: c.Reason, IdempotencyKey: c.IdempotencyKey})
	if err != nil {
		return advise(err, lookRuns)
	}
	if c.JSON {
		return printJSON(k.Stdout, done)
	}
	for line := range strings.Lines(done.Diff) {
		fmt.Fprintln(k.Stdout, clean(strings.TrimSuffix(line, "\n")))
	}
	switch {
	case done.Problem != nil:
		_, err = fmt.Fprintf(k.Stdout, "run %s cannot be moved: %s: %s\n", done.RunID, clean(done.Problem.Code), clean(done.Problem.Message))
	case c.DryRun:
		_, err = fmt.Fprintf(k.Stdout, "run %s could be moved%s; nothing was sent\n", done.RunID, waitsFor(done.Waits))
	default:
		_, err = fmt.Fprintf(k.Stdout, "migrate of run %s accepted (command %s)%s\n", done.RunID, done.CommandID, waitsFor(done.Waits))
	}
	return err
}

func waitsFor(what string) string {
	if what == "" {
		return ""
	}
	return "; first comes: " + oneLine(clean(what))
}

// moveLines shows the orders to move a run, the newest first.
func moveLines(moves []client.Move) string {
	var b strings.Builder
	for _, m := range moves {
		fmt.Fprintf(&b, "%d  %s to %s by %s", m.Seq, m.State, m.To.Short(), clean(m.Principal))
		if m.Reason != "" {
			b.WriteString(": " + cut(oneLine(clean(m.Reason)), 120))
		}
		if m.Problem != nil {
			fmt.Fprintf(&b, " (%s: %s)", clean(m.Problem.Code), cut(oneLine(clean(m.Problem.Message)), 200))
		}
		b.WriteString("\n")
	}
	return b.String()
}
