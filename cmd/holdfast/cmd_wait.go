package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// waitFlag is --wait, which has no end, or --wait=30s.
type waitFlag struct {
	set  bool
	most time.Duration
}

var _ kong.BoolMapperValue = (*waitFlag)(nil)

// IsBool implements kong.BoolMapperValue: the value may be left out.
func (*waitFlag) IsBool() bool { return true }

// Decode implements kong.MapperValue.
func (w *waitFlag) Decode(ctx *kong.DecodeContext) error {
	w.set = true
	if ctx.Scan.Peek().Type != kong.FlagValueToken {
		return nil
	}
	text := fmt.Sprint(ctx.Scan.Pop().Value)
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return fmt.Errorf("%q is no time like 30s or 5m", text)
	}
	w.most = d
	return nil
}

// wait waits for the end of a run that was started and prints its output.
func (c *RunsStartCmd) wait(ctx context.Context, k *kong.Context, api *client.Client, started client.Started) error {
	if !c.JSON {
		fmt.Fprintf(k.Stderr, "run %s started\n", started.RunID)
	}
	if c.Stream {
		if err := c.stream(ctx, k, api, started); err != nil {
			return err
		}
	} else if _, err := api.Wait(ctx, started.RunID, c.Wait.most); err != nil {
		return stillRunning(ctx, started.RunID, "waiting", err)
	}
	run, err := api.Run(ctx, started.RunID)
	if err != nil {
		return advise(err, lookRuns)
	}
	switch {
	case c.JSON && c.Stream:
		err = printJSONLine(k.Stdout, run)
	case c.JSON:
		err = printJSON(k.Stdout, run)
	default:
		if out := pretty(run.Output); out != "" {
			_, err = fmt.Fprintln(k.Stdout, out)
		}
	}
	switch {
	case err != nil || run.Status == events.StatusCompleted:
		return err
	case !events.Ended(run.Status):
		return &exitError{exitStillRunning, fmt.Errorf("run %s is %s after %s and goes on: holdfast runs watch %s", run.RunID, run.Status, c.Wait.most, run.RunID)}
	}
	why := ""
	if run.Error != nil {
		why = ": " + clean(run.Error.Message)
	}
	return fmt.Errorf("run %s ended as %s%s; its journal: holdfast runs get %s --journal", run.RunID, run.Status, why, run.RunID)
}

// stream prints what happens until the run has ended or the wait is over.
func (c *RunsStartCmd) stream(ctx context.Context, k *kong.Context, api *client.Client, started client.Started) error {
	watching := ctx
	if c.Wait.most > 0 {
		timed, cancel := context.WithTimeout(ctx, c.Wait.most)
		defer cancel()
		watching = timed
	}
	text := &liveText{w: k.Stdout, notes: k.Stderr, onlyText: true}
	defer text.end()
	for f, err := range api.WatchLive(watching, started.RunID, 0) {
		switch {
		case err != nil:
			return stillRunning(ctx, started.RunID, "watching", err)
		case c.JSON:
			if err := printFrameJSON(k.Stdout, f); err != nil {
				return err
			}
		case f.Delta != nil:
			text.print(*f.Delta)
		default:
			if f.Event.Kind == events.FactModelAnswered {
				text.end()
			}
		}
	}
	if ctx.Err() != nil {
		text.end()
		return stillRunning(ctx, started.RunID, "watching", context.Cause(ctx))
	}
	return nil
}

// stillRunning says that what was interrupted is the watching and not the run.
func stillRunning(ctx context.Context, id events.RunID, what string, err error) error {
	if ctx.Err() != nil {
		return &exitError{exitStillRunning, fmt.Errorf("stopped %s; run %s goes on: holdfast runs watch %s", what, id, id)}
	}
	if errors.Is(err, client.ErrUnreachable) || client.StatusOf(err) == 0 {
		return fmt.Errorf("run %s goes on, but %s it stopped: %w", id, what, err)
	}
	return advise(err, lookRuns)
}
