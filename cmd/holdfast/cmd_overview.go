package main

import (
	"context"
	"fmt"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/spec"
)

// OverviewCmd answers the five questions that the console begins with.
type OverviewCmd struct {
	Remote
	Output
}

// Help implements kong.HelpProvider.
func (*OverviewCmd) Help() string {
	return `What runs, what is stuck, what waits for a person, what was changed and what it
cost, with the command behind each number. The last two count from 00:00 UTC.

  holdfast overview
  holdfast overview --json | jq .stuck
`
}

// Run implements the command.
func (c *OverviewCmd) Run(ctx context.Context, k *kong.Context) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	o, err := api.Overview(ctx)
	if err != nil {
		return advise(err, "")
	}
	if c.JSON {
		return printJSON(k.Stdout, o)
	}
	expires := ""
	if o.NextExpiry != nil {
		expires = "; the first expires " + o.NextExpiry.UTC().Format(time.DateTime) + "Z"
	}
	return table(k.Stdout, []string{"WHAT", "NOW", "OF THESE", "MORE"}, [][]string{
		{"running", fmt.Sprint(o.Running), fmt.Sprintf("%d ask a model; %d queued, %d waiting, %d stopping", o.Asking, o.Queued, o.Waiting, o.Stopping), "holdfast runs list --status running"},
		{"stuck", fmt.Sprint(o.Stuck), fmt.Sprintf("%d parked, %d paused", o.Parked, o.Paused), "holdfast doctor"},
		{"waits for a person", fmt.Sprint(o.Approvals), "requests" + expires, "holdfast approvals list"},
		{"changed today", fmt.Sprint(o.Changed), fmt.Sprintf("%d under way, %d failed; %d in doubt, of any day", o.UnderWay, o.Failed, o.InDoubt), "holdfast effects list"},
		{"cost today", "$" + spec.MicroUSD(o.CostMicroUSD).String(), fmt.Sprintf("%d runs accepted since 00:00 UTC", o.Runs), "holdfast runs list"},
	})
}
