package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// RunsDeleteCmd deletes runs.
type RunsDeleteCmd struct {
	Output
	ID     []string `arg:"" optional:"" help:"Ids of the runs."`
	Reason string   `env:"-" placeholder:"TEXT" help:"Kept with the fact that they were deleted."`
	Where  string   `env:"-" placeholder:"CEL" help:"Instead of ids: every run that has ended, that no run started, and for which this is true, like agent==\"pricing\" && idle>2592000."`
	DryRun bool     `env:"-" help:"Only say which runs would go."`
	Max    int      `env:"-" default:"1000" placeholder:"N" help:"With --where: when more runs fit, delete none."`
}

// Validate is called by kong.
func (c *RunsDeleteCmd) Validate() error {
	o := Order{ID: c.ID, Where: c.Where, DryRun: c.DryRun && c.Where != "", Max: c.Max}
	return o.Validate()
}

// Help implements kong.HelpProvider.
func (*RunsDeleteCmd) Help() string {
	return `Deletes runs that have ended, each with all runs below it: journals, artifacts, and
what was sent, asked and kept for them. The ledger of side effects stays, so nothing
is done twice. There is no way back. See docs/runs.md.

  holdfast runs delete 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a --reason "customer 42 left"
  holdfast runs delete --where '"customer" in labels && labels.customer=="42"' --dry-run

--json prints one line per run: {"run_id", "runs"} or {"run_id", "error"}.`
}

// deleteResult is what --json prints, one per run and line.
type deleteResult struct {
	RunID string `json:"run_id"`
	Runs  int    `json:"runs,omitempty"`
	Error string `json:"error,omitempty"`
}

// Run implements the command.
func (c *RunsDeleteCmd) Run(ctx context.Context, k *kong.Context, group *RunsCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	if c.Where != "" {
		return (&Order{Output: c.Output, Where: c.Where, Reason: c.Reason, DryRun: c.DryRun, Max: c.Max}).sendWhere(ctx, k, api, "delete")
	}
	var errs []error
	for _, id := range c.ID {
		done, err := api.Delete(ctx, events.RunID(id), client.DeleteRequest{Reason: c.Reason, DryRun: c.DryRun})
		res := deleteResult{RunID: id, Runs: done.Runs}
		if err != nil {
			res.Error = err.Error()
			errs = append(errs, fmt.Errorf("delete run %s: %w", id, advise(err, lookRuns)))
		}
		switch {
		case c.JSON:
			if err := printJSONLine(k.Stdout, res); err != nil {
				return err
			}
		case err != nil:
		case c.DryRun:
			fmt.Fprintf(k.Stdout, "run %s would go, with %d below it; nothing was sent\n", id, done.Runs-1)
		default:
			fmt.Fprintf(k.Stdout, "delete of run %s accepted, with %d below it\n", id, done.Runs-1)
		}
	}
	return errors.Join(errs...)
}

// RunsDeletedCmd lists deleted runs.
type RunsDeletedCmd struct {
	Output
	List
}

// Help implements kong.HelpProvider.
func (*RunsDeletedCmd) Help() string {
	return `That a run was deleted, when and by whom is kept for 400 days.

--json prints {"items": [...], "next_cursor"}.`
}

// Run implements the command.
func (c *RunsDeletedCmd) Run(ctx context.Context, k *kong.Context, group *RunsCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	return printList(ctx, k, c.Output, c.List, api.Deletions, listing[client.Deletion]{
		none: "no run was deleted",
		head: []string{"RUN", "NAME", "ENDED AS", "ENDED", "DELETED", "BY", "REASON"},
		row: func(d client.Deletion) []string {
			return []string{string(d.RunID), clean(d.Name), clean(d.Status), stamp(d.EndedAt), stamp(d.DeletedAt), clean(d.DeletedBy), cut(clean(d.Reason), 60)}
		},
	})
}
