package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
)

// DeliveriesCmd groups what came in.
type DeliveriesCmd struct {
	Remote

	List   DeliveriesListCmd   `cmd:"" help:"List what came in, newest first."`
	Show   DeliveriesShowCmd   `cmd:"" help:"Show one delivery: the request, the reason, the input."`
	Replay DeliveriesReplayCmd `cmd:"" help:"Take one request, or those of a span of time, again."`
}

// Help implements kong.HelpProvider.
func (*DeliveriesCmd) Help() string {
	return `A delivery is a request at a webhook, whatever became of it, or a start that came
another way. Outcomes: accepted, duplicate (of one accepted before), filtered,
held (while its webhook is paused), rejected (the reason says why), signalled
(for a run that waits: holdfast signals list).

  holdfast deliveries list --outcome rejected
  holdfast deliveries show 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a
  holdfast deliveries replay 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a
` + exitHelp
}

// DeliveriesListCmd lists deliveries.
type DeliveriesListCmd struct {
	Output
	List
	Webhook string `env:"-" placeholder:"NAME" help:"Of this webhook only."`
	Outcome string `env:"-" placeholder:"OUTCOME" help:"accepted, duplicate, filtered, held, rejected or signalled."`
	Since   string `env:"-" placeholder:"TIME" help:"Received since: 2h (ago), 2026-11-29 or 2026-11-29T02:00:00Z."`
	Until   string `env:"-" placeholder:"TIME" help:"Received before."`
}

// Help implements kong.HelpProvider.
func (*DeliveriesListCmd) Help() string {
	return `  holdfast deliveries list --limit 10
  holdfast deliveries list --webhook github --outcome rejected --since 2h

--json prints {"items": [...], "next_cursor"}, each as "deliveries show --json"
without its input, headers and body.`
}

// Run implements the command.
func (c *DeliveriesListCmd) Run(ctx context.Context, k *kong.Context, group *DeliveriesCmd) error {
	since, err := pastTime("--since", c.Since, time.Now())
	if err != nil {
		return err
	}
	until, err := pastTime("--until", c.Until, time.Now())
	if err != nil {
		return err
	}
	api, err := group.client()
	if err != nil {
		return err
	}
	f := client.DeliveryFilter{Webhook: c.Webhook, Outcome: c.Outcome, Since: since, Until: until}
	read := func(ctx context.Context, p client.PageRequest) (client.Page[client.Delivery], error) {
		return api.Deliveries(ctx, f, p)
	}
	return printList(ctx, k, c.Output, c.List, read, listing[client.Delivery]{
		none: "no deliveries",
		head: []string{"DELIVERY", "FROM", "OUTCOME", "REASON", "STARTS", "RUN", "RECEIVED"},
		row: func(d client.Delivery) []string {
			return []string{d.DeliveryID, joinWords(d.Source, d.SourceName), deliveryOutcome(d), d.Reason, d.Name, string(d.RunID), stamp(d.ReceivedAt)}
		},
	})
}

// deliveryOutcome is the outcome, and of how many requests.
func deliveryOutcome(d client.Delivery) string {
	if d.Request != nil && d.Request.Count > 1 {
		return fmt.Sprintf("%s x%d", d.Outcome, d.Request.Count)
	}
	return d.Outcome
}

// deliveryState says how far the start of an accepted delivery is.
func deliveryState(d client.Delivery) string {
	switch {
	case d.AcceptedAt.IsZero():
		return ""
	case !d.LandedAt.IsZero():
		return "the runner has it"
	case d.Held:
		return "held while its webhook is paused"
	case !d.AnnouncedAt.IsZero():
		return "announced"
	}
	return "accepted"
}

// DeliveriesShowCmd shows one delivery.
type DeliveriesShowCmd struct {
	Output
	ID string `arg:"" help:"Id of the delivery."`
}

// Help implements kong.HelpProvider.
func (*DeliveriesShowCmd) Help() string {
	return `  holdfast deliveries show 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a

Secret headers are kept as [redacted]. The body is kept when the request's
signature was good. --json prints {"delivery_id", "source", "source_name",
"outcome", "reason", "run_id", "kind", "name", "input", "request": {"status",
"headers", "body", ...}, ...}.`
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
	lines := []string{
		"delivery", d.DeliveryID, "namespace", d.Namespace, "from", joinWords(d.Source, d.SourceName, parenthesis(d.Principal)),
		"outcome", joinWords(deliveryOutcome(d), parenthesis(d.Reason)), "detail", d.Detail, "replay of", d.ReplayOf,
		"key", d.DedupeKey, "starts", joinWords(d.Kind, d.Name, d.Digest.Short()), "run", string(d.RunID),
		"labels", pairs(d.Labels), "state", deliveryState(d), "received", stamp(d.ReceivedAt),
		"accepted", stamp(d.AcceptedAt), "announced", stamp(d.AnnouncedAt), "landed", stamp(d.LandedAt),
	}
	if r := d.Request; r != nil {
		lines = append(lines, requestLines(*r)...)
	}
	return details(k.Stdout, append(lines, "input", pretty(d.Input))...)
}

func requestLines(r client.HookRequest) []string {
	status := ""
	if r.Status != 0 {
		status = fmt.Sprintf("%d after %s", r.Status, time.Duration(r.TookUs)*time.Microsecond)
	}
	body := r.Body
	switch {
	case !r.BodyKept:
		body = "(not kept)"
	case len(r.BodyBase64) > 0:
		body = strconv.Quote(string(r.BodyBase64))
	}
	return []string{
		"answered", status, "peer", r.Remote, "event id", r.EventID,
		"size", fmt.Sprintf("%d bytes %s", r.BodyBytes, r.BodyDigest.Short()),
		"query", heads(r.Query), "headers", heads(r.Headers), "body", body,
	}
}

func heads(m map[string][]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m)) {
		for _, v := range m[name] {
			fmt.Fprintf(&b, "%s: %s\n", name, v)
		}
	}
	return b.String()
}

// pastTime reads a flag that is a time or how long ago; the zero time when it is
// empty.
func pastTime(flag, value string, now time.Time) (time.Time, error) {
	if value == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(value); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, value); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usage(fmt.Errorf("%s %q is not like 2h, 2026-11-29 or 2026-11-29T02:00:00Z", flag, value))
}
