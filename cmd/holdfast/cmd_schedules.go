package main

import (
	"context"
	"fmt"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
)

// SchedulesCmd groups schedules.
type SchedulesCmd struct {
	Remote

	List    SchedulesListCmd    `cmd:"" help:"List schedules and when they fire next."`
	Trigger SchedulesTriggerCmd `cmd:"" help:"Start now what a schedule starts, also of a paused one."`
}

// Help implements kong.HelpProvider.
func (*SchedulesCmd) Help() string {
	return `  holdfast schedules list
  holdfast schedules trigger nightly
` + exitHelp
}

// SchedulesListCmd lists schedules.
type SchedulesListCmd struct {
	Output
	List
}

// Help implements kong.HelpProvider.
func (*SchedulesListCmd) Help() string {
	return `  holdfast schedules list
  holdfast schedules list --json | jq -r '.items[] | .name + " " + .next[0].local'

--json prints {"items": [{"name", "cron", "time_zone", "agent" or "flow",
"paused", "next": [{"at", "local", ...}], "missed", "last"}], "next_cursor"}.`
}

// Run implements the command.
func (c *SchedulesListCmd) Run(ctx context.Context, k *kong.Context, group *SchedulesCmd) error {
	if err := c.check(); err != nil {
		return err
	}
	api, err := group.client()
	if err != nil {
		return err
	}
	page, err := upTo(ctx, c.Limit, api.Schedules)
	if err != nil {
		return advise(err, "")
	}
	if c.JSON {
		return printJSON(k.Stdout, page)
	}
	if len(page.Items) == 0 {
		_, err := fmt.Fprintln(k.Stdout, "no schedules; one is a definition of kind Schedule, stored with \"holdfast apply -f FILE\"")
		return err
	}
	rows := make([][]string, 0, len(page.Items))
	for _, s := range page.Items {
		starts, next := "agent "+s.Agent, ""
		if s.Flow != "" {
			starts = "flow " + s.Flow
		}
		switch {
		case s.Problem != "":
			next = "never: " + s.Problem
		case s.Paused:
			next = "paused"
		case len(s.Next) > 0:
			next = s.Next[0].Local
		}
		rows = append(rows, []string{s.Name, s.Cron, s.TimeZone, starts, next, lastFire(s.Last)})
	}
	if err := table(k.Stdout, []string{"SCHEDULE", "CRON", "TIME ZONE", "STARTS", "NEXT", "LAST"}, rows); err != nil {
		return err
	}
	more(k.Stdout, page.NextCursor, len(page.Items))
	return nil
}

func lastFire(f *client.PastFire) string {
	if f == nil {
		return ""
	}
	return stamp(f.FiredAt)
}

// SchedulesTriggerCmd starts a schedule now.
type SchedulesTriggerCmd struct {
	Output
	Name string `arg:"" help:"Name of the schedule."`
}

// Help implements kong.HelpProvider.
func (*SchedulesTriggerCmd) Help() string {
	return `Its own times are not changed by it.

  holdfast schedules trigger nightly

--json prints {"run_id", "status", "status_url"}.`
}

// Run implements the command.
func (c *SchedulesTriggerCmd) Run(ctx context.Context, k *kong.Context, group *SchedulesCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	started, err := api.TriggerSchedule(ctx, c.Name)
	if err != nil {
		return advise(err, "holdfast schedules list")
	}
	if c.JSON {
		return printJSON(k.Stdout, started)
	}
	_, err = fmt.Fprintf(k.Stdout, "run %s started (%s)\nfollow it: holdfast runs watch %s\n", started.RunID, started.Status, started.RunID)
	return err
}
