package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// RunsForkCmd begins a run with the rows of another one.
type RunsForkCmd struct {
	Output
	ID             string            `arg:"" help:"Id of the run."`
	At             int64             `env:"-" placeholder:"SEQ" help:"Newest row to take over, as \"runs get --journal\" numbers them. Default: as many as make sense."`
	Input          string            `env:"-" placeholder:"JSON|@FILE" help:"Another input."`
	Prompt         string            `env:"-" placeholder:"TEXT|@FILE" help:"First message to the model, instead of the one made of the input."`
	Instructions   string            `env:"-" placeholder:"TEXT|@FILE" help:"Another system prompt."`
	Message        string            `env:"-" placeholder:"TEXT|@FILE" help:"What the model reads next."`
	Result         map[string]string `env:"-" mapsep:"none" placeholder:"CALL=JSON" help:"Another result of a call in the history; repeat for more."`
	Reason         string            `env:"-" placeholder:"TEXT" help:"Kept in the journal."`
	IdempotencyKey string            `env:"-" placeholder:"KEY" help:"The same key is the same new run instead of a second one."`
}

// Help implements kong.HelpProvider.
func (*RunsForkCmd) Help() string {
	return `The new run begins with the old one's rows up to one between two turns, also when
later rows cannot be read. A call that equals one which the old run made is
answered from the ledger; any other that changes something waits for a person.

  holdfast runs fork 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a --at 7 --message "use the other shop"
  holdfast runs fork 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a --at 7 \
    --result 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a-5-0='{"price": 79}'

--json prints {"run_id", "at", "status", "effects": [...]}; effects are what the
old run changed behind the row that was taken.`
}

// Run implements the command.
func (c *RunsForkCmd) Run(ctx context.Context, k *kong.Context, group *RunsCmd) error {
	req := client.ForkRequest{At: c.At, Reason: c.Reason, IdempotencyKey: c.IdempotencyKey}
	if c.At < 0 {
		return usage(fmt.Errorf("--at is %d, rows begin with 1", c.At))
	}
	var err error
	if c.Input != "" {
		if req.Input, err = readJSON("--input", c.Input); err != nil {
			return err
		}
	}
	for flag, f := range map[string]struct {
		from string
		to   *string
	}{"--prompt": {c.Prompt, &req.Prompt}, "--instructions": {c.Instructions, &req.Instructions}, "--message": {c.Message, &req.Message}} {
		if *f.to, err = readText(flag, f.from); err != nil {
			return err
		}
	}
	for id, text := range c.Result {
		if !json.Valid([]byte(text)) {
			return usage(fmt.Errorf("--result %s: what follows the = is not JSON; text wants quotes: '\"done\"'", id))
		}
		if req.Results == nil {
			req.Results = map[events.CallID]json.RawMessage{}
		}
		req.Results[events.CallID(id)] = json.RawMessage(text)
	}
	api, err := group.client()
	if err != nil {
		return err
	}
	done, err := api.Fork(ctx, events.RunID(c.ID), req)
	if err != nil {
		return advise(err, lookRuns)
	}
	if c.JSON {
		return printJSON(k.Stdout, done)
	}
	return printForked(k.Stdout, done, "fork")
}

// printForked says what came of a fork or a retry.
func printForked(w io.Writer, f client.Forked, what string) error {
	if f.Replayed {
		what += " that was begun before"
	}
	fmt.Fprintf(w, "run %s is the %s of run %s (%s)\n", f.RunID, what, f.From, f.Status)
	switch {
	case f.Status == events.StatusFailed && f.At == 0 && f.Error != nil:
		return fmt.Errorf("it could not begin: %s", f.Error.Message)
	case f.At > 0 && f.AskedAt > f.At:
		fmt.Fprintf(w, "it has the rows up to %d: row %d is inside a turn\n", f.At, f.AskedAt)
	case f.At > 0:
		fmt.Fprintf(w, "it has the rows up to %d\n", f.At)
	}
	for i, e := range f.Effects {
		if i == 0 {
			fmt.Fprintln(w, "behind that row the old run has called, and an equal call gets the ledger's answer:")
		}
		fmt.Fprintf(w, "  row %-5d %-24s %s\n", e.Row, clean(e.Tool), clean(e.State))
	}
	if f.More {
		fmt.Fprintf(w, "  and more: holdfast effects list --run %s\n", f.From)
	}
	_, err := fmt.Fprintf(w, "follow it: holdfast runs watch %s\n", f.RunID)
	return err
}

// RunsRetryCmd tries failed runs again.
type RunsRetryCmd struct{ Order }

// Help implements kong.HelpProvider.
func (*RunsRetryCmd) Help() string {
	return `An end is final: a new run goes on from the last good row of the failed one. What
that one did is answered from the ledger and not done again. A run is retried
once; when the retry fails, retry that.

  holdfast runs retry 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a --reason "the shop is back"
  holdfast runs retry --where 'agent=="pricing" && error.code=="max_tokens"' --dry-run

--json prints one line per run: {"run_id", "retry", ...} or {"run_id", "error"}.`
}

// Run implements the command.
func (c *RunsRetryCmd) Run(ctx context.Context, k *kong.Context, group *RunsCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	return c.send(ctx, k, api, "retry", func(ctx context.Context, id events.RunID, reason string) (client.Commanded, error) {
		f, err := api.Retry(ctx, id, reason)
		if err == nil && !c.JSON {
			err = printForked(k.Stdout, f, "retry")
		}
		return client.Commanded{CommandID: f.CommandID, RunID: f.RunID}, err
	})
}

func originLine(l *client.Link) string {
	if l == nil {
		return ""
	}
	how := "fork"
	if l.Retry {
		how = "retry"
	}
	return fmt.Sprintf("%s, row %d (%s)", l.RunID, l.Row, how)
}

func forkLines(ls []client.Link) string {
	var lines []string
	for _, l := range ls {
		lines = append(lines, originLine(&l)+" "+clean(l.Status))
	}
	return strings.Join(lines, "\n")
}
