package main

import (
	"context"
	"fmt"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// RunsWhyCmd says what a run waits for.
type RunsWhyCmd struct {
	Output
	ID string `arg:"" help:"Id of the run."`
}

// Help implements kong.HelpProvider.
func (*RunsWhyCmd) Help() string {
	return `Says in one sentence what the run does or waits for and since when; when it waits
for several things, then each of them, and for people, with which command they answer.

  holdfast runs why 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a

--json prints {"run_id", "sentence", "since", "waits": [...]}.`
}

// Run implements the command.
func (c *RunsWhyCmd) Run(ctx context.Context, k *kong.Context, group *RunsCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	why, err := api.Why(ctx, events.RunID(c.ID))
	if err != nil {
		return advise(err, lookRuns)
	}
	if c.JSON {
		return printJSON(k.Stdout, why)
	}
	if _, err = fmt.Fprintln(k.Stdout, clean(why.Sentence)); err != nil {
		return err
	}
	for _, w := range why.Waits {
		if len(why.Waits) > 1 {
			if _, err := fmt.Fprintf(k.Stdout, "- %s\n", clean(w.Sentence)); err != nil {
				return err
			}
		}
		switch w.Kind {
		case "approval", "doubt", "question":
			if _, err := fmt.Fprintf(k.Stdout, "  look and answer: holdfast approvals show %s\n", clean(w.ID)); err != nil {
				return err
			}
		}
	}
	return nil
}
