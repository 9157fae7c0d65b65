package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// Order is what cancel, pause, resume and retry have in common.
type Order struct {
	Output
	ID     []string `arg:"" optional:"" help:"Ids of the runs."`
	Reason string   `env:"-" placeholder:"TEXT" help:"Kept in the journal."`
	Where  string   `env:"-" placeholder:"CEL" help:"Instead of ids: every run that has not ended (retry: that failed) and for which this is true, like status==\"needs_attention\" && agent==\"pricing\"."`
	DryRun bool     `env:"-" help:"With --where: only say which runs those are."`
	Max    int      `env:"-" default:"1000" placeholder:"N" help:"With --where: when more runs fit, send nothing."`
}

// Validate is called by kong.
func (c *Order) Validate() error {
	switch {
	case c.Where != "" && len(c.ID) > 0:
		return errors.New("give ids or --where, not both")
	case c.Where == "" && len(c.ID) == 0:
		return errors.New("give the ids of runs, or --where with a condition")
	case c.Where == "" && c.DryRun:
		return errors.New("--dry-run says which runs --where finds; with ids there is nothing to find")
	case c.Max < 1 || c.Max > 10_000:
		return fmt.Errorf("--max %d: use 1 to 10000", c.Max)
	}
	return nil
}

// CommandResult is what --json prints, one per run and line.
type commandResult struct {
	RunID     string `json:"run_id"`
	CommandID string `json:"command_id,omitempty"`
	Retry     string `json:"retry,omitempty"` // the run that goes on
	Error     string `json:"error,omitempty"`
}

// send gives the order to the runs that are named, or to those that fit.
func (c *Order) send(ctx context.Context, k *kong.Context, api *client.Client, what string, order func(context.Context, events.RunID, string) (client.Commanded, error)) error {
	if c.Where != "" {
		return c.sendWhere(ctx, k, api, what)
	}
	var errs []error
	for _, id := range c.ID {
		done, err := order(ctx, events.RunID(id), c.Reason)
		res := commandResult{RunID: id, CommandID: done.CommandID}
		if string(done.RunID) != id {
			res.Retry = string(done.RunID)
		}
		if err != nil {
			res.Error = err.Error()
			errs = append(errs, fmt.Errorf("%s run %s: %w", what, id, advise(err, lookRuns)))
		}
		switch {
		case c.JSON:
			if err := printJSONLine(k.Stdout, res); err != nil {
				return err
			}
		case err == nil && what != "retry": // it says more itself
			fmt.Fprintf(k.Stdout, "%s of run %s accepted (command %s)\n", what, id, done.CommandID)
		}
	}
	return errors.Join(errs...)
}

func (c *Order) sendWhere(ctx context.Context, k *kong.Context, api *client.Client, what string) error {
	done, err := api.Bulk(ctx, client.Bulk{Command: what, Where: c.Where, Reason: c.Reason, Max: c.Max, DryRun: c.DryRun})
	if err != nil {
		return fmt.Errorf("%s runs: %w", what, err)
	}
	sent := 0
	for _, r := range done.Runs {
		if r.CommandID != "" {
			sent++
		}
		if c.JSON {
			if err := printJSONLine(k.Stdout, r); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(k.Stdout, "%s  %-16s %-24s %s\n", r.RunID, clean(r.Status), clean(r.Name), clean(joinWords(r.Waiting, string(r.Retry))))
	}
	switch {
	case c.JSON:
	case c.DryRun:
		fmt.Fprintf(k.Stdout, "%d runs fit; nothing was sent\n", len(done.Runs))
	default:
		fmt.Fprintf(k.Stdout, "%s of %d runs accepted", what, sent)
		if left := len(done.Runs) - sent; left > 0 && what == "delete" {
			fmt.Fprintf(k.Stdout, "; %d stay", left)
		} else if left > 0 {
			fmt.Fprintf(k.Stdout, "; %d ended meanwhile", left)
		}
		fmt.Fprintln(k.Stdout)
	}
	if done.Unclear > 0 {
		return fmt.Errorf("for %d runs the condition is no answer, and they were left alone; the first: %s", done.Unclear, done.Problem)
	}
	return nil
}

// RunsCancelCmd ends runs.
type RunsCancelCmd struct{ Order }

// Help implements kong.HelpProvider.
func (*RunsCancelCmd) Help() string {
	return `Calls that have not begun are taken back and open approvals withdrawn; a call
that has begun is awaited, so that its outcome is known.

  holdfast runs cancel 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a --reason "wrong shop"
  holdfast runs cancel --where 'agent=="pricing" && idle>3600' --dry-run

--json prints one line per run: {"run_id", "command_id"} or {"run_id", "error"}.`
}

// Run implements the command.
func (c *RunsCancelCmd) Run(ctx context.Context, k *kong.Context, group *RunsCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	return c.send(ctx, k, api, "cancel", api.Cancel)
}

// RunsPauseCmd holds runs.
type RunsPauseCmd struct{ Order }

// Help implements kong.HelpProvider.
func (*RunsPauseCmd) Help() string {
	return `  holdfast runs pause 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a --reason "price freeze"

--json prints one line per run: {"run_id", "command_id"} or {"run_id", "error"}.`
}

// Run implements the command.
func (c *RunsPauseCmd) Run(ctx context.Context, k *kong.Context, group *RunsCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	return c.send(ctx, k, api, "pause", api.Pause)
}

// RunsResumeCmd lets paused runs go on.
type RunsResumeCmd struct{ Order }

// Help implements kong.HelpProvider.
func (*RunsResumeCmd) Help() string {
	return `A run that needs attention goes on, too: its step is tried again.

  holdfast runs resume 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a
  holdfast runs resume --where 'status=="needs_attention" && error.code=="auth"' --dry-run

--json prints one line per run: {"run_id", "command_id"} or {"run_id", "error"}.`
}

// Run implements the command.
func (c *RunsResumeCmd) Run(ctx context.Context, k *kong.Context, group *RunsCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	return c.send(ctx, k, api, "resume", api.Resume)
}
