package main

import (
	"context"
	"fmt"

	"github.com/alecthomas/kong"
)

// DeliveriesCmd groups accepted starts.
type DeliveriesCmd struct {
	Remote

	List DeliveriesListCmd `cmd:"" help:"List accepted starts, newest first."`
	Show DeliveriesShowCmd `cmd:"" help:"Show one accepted start with its input."`
}

// Help implements kong.HelpProvider.
func (*DeliveriesCmd) Help() string {
	return `A delivery is a start that was answered with success: it has its run, also when
the same webhook comes again.

  holdfast deliveries list
  holdfast deliveries show 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a
` + exitHelp
}

// DeliveriesListCmd lists accepted starts.
type DeliveriesListCmd struct {
	Output
	List
}

// Help implements kong.HelpProvider.
func (*DeliveriesListCmd) Help() string {
	return `  holdfast deliveries list --limit 10

--json prints {"items": [...], "next_cursor"}, each as "deliveries show --json"
without its input.`
}

// Run implements the command.
func (c *DeliveriesListCmd) Run(ctx context.Context, k *kong.Context, group *DeliveriesCmd) error {
	if err := c.check(); err != nil {
		return err
	}
	api, err := group.client()
	if err != nil {
		return err
	}
	page, err := upTo(ctx, c.Limit, api.Deliveries)
	if err != nil {
		return advise(err, "")
	}
	if c.JSON {
		return printJSON(k.Stdout, page)
	}
	if len(page.Items) == 0 {
		_, err := fmt.Fprintln(k.Stdout, "no deliveries")
		return err
	}
	rows := make([][]string, 0, len(page.Items))
	for _, d := range page.Items {
		rows = append(rows, []string{d.DeliveryID, joinWords(d.Source, d.SourceName), d.Name, string(d.RunID), stamp(d.AcceptedAt), deliveryState(d.Held, !d.AnnouncedAt.IsZero(), !d.LandedAt.IsZero())})
	}
	if err := table(k.Stdout, []string{"DELIVERY", "FROM", "STARTS", "RUN", "ACCEPTED", "STATE"}, rows); err != nil {
		return err
	}
	more(k.Stdout, page.NextCursor, len(page.Items))
	return nil
}

func deliveryState(held, announced, landed bool) string {
	switch {
	case landed:
		return "the runner has it"
	case held:
		return "held while its webhook is paused"
	case announced:
		return "announced"
	}
	return "accepted"
}

// DeliveriesShowCmd shows one accepted start.
type DeliveriesShowCmd struct {
	Output
	ID string `arg:"" help:"Id of the delivery."`
}

// Help implements kong.HelpProvider.
func (*DeliveriesShowCmd) Help() string {
	return `  holdfast deliveries show 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a

--json prints {"delivery_id", "source", "source_name", "dedupe_key", "run_id",
"kind", "name", "digest", "input", "labels", "accepted_at", ...}.`
}

// Run implements the command.
func (c *DeliveriesShowCmd) Run(ctx context.Context, k *kong.Context, group *DeliveriesCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	d, err := api.Delivery(ctx, c.ID)
	if err != nil {
		return advise(err, "holdfast deliveries list")
	}
	if c.JSON {
		return printJSON(k.Stdout, d)
	}
	return details(k.Stdout,
		"delivery", d.DeliveryID, "namespace", d.Namespace, "from", joinWords(d.Source, d.SourceName, parenthesis(d.Principal)),
		"key", d.DedupeKey, "starts", joinWords(d.Kind, d.Name, shortDigest(string(d.Digest))), "run", string(d.RunID),
		"labels", pairs(d.Labels), "state", deliveryState(d.Held, !d.AnnouncedAt.IsZero(), !d.LandedAt.IsZero()),
		"accepted", stamp(d.AcceptedAt), "announced", stamp(d.AnnouncedAt), "landed", stamp(d.LandedAt),
		"input", pretty(d.Input))
}
