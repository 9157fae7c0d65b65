package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
)

// SignalsCmd groups signals.
type SignalsCmd struct {
	Remote

	Send SignalsSendCmd `cmd:"" help:"Hand data to the run that waits for a signal and a key."`
	List SignalsListCmd `cmd:"" help:"List signals and what became of them, newest first."`
}

// Help implements kong.HelpProvider.
func (*SignalsCmd) Help() string {
	return `A tool with a signal section makes its run wait; a webhook with one, and this
command, end the wait. States: kept (no run waits for it yet), sent (on its way),
taken (it is the result of that run's call), expired.

  holdfast signals send payment_received --key 42 --data '{"amount": 89.5}'
  holdfast signals list --state kept
` + exitHelp
}

// SignalsSendCmd sends a signal.
type SignalsSendCmd struct {
	Output
	Name    string        `arg:"" help:"Name of the signal."`
	Key     string        `env:"-" required:"" placeholder:"KEY" help:"Which run is meant: the key that its tool derives."`
	Data    string        `env:"-" placeholder:"JSON|@FILE" help:"What the run gets: JSON, @file, or @- for standard input. null when absent."`
	KeepFor time.Duration `env:"-" placeholder:"DURATION" help:"How long it is kept while no run waits; 168h when absent."`
}

// Help implements kong.HelpProvider.
func (*SignalsSendCmd) Help() string {
	return `Exactly one run takes it: the one that has waited longest, or the next one that
waits.

  holdfast signals send payment_received --key 42 --data '{"amount": 89.5}'

--json prints {"signal_id"}.`
}

// Run implements the command.
func (c *SignalsSendCmd) Run(ctx context.Context, k *kong.Context, group *SignalsCmd) error {
	data, err := readText("--data", c.Data)
	if err != nil {
		return err
	}
	if data != "" && !json.Valid([]byte(data)) {
		return usage(errors.New(`--data is not JSON; text needs quotes of its own: --data '"paid"'`))
	}
	if c.KeepFor < 0 || c.KeepFor%time.Second != 0 {
		return usage(fmt.Errorf("--keep-for %s is not a whole number of seconds", c.KeepFor))
	}
	api, err := group.client()
	if err != nil {
		return err
	}
	id, err := api.SendSignal(ctx, c.Name, client.SignalRequest{Key: c.Key, Data: json.RawMessage(data), KeepFor: int64(c.KeepFor / time.Second)})
	if err != nil {
		return advise(err, "holdfast signals send --help")
	}
	if c.JSON {
		return printJSON(k.Stdout, map[string]string{"signal_id": id})
	}
	_, err = fmt.Fprintf(k.Stdout, "signal %s is kept for the run that waits; to see it: holdfast signals list --name %s\n", id, c.Name)
	return err
}

// SignalsListCmd lists signals.
type SignalsListCmd struct {
	Output
	List
	State string `env:"-" placeholder:"STATE" help:"kept, sent, taken or expired."`
	Name  string `env:"-" placeholder:"NAME" help:"Of this name only."`
	Key   string `env:"-" placeholder:"KEY" help:"With this key only."`
}

// Help implements kong.HelpProvider.
func (*SignalsListCmd) Help() string {
	return `  holdfast signals list --state kept
  holdfast signals list --name payment_received --key 42

--json prints {"items": [{"signal_id", "name", "key", "state", "run_id",
"received_at", "expires_at", ...}], "next_cursor"}.`
}

// Run implements the command.
func (c *SignalsListCmd) Run(ctx context.Context, k *kong.Context, group *SignalsCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	f := client.SignalFilter{State: c.State, Name: c.Name, Key: c.Key}
	read := func(ctx context.Context, p client.PageRequest) (client.Page[client.Signal], error) {
		return api.Signals(ctx, f, p)
	}
	return printList(ctx, k, c.Output, c.List, read, listing[client.Signal]{
		none: "no signals",
		head: []string{"SIGNAL", "NAME", "KEY", "STATE", "FROM", "RUN", "RECEIVED", "EXPIRES"},
		row: func(x client.Signal) []string {
			state, expires := x.State, ""
			if x.Held {
				state = "held"
			}
			if x.State == "kept" && !x.Held {
				expires = stamp(x.ExpiresAt)
			}
			return []string{x.SignalID, x.Name, x.Key, state, joinWords(x.Source, x.SourceName), string(x.RunID), stamp(x.ReceivedAt), expires}
		},
	})
}
