package main

import (
	"context"
	"fmt"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
)

// DurabilityCmd says what became of work whose worker was lost.
type DurabilityCmd struct {
	Remote
	Output
	Since string `default:"24h" env:"-" placeholder:"TIME" help:"A length of time before now like 24h or 7d, at most 90d (${default})."`
}

// Help implements kong.HelpProvider.
func (*DurabilityCmd) Help() string {
	return `How often runs lost their worker, how many of them went on, how long that took,
and how many calls the ledger kept from acting twice. Everything is counted from what
was committed, nothing is sampled.

A worker is lost when it has shown no sign of life for 1.5 s; the time to resume runs
from its last one to the claim of the next worker.

  holdfast durability
  holdfast durability --since 7d --json | jq .resume_p99_ms
`
}

// Run implements the command.
func (c *DurabilityCmd) Run(ctx context.Context, k *kong.Context) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	d, err := api.Durability(ctx, c.Since)
	if err != nil {
		return advise(err, "")
	}
	if c.JSON {
		return printJSON(k.Stdout, d)
	}
	return table(k.Stdout, []string{"WHAT", "COUNT", "OF THESE"}, [][]string{
		{"workers lost by runs", fmt.Sprint(d.Lost), fmt.Sprintf("and %d times a run was handed over by a worker that stopped", d.HandedOver)},
		{"runs that lost one", fmt.Sprint(d.Runs), fmt.Sprintf("%d went on, %d parked, %d not yet", d.Resumed, d.Parked, d.NotYet)},
		{"time to resume", resumeTimes(d), ""},
		{"duplicates prevented", fmt.Sprint(d.Prevented), fmt.Sprintf("and %d calls refused that had the key of something else", d.Refused)},
		{"in doubt now", fmt.Sprint(d.InDoubt), "holdfast effects list --state unknown"},
	})
}

func resumeTimes(d client.Durability) string {
	if d.Lost == 0 {
		return "-"
	}
	s := func(ms int64) string { return fmt.Sprintf("%d.%03ds", ms/1000, ms%1000) }
	return fmt.Sprintf("p50 %s, p99 %s, most %s", s(d.ResumeP50ms), s(d.ResumeP99ms), s(d.ResumeMaxms))
}
