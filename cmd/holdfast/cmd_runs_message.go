package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// RunsMessageCmd says something to the model of a run.
type RunsMessageCmd struct {
	Output
	ID             string `arg:"" help:"Id of the run."`
	Text           string `arg:"" optional:"" help:"What the model reads; - takes it from standard input."`
	File           string `short:"f" env:"-" placeholder:"FILE" help:"Take the text from a file."`
	IdempotencyKey string `env:"-" placeholder:"KEY" help:"The same key is the same message instead of a second one."`
}

// Validate is called by kong.
func (c *RunsMessageCmd) Validate() error {
	if (c.Text == "") == (c.File == "") {
		return errors.New("give the text, - for standard input, or -f with a file")
	}
	return nil
}

// Help implements kong.HelpProvider.
func (*RunsMessageCmd) Help() string {
	return `The model reads it in its next request: behind the answer that it is giving,
before the run ends, and not before what the run waits for has come. It answers
no question and no approval. At most 32 KiB.

  holdfast runs message 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a "use the other shop"
  holdfast runs message 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a -f notes.txt
  git diff | holdfast runs message 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a -

--json prints {"run_id", "command_id"}.`
}

// Run implements the command.
func (c *RunsMessageCmd) Run(ctx context.Context, k *kong.Context, group *RunsCmd) error {
	text, what := c.Text, "TEXT"
	var err error
	switch {
	case c.File != "":
		what = "-f"
		text, err = readText(what, "@"+c.File)
	case c.Text == "-":
		text, err = readText(what, "@-")
	}
	if err != nil {
		return err
	}
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return usage(fmt.Errorf("%s: use UTF-8 text without NUL", what))
	}
	api, err := group.client()
	if err != nil {
		return err
	}
	done, err := api.Say(ctx, events.RunID(c.ID), text, c.IdempotencyKey)
	if err != nil {
		return advise(err, lookRuns)
	}
	if c.JSON {
		return printJSON(k.Stdout, done)
	}
	_, err = fmt.Fprintf(k.Stdout, "message to run %s accepted (command %s)\n", done.RunID, done.CommandID)
	return err
}

// messageLines shows what was said to a run, the oldest shown first.
func messageLines(m *client.Messages) string {
	if m == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d, %d of them not read by the model\n", m.All, m.Unread)
	for i := len(m.Newest) - 1; i >= 0; i-- {
		n := m.Newest[i]
		read := ""
		if !n.Read {
			read = " (not read)"
		}
		fmt.Fprintf(&b, "%d  %s%s: %s\n", n.Seq, clean(n.Principal), read, cut(oneLine(clean(n.Text)), 120))
	}
	return b.String()
}
