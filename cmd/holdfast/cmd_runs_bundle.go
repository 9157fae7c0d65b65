package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// RunsBundleCmd gets everything about a run.
type RunsBundleCmd struct {
	ID  string `arg:"" help:"Id of the run."`
	Out string `short:"o" env:"-" placeholder:"FILE" help:"Write it to a file that only you can read, instead of printing it."`
}

// Help implements kong.HelpProvider.
func (*RunsBundleCmd) Help() string {
	return `One JSON document of less than a megabyte: the run, the end of its journal, what
parked it, its effects (those in doubt first), open approvals, the processes, and
commands that help. It is there for a run whose journal cannot be read.

  holdfast runs bundle 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a | jq -r '.next[]'
  holdfast runs bundle 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a -o run.json`
}

// Run implements the command.
func (c *RunsBundleCmd) Run(ctx context.Context, k *kong.Context, group *RunsCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	raw, err := api.Bundle(ctx, events.RunID(c.ID))
	if err != nil {
		return advise(err, lookRuns)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return fmt.Errorf("the bundle is no JSON: %w", err)
	}
	b.WriteByte('\n')
	if c.Out == "" {
		_, err = k.Stdout.Write(b.Bytes())
		return err
	}
	if err := os.WriteFile(c.Out, b.Bytes(), 0o600); err != nil {
		return err
	}
	_, err = fmt.Fprintf(k.Stdout, "bundle of run %s written to %s (%d bytes)\n", c.ID, c.Out, b.Len())
	return err
}
