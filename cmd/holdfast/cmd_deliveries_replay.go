package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
)

// DeliveriesReplayCmd takes requests of the log again.
type DeliveriesReplayCmd struct {
	Output
	ID      string `arg:"" optional:"" help:"Id of one delivery; without it, a span of time of one webhook."`
	Force   bool   `env:"-" help:"Start a new run also for what has one."`
	Webhook string `env:"-" placeholder:"NAME" help:"Webhook whose requests are replayed."`
	From    string `env:"-" placeholder:"TIME" help:"Received since: 2h (ago), 2026-11-29 or 2026-11-29T02:00:00Z."`
	To      string `env:"-" placeholder:"TIME" help:"Received before; now when absent."`
	Outcome string `env:"-" default:"rejected" placeholder:"OUTCOME" help:"Which of them (${default})."`
	DryRun  bool   `env:"-" help:"Only list what would be replayed."`
	Limit   int    `env:"-" default:"500" help:"How many at most (${default})."`
}

// Help implements kong.HelpProvider.
func (*DeliveriesReplayCmd) Help() string {
	return `A replay is taken as if the request came now, by the webhook's present definition;
its signature was checked when it came. What has its run is answered with that
run, unless --force starts a new one. The body of a request whose signature was
not good was never kept: have the sender send it again.

  holdfast deliveries replay 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a
  holdfast deliveries replay --webhook github --from 2h --dry-run
  holdfast deliveries replay --webhook github --from 2h

Of one, --json prints {"replay_of", "delivery_id", "outcome", "reason", "run_id"};
of a span {"counts", "items": [...], "next"}. Exit code 1: something was rejected.`
}

// Run implements the command.
func (c *DeliveriesReplayCmd) Run(ctx context.Context, k *kong.Context, group *DeliveriesCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	span := c.Webhook != "" || c.From != "" || c.To != "" || c.DryRun
	switch {
	case c.ID != "" && span:
		return usage(errors.New("name one delivery, or a span with --webhook and --from, not both"))
	case c.ID != "":
		return c.one(ctx, k.Stdout, api)
	case c.Webhook == "" || c.From == "":
		return usage(errors.New("name one delivery, or a span with --webhook and --from"))
	case c.Limit < 1:
		return usage(fmt.Errorf("--limit is %d, want at least 1", c.Limit))
	}
	now := time.Now()
	r := client.ReplayRange{Webhook: c.Webhook, Outcome: c.Outcome, Force: c.Force, DryRun: c.DryRun}
	if r.From, err = pastTime("--from", c.From, now); err != nil {
		return err
	}
	if r.To, err = pastTime("--to", c.To, now); err != nil {
		return err
	}
	if r.To.IsZero() {
		r.To = now // the same for every page
	}
	return c.span(ctx, k.Stdout, api, r)
}

func (c *DeliveriesReplayCmd) one(ctx context.Context, w io.Writer, api *client.Client) error {
	r, err := api.Replay(ctx, c.ID, c.Force)
	if err != nil {
		return advise(err, "holdfast deliveries list")
	}
	if c.JSON {
		err = printJSON(w, r)
	} else if r.RunID != "" {
		what := "started by the replay"
		if r.Outcome == "duplicate" {
			what = "was there already (--force starts another)"
		}
		_, err = fmt.Fprintf(w, "run %s %s\nfollow it: holdfast runs watch %s\n", r.RunID, what, r.RunID)
	} else if r.Outcome != "rejected" {
		_, err = fmt.Fprintln(w, joinWords(r.Outcome, parenthesis(r.Reason)))
	}
	if err == nil && r.Outcome == "rejected" {
		err = fmt.Errorf("rejected again (%s): %s", r.Reason, r.Detail)
	}
	return err
}

func (c *DeliveriesReplayCmd) span(ctx context.Context, w io.Writer, api *client.Client, r client.ReplayRange) error {
	all := client.RangeReplayed{DryRun: c.DryRun, Counts: map[string]int{}, Items: []client.Replayed{}}
	for {
		r.Limit = min(c.Limit-len(all.Items), 500)
		page, err := api.ReplayRange(ctx, r)
		if err != nil {
			return advise(err, "")
		}
		for outcome, n := range page.Counts {
			all.Counts[outcome] += n
		}
		all.Items, all.Next, r.After = append(all.Items, page.Items...), page.Next, page.Next
		if page.Next == "" || len(all.Items) >= c.Limit {
			break
		}
	}
	if err := c.printSpan(w, all); err != nil {
		return err
	}
	if n := all.Counts["rejected"]; n > 0 && !c.DryRun {
		return fmt.Errorf("%d of %d rejected again", n, len(all.Items))
	}
	return nil
}

func (c *DeliveriesReplayCmd) printSpan(w io.Writer, all client.RangeReplayed) error {
	if c.JSON {
		return printJSON(w, all)
	}
	rows := make([][]string, 0, len(all.Items))
	for _, r := range all.Items {
		rows = append(rows, []string{r.ReplayOf, r.Outcome, r.Reason, string(r.RunID)})
	}
	if len(rows) > 0 {
		if err := table(w, []string{"DELIVERY", "OUTCOME", "REASON", "RUN"}, rows); err != nil {
			return err
		}
	}
	var counts []string
	for _, outcome := range slices.Sorted(maps.Keys(all.Counts)) {
		counts = append(counts, fmt.Sprintf("%d %s", all.Counts[outcome], outcome))
	}
	verb := "replayed"
	if c.DryRun {
		verb = "would be replayed"
	}
	fmt.Fprintf(w, "%d %s%s\n", len(all.Items), verb, prefixed(": ", strings.Join(counts, ", ")))
	if all.Next != "" {
		fmt.Fprintf(w, "(there are more; with --limit)\n")
	}
	return nil
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}
