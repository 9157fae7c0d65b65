package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
)

// StopScope says what a stop is about.
type StopScope struct {
	All   bool   `env:"-" xor:"scope" help:"Everything in the namespace. Needs the role admin."`
	Agent string `env:"-" xor:"scope" placeholder:"NAME" help:"Runs of this agent or flow, and the runs that they started."`
	Tool  string `env:"-" xor:"scope" placeholder:"NAME" help:"This tool; program/NAME for what programs do."`
}

// of returns scope and name; the scope is empty when none was given.
func (s StopScope) of() (scope, name string) {
	switch {
	case s.All:
		return client.StopAll, ""
	case s.Agent != "":
		return client.StopAgent, s.Agent
	case s.Tool != "":
		return client.StopTool, s.Tool
	}
	return "", ""
}

// StopCmd lets no new write leave.
type StopCmd struct {
	Remote
	Output
	StopScope
	Note   string `env:"-" placeholder:"TEXT" help:"Why, for whoever finds it stopped. Needed, but with --dry-run."`
	DryRun bool   `env:"-" help:"Only say what it would meet."`
}

// Help implements kong.HelpProvider.
func (*StopCmd) Help() string {
	return `The emergency stop: once this returns, no process begins a write any more. Writes
wait as "held"; models, reads, timers and people go on. "holdfast start" ends it.

  holdfast stop --all --note "wrong prices, looking into it"
  holdfast stop --agent competitor-check --note "loops"
  holdfast stop --tool propose_price --note "the shop is down"
  holdfast stop --all --dry-run
  holdfast effects list --state held

--json prints {"stop_id", "scope", "name", "note", "by", "since", "held"}; with
--dry-run {"runs", "waiting", "under_way", "means"}.
` + exitHelp
}

// Run implements the command.
func (c *StopCmd) Run(ctx context.Context, k *kong.Context) error {
	scope, name := c.of()
	if scope == "" {
		return usage(errors.New("stop what? Say --all, --agent NAME or --tool NAME"))
	}
	if c.Note == "" && !c.DryRun {
		return usage(errors.New("say why with --note, for whoever finds it stopped"))
	}
	api, err := c.client()
	if err != nil {
		return err
	}
	if c.DryRun {
		p, err := api.PreviewStop(ctx, scope, name)
		if err != nil {
			return advise(err, "")
		}
		if c.JSON {
			return printJSON(k.Stdout, p)
		}
		for _, line := range p.Means {
			fmt.Fprintln(k.Stdout, line)
		}
		return nil
	}
	s, err := api.StopWrites(ctx, scope, name, c.Note)
	if err != nil {
		return advise(err, "")
	}
	if c.JSON {
		return printJSON(k.Stdout, s)
	}
	_, err = fmt.Fprintf(k.Stdout, "%s; what leaves from now on waits: holdfast effects list --state held\nto end it: holdfast start %s\n", stopLine(s), s.ID)
	return err
}

// StartCmd ends stops, or lists them.
type StartCmd struct {
	Remote
	Output
	List
	StopScope
	ID    string `arg:"" optional:"" name:"stop" help:"Id of the stop."`
	Note  string `env:"-" placeholder:"TEXT" help:"Kept with who started it again."`
	Ended bool   `env:"-" help:"List those that have ended as well."`
}

// Help implements kong.HelpProvider.
func (*StartCmd) Help() string {
	return `Ends a stop: what it held goes on by itself, unless another stop holds it.
Approvals are looked at again. Without a stop to end, lists what is stopped.

  holdfast start
  holdfast start --ended
  holdfast start --all --note "prices are right again"
  holdfast start --tool propose_price

--json prints the stop as "holdfast stop --json", or {"items": [...], "next_cursor"}.
` + exitHelp
}

// Run implements the command.
func (c *StartCmd) Run(ctx context.Context, k *kong.Context) error {
	scope, name := c.of()
	if scope != "" && c.ID != "" {
		return usage(errors.New("give the id of a stop or its scope, not both"))
	}
	api, err := c.client()
	if err != nil {
		return err
	}
	id := c.ID
	switch {
	case scope == "" && id == "":
		return c.list(ctx, k, api)
	case id == "":
		if id, err = standing(ctx, api, scope, name); err != nil {
			return err
		}
	}
	s, err := api.ReleaseStop(ctx, id, c.Note)
	if err != nil {
		return advise(err, "holdfast start")
	}
	if c.JSON {
		return printJSON(k.Stdout, s)
	}
	_, err = fmt.Fprintf(k.Stdout, "%s goes on since %s, started by %s; %d effects were held\n", stopTarget(s), stamp(s.EndedAt), clean(s.EndedBy), s.Held)
	return err
}

func (c *StartCmd) list(ctx context.Context, k *kong.Context, api *client.Client) error {
	read := func(ctx context.Context, p client.PageRequest) (client.Page[client.Stop], error) {
		return api.Stops(ctx, !c.Ended, p)
	}
	return printList(ctx, k, c.Output, c.List, read, listing[client.Stop]{
		none: "nothing is stopped",
		head: []string{"STOP", "WHAT", "BY", "SINCE", "HELD", "ENDED", "NOTE"},
		row: func(s client.Stop) []string {
			return []string{s.ID, stopTarget(s), clean(s.By), stamp(s.Since), fmt.Sprint(s.Held), stamp(s.EndedAt), cut(s.Note, 60)}
		},
	})
}

// standing finds the stop of a scope that stands.
func standing(ctx context.Context, api *client.Client, scope, name string) (string, error) {
	page, err := upTo(ctx, 5000, func(ctx context.Context, p client.PageRequest) (client.Page[client.Stop], error) {
		return api.Stops(ctx, true, p)
	})
	if err != nil {
		return "", advise(err, "")
	}
	for _, s := range page.Items {
		if s.Scope == scope && s.Name == name {
			return s.ID, nil
		}
	}
	return "", fmt.Errorf("%s is not stopped; \"holdfast start\" lists what is", stopTarget(client.Stop{Scope: scope, Name: name}))
}

func stopTarget(s client.Stop) string {
	if s.Scope == client.StopAll {
		return "everything"
	}
	return s.Scope + " " + clean(s.Name)
}

func stopLine(s client.Stop) string {
	return fmt.Sprintf("writes of %s are stopped by %s since %s: %s", stopTarget(s), clean(s.By), stamp(s.Since), clean(s.Note))
}

// tellStops prints a line for each stop in force. It is a courtesy: who may not
// read stops, or has an older server, is told nothing.
func tellStops(ctx context.Context, w io.Writer, api *client.Client) {
	page, err := api.Stops(ctx, true, client.PageRequest{Limit: 3})
	if err != nil {
		return
	}
	for _, s := range page.Items {
		fmt.Fprintln(w, stopLine(s))
	}
	if page.NextCursor != "" {
		fmt.Fprintln(w, "more is stopped: holdfast start")
	}
}
