package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
)

// CostCmd says what model calls used and cost.
type CostCmd struct {
	Remote
	Output
	By    string `default:"agent" env:"-" placeholder:"WHAT" help:"agent (default), flow, model, trigger, day or label:KEY."`
	Since string `default:"7d" env:"-" placeholder:"TIME" help:"A length of time before now like 7d or 12h, or a moment like 2026-03-01 (${default})."`
	Until string `env:"-" placeholder:"TIME" help:"A moment. Without it now."`
}

// Help implements kong.HelpProvider.
func (*CostCmd) Help() string {
	return `What was spent is kept by the hour (UTC): --since is rounded down to the hour, --until up.
Each answer is counted when it is recorded, at the prices that its model's definition had then.

  holdfast cost --by model --since 24h
  holdfast cost --by label:customer --since 2026-03-01 --until 2026-04-01 --json
`
}

// Run implements the command.
func (c *CostCmd) Run(ctx context.Context, k *kong.Context) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	found, err := api.Cost(ctx, c.By, c.Since, c.Until)
	if err != nil {
		return advise(err, "")
	}
	if c.JSON {
		return printJSON(k.Stdout, found)
	}
	fmt.Fprintf(k.Stdout, "by %s, from %sZ to %sZ\n", clean(found.By), found.Since.UTC().Format(time.DateTime), found.Until.UTC().Format(time.DateTime))
	if found.Total.Calls == 0 {
		_, err := fmt.Fprintln(k.Stdout, "no model was called")
		return err
	}
	row := func(name string, r client.CostRow) []string {
		n := func(v int64) string { return strconv.FormatInt(v, 10) }
		return []string{name, n(r.Calls), n(r.InputTokens), n(r.CacheReadTokens), n(r.CacheWriteTokens), n(r.OutputTokens), amount("micro_usd", r.CostMicroUSD), amount("micro_usd", r.CostEstimatedMicroUSD)}
	}
	rows := make([][]string, 0, len(found.Items)+1)
	for _, r := range found.Items {
		name := clean(r.Key)
		if name == "" {
			name = "(none)"
		}
		rows = append(rows, row(name, r))
	}
	rows = append(rows, row("total", found.Total))
	head, _, _ := strings.Cut(found.By, ":")
	if err := table(k.Stdout, []string{strings.ToUpper(head), "CALLS", "INPUT", "READ FROM CACHE", "TO CACHE", "OUTPUT", "COST", "OF IT ESTIMATED"}, rows); err != nil {
		return err
	}
	if found.More {
		fmt.Fprintf(k.Stdout, "(the %d dearest; the total has all)\n", len(found.Items))
	}
	return nil
}
