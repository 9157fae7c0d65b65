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

	List     SchedulesListCmd     `cmd:"" help:"List schedules and when they fire next."`
	Show     SchedulesShowCmd     `cmd:"" help:"Show one schedule: what it starts, when, and what it counted."`
	Next     SchedulesNextCmd     `cmd:"" help:"Preview the next fires, in local time and UTC."`
	Pause    SchedulesPauseCmd    `cmd:"" help:"Stop a schedule from firing; runs in progress go on."`
	Resume   SchedulesResumeCmd   `cmd:"" help:"Let a paused schedule fire again, from its next fire on."`
	Trigger  SchedulesTriggerCmd  `cmd:"" help:"Start now what a schedule starts, also of a paused one."`
	Backfill SchedulesBackfillCmd `cmd:"" help:"Make the fires of a range of time that have not run."`
	History  SchedulesHistoryCmd  `cmd:"" help:"List fires and skips, with the reason of each skip."`
}

// Help implements kong.HelpProvider.
func (*SchedulesCmd) Help() string {
	return `  holdfast schedules list
  holdfast schedules next nightly
  holdfast schedules pause nightly --note "the shop moves"
  holdfast schedules resume nightly
  holdfast schedules trigger nightly
  holdfast schedules history nightly
` + exitHelp
}

const lookSchedules = "holdfast schedules list"

// SchedulesListCmd lists schedules.
type SchedulesListCmd struct {
	Output
	List
}

// Help implements kong.HelpProvider.
func (*SchedulesListCmd) Help() string {
	return `  holdfast schedules list
  holdfast schedules list --json | jq -r '.items[] | .name + " " + .next[0].local'

--json prints {"items": [{"name", "cron" or "every", "time_zone", "agent" or "flow",
"paused", "next": [{"at", "local", ...}], "missed", "last"}], "next_cursor"}.`
}

// Run implements the command.
func (c *SchedulesListCmd) Run(ctx context.Context, k *kong.Context, group *SchedulesCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	return printList(ctx, k, c.Output, c.List, api.Schedules, listing[client.Schedule]{
		none: `no schedules; one is a definition of kind Schedule, stored with "holdfast apply -f FILE"`,
		head: []string{"SCHEDULE", "TIMES", "TIME ZONE", "STARTS", "NEXT", "LAST"},
		row: func(s client.Schedule) []string {
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
			return []string{s.Name, scheduleTimes(s), s.TimeZone, starts, next, lastFire(s.Last)}
		},
	})
}

func lastFire(f *client.PastFire) string {
	if f == nil {
		return ""
	}
	return stamp(f.FiredAt)
}

func scheduleTimes(s client.Schedule) string {
	if s.Every != "" {
		return "every " + s.Every
	}
	return s.Cron
}

// SchedulesShowCmd shows one schedule.
type SchedulesShowCmd struct {
	Output
	Name string `arg:"" help:"Name of the schedule."`
}

// Help implements kong.HelpProvider.
func (*SchedulesShowCmd) Help() string {
	return `  holdfast schedules show nightly

--json prints the schedule as in "schedules list --json".`
}

// Run implements the command.
func (c *SchedulesShowCmd) Run(ctx context.Context, k *kong.Context, group *SchedulesCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	s, err := api.Schedule(ctx, c.Name)
	if err != nil {
		return advise(err, lookSchedules)
	}
	if c.JSON {
		return printJSON(k.Stdout, s)
	}
	starts, paused, fired, next := "agent "+s.Agent, "", fmt.Sprint(s.Fired), ""
	if s.Flow != "" {
		starts = "flow " + s.Flow
	}
	switch {
	case s.PausedAt != nil:
		paused = fmt.Sprintf("by %s at %s", s.PausedBy, stamp(*s.PausedAt))
	case s.Paused:
		paused = "by its definition"
	}
	if s.MaxFires > 0 {
		fired += fmt.Sprintf(" of %d", s.MaxFires)
	}
	if len(s.Next) > 0 {
		next = s.Next[0].Local
	}
	return details(k.Stdout, "schedule", s.Name, "version", s.Digest.Short(), "times", scheduleTimes(s), "time zone", s.TimeZone,
		"starts", starts, "overlap", s.Overlap, "paused", paused, "note", s.PauseNote, "problem", s.Problem, "next", next,
		"last", lastFire(s.Last), "runs started by the clock", fired, "missed", fmt.Sprint(s.Missed), "skipped", fmt.Sprint(s.Skipped))
}

// SchedulesNextCmd previews fires.
type SchedulesNextCmd struct {
	Output
	Name  string `arg:"" help:"Name of the schedule."`
	Count int    `default:"10" env:"-" help:"How many (${default})."`
}

// Help implements kong.HelpProvider.
func (*SchedulesNextCmd) Help() string {
	return `Says what the clocks make of each time: "shifted" is one that a change of the
clocks skips that day, "second pass" one that occurs twice.

  holdfast schedules next nightly --count 20

--json prints [{"at", "local", "nominal", "shifted", "fold"}].`
}

// Run implements the command.
func (c *SchedulesNextCmd) Run(ctx context.Context, k *kong.Context, group *SchedulesCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	fires, err := api.NextFires(ctx, c.Name, c.Count)
	if err != nil {
		return advise(err, lookSchedules)
	}
	if c.JSON {
		return printJSON(k.Stdout, fires)
	}
	rows := make([][]string, 0, len(fires))
	for _, f := range fires {
		note := ""
		switch {
		case f.Shifted:
			note = "shifted from " + f.Nominal
		case f.Fold > 0:
			note = "second pass of " + f.Nominal
		}
		rows = append(rows, []string{f.Local, stamp(f.At), note})
	}
	return table(k.Stdout, []string{"LOCAL", "UTC", "NOTE"}, rows)
}

// SchedulesTriggerCmd starts a schedule now.
type SchedulesTriggerCmd struct {
	Output
	Name    string `arg:"" help:"Name of the schedule."`
	Overlap string `env:"-" placeholder:"POLICY" help:"Instead of the schedule's policy: skip, bufferOne, bufferAll, cancelOther or allow."`
}

// Help implements kong.HelpProvider.
func (*SchedulesTriggerCmd) Help() string {
	return `Its own times are not changed by it. Its overlap policy counts: with a run under
way nothing starts, unless the policy or --overlap says otherwise.

  holdfast schedules trigger nightly
  holdfast schedules trigger nightly --overlap allow

--json prints {"run_id", "status", "status_url"}.`
}

// Run implements the command.
func (c *SchedulesTriggerCmd) Run(ctx context.Context, k *kong.Context, group *SchedulesCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	started, err := api.TriggerSchedule(ctx, c.Name, c.Overlap)
	if err != nil {
		return advise(err, lookSchedules)
	}
	if c.JSON {
		return printJSON(k.Stdout, started)
	}
	if started.Status == "buffered" {
		_, err = fmt.Fprintf(k.Stdout, "run %s waits for the end of the run before it\n", started.RunID)
		return err
	}
	_, err = fmt.Fprintf(k.Stdout, "run %s started (%s)\nfollow it: holdfast runs watch %s\n", started.RunID, started.Status, started.RunID)
	return err
}
