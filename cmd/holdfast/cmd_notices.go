package main

import (
	"context"
	"fmt"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// NoticesCmd groups what people are told.
type NoticesCmd struct {
	Remote

	List   NoticesListCmd   `cmd:"" help:"List what people were told, and what became of it."`
	Resend NoticesResendCmd `cmd:"" help:"Send a notice again that is failed or unknown."`
}

// Help implements kong.HelpProvider.
func (*NoticesCmd) Help() string {
	return `Agents, flows and budgets name a channel that is told of what happens to them.

  holdfast notices list --state failed
  holdfast notices list --run RUN
  holdfast notices resend NOTICE
` + exitHelp
}

// NoticesListCmd lists notices.
type NoticesListCmd struct {
	Output
	List
	State   string `env:"-" placeholder:"STATE" help:"Only in this state: due, sending, delivered, failed or unknown."`
	Channel string `env:"-" placeholder:"NAME" help:"Only in this channel."`
	OfRun   string `name:"run" env:"-" placeholder:"RUN" help:"Only about this run."`
}

// Help implements kong.HelpProvider.
func (*NoticesListCmd) Help() string {
	return `  holdfast notices list
  holdfast notices list --state unknown
  holdfast notices list --channel ops --limit 500 --json

A notice is failed when the channel refused it for good or did not take it within
24 hours, and unknown when it may have been shown and a repeat would be shown again.

--json prints {"items": [...], "next_cursor"}, each {"notice_id", "channel",
"reason", "title", "state", "attempts", "problem", ...}.`
}

// Run implements the command.
func (c *NoticesListCmd) Run(ctx context.Context, k *kong.Context, group *NoticesCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	f := client.NoticeFilter{State: c.State, Channel: c.Channel, Run: events.RunID(c.OfRun)}
	read := func(ctx context.Context, p client.PageRequest) (client.Page[client.Notice], error) {
		return api.Notices(ctx, f, p)
	}
	return printList(ctx, k, c.Output, c.List, read, listing[client.Notice]{
		none: "no notices",
		head: []string{"NOTICE", "AT", "CHANNEL", "STATE", "TOLD", "RUN", "PROBLEM"},
		row: func(n client.Notice) []string {
			return []string{string(n.NoticeID), stamp(n.At), n.Channel, n.State, cut(n.Title, 70), string(n.RunID), cut(n.Problem, 60)}
		},
	})
}

// NoticesResendCmd sends a notice again.
type NoticesResendCmd struct {
	Output
	Notice    string `arg:"" help:"Id of the notice."`
	MayDouble bool   `env:"-" help:"People may read it twice: needed for a notice that is unknown."`
}

// Help implements kong.HelpProvider.
func (*NoticesResendCmd) Help() string {
	return `  holdfast notices list --state failed
  holdfast notices resend NOTICE
  holdfast notices resend NOTICE --may-double

Mend the cause first: "problem" in the list says what it was. A notice that is unknown
may have been shown; look in the channel, and confirm with --may-double that people
may read it twice. One that is older than a day gets a single attempt.

--json prints the notice as "notices list --json" does.`
}

// Run implements the command.
func (c *NoticesResendCmd) Run(ctx context.Context, k *kong.Context, group *NoticesCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	n, err := api.ResendNotice(ctx, events.NoticeID(c.Notice), c.MayDouble)
	if err != nil {
		return advise(err, "")
	}
	if c.JSON {
		return printJSON(k.Stdout, n)
	}
	_, err = fmt.Fprintf(k.Stdout, "notice %s to channel %s is %s\n", n.NoticeID, clean(n.Channel), n.State)
	return err
}
