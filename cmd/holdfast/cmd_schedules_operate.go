package main

import (
	"context"
	"fmt"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
)

// SchedulesPauseCmd pauses a schedule.
type SchedulesPauseCmd struct {
	Output
	Name string `arg:"" help:"Name of the schedule."`
	Note string `env:"-" placeholder:"TEXT" help:"Why, for whoever finds it paused."`
}

// Help implements kong.HelpProvider.
func (*SchedulesPauseCmd) Help() string {
	return `The pause lasts until "schedules resume", whatever is applied meanwhile.

  holdfast schedules pause nightly --note "the shop moves"

--json prints {"paused_at", "paused_by", "note", "open_runs"}.`
}

// Run implements the command.
func (c *SchedulesPauseCmd) Run(ctx context.Context, k *kong.Context, group *SchedulesCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	p, err := api.PauseSchedule(ctx, c.Name, c.Note)
	if err != nil {
		return advise(err, lookSchedules)
	}
	if c.JSON {
		return printJSON(k.Stdout, p)
	}
	_, err = fmt.Fprintf(k.Stdout, "schedule %s is paused since %s by %s\n", c.Name, stamp(p.PausedAt), p.PausedBy)
	for _, run := range p.OpenRuns {
		_, err = fmt.Fprintf(k.Stdout, "run %s goes on; to end it: holdfast runs cancel %s\n", run, run)
	}
	return err
}

// SchedulesResumeCmd ends a pause.
type SchedulesResumeCmd struct {
	Output
	Name     string `arg:"" help:"Name of the schedule."`
	Note     string `env:"-" placeholder:"TEXT" help:"Kept with who resumed it."`
	Backfill bool   `env:"-" help:"Make the fires that passed during the pause, once."`
	DryRun   bool   `env:"-" help:"Only say how many passed and what would happen."`
}

// Help implements kong.HelpProvider.
func (*SchedulesResumeCmd) Help() string {
	return `It goes on with its next fire after now. What passed during the pause stays
undone unless --backfill asks for it.

  holdfast schedules resume nightly --dry-run
  holdfast schedules resume nightly
  holdfast schedules resume nightly --backfill

--json prints {"passed", "more", "backfill", "next"}.`
}

// Run implements the command.
func (c *SchedulesResumeCmd) Run(ctx context.Context, k *kong.Context, group *SchedulesCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	r, err := api.ResumeSchedule(ctx, c.Name, client.Resume{Note: c.Note, Backfill: c.Backfill, DryRun: c.DryRun})
	if err != nil {
		return advise(err, lookSchedules)
	}
	if c.JSON {
		return printJSON(k.Stdout, r)
	}
	passed, next, would := fmt.Sprint(r.Passed), "never", ""
	if r.More {
		passed = "more than " + passed
	}
	if r.Next != nil {
		next = r.Next.Local
	}
	if c.DryRun {
		would = "nothing was changed"
	}
	made := ""
	if r.Backfill != nil {
		made = tallyWords(*r.Backfill)
	}
	return details(k.Stdout, "schedule", c.Name, "passed during the pause", passed, "backfill", made, "next", next, "dry run", would)
}

func tallyWords(t client.Tally) string {
	return fmt.Sprintf("%d fires: %d started, %d wait, %d had run, %d skipped, %d could start nothing",
		t.Fires, t.Started, t.Buffered, t.Known, t.Skipped, t.Rejected)
}

// SchedulesBackfillCmd makes fires of the past.
type SchedulesBackfillCmd struct {
	Output
	Name    string    `arg:"" help:"Name of the schedule."`
	From    time.Time `env:"-" required:"" placeholder:"TIME" help:"First moment of the range, like 2026-11-29T02:00:00Z."`
	To      time.Time `env:"-" required:"" placeholder:"TIME" help:"Last moment of the range."`
	Overlap string    `env:"-" placeholder:"POLICY" help:"skip, bufferOne, bufferAll, cancelOther or allow; without it one after the other, unless the schedule allows overlap."`
	Force   bool      `env:"-" help:"Make fires again that have run."`
	DryRun  bool      `env:"-" help:"Only count."`
}

// Help implements kong.HelpProvider.
func (*SchedulesBackfillCmd) Help() string {
	return `A fire keeps the name that it had on the day: one that has run does not run again,
however often you ask.

  holdfast schedules backfill nightly --from 2026-11-01T00:00:00Z --to 2026-11-08T00:00:00Z --dry-run

--json prints {"fires", "known", "started", "buffered", "skipped", "rejected"}.`
}

// Run implements the command.
func (c *SchedulesBackfillCmd) Run(ctx context.Context, k *kong.Context, group *SchedulesCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	t, err := api.BackfillSchedule(ctx, c.Name, client.Backfill{From: c.From, To: c.To, Overlap: c.Overlap, Force: c.Force, DryRun: c.DryRun})
	if err != nil {
		return advise(err, lookSchedules)
	}
	if c.JSON {
		return printJSON(k.Stdout, t)
	}
	words := tallyWords(t)
	if c.DryRun {
		words += "; nothing was changed"
	}
	_, err = fmt.Fprintln(k.Stdout, words)
	return err
}

// SchedulesHistoryCmd lists fires.
type SchedulesHistoryCmd struct {
	Output
	List
	Name string `arg:"" help:"Name of the schedule."`
}

// Help implements kong.HelpProvider.
func (*SchedulesHistoryCmd) Help() string {
	return `  holdfast schedules history nightly
  holdfast schedules history nightly --json | jq -r '.items[] | select(.state == "skipped") | .reason'

--json prints {"items": [{"nominal", "origin", "state", "reason", "detail", "run_id",
"fired_at", "ended_at", ...}], "next_cursor"}.`
}

// Run implements the command.
func (c *SchedulesHistoryCmd) Run(ctx context.Context, k *kong.Context, group *SchedulesCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	read := func(ctx context.Context, p client.PageRequest) (client.Page[client.PastFire], error) {
		return api.ScheduleHistory(ctx, c.Name, p)
	}
	return printList(ctx, k, c.Output, c.List, read, listing[client.PastFire]{
		none: "it has not fired yet", look: lookSchedules,
		head: []string{"NOMINAL", "ORIGIN", "STATE", "AT", "RUN", "WHY"},
		row: func(f client.PastFire) []string {
			why := f.Reason
			if f.Detail != "" {
				why += ": " + cut(f.Detail, 100)
			}
			return []string{f.Nominal, f.Origin, f.State, stamp(f.FiredAt), string(f.RunID), why}
		},
	})
}
