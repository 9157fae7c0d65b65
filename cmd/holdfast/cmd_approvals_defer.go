package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// ApprovalsDeferCmd puts a request off.
type ApprovalsDeferCmd struct {
	Output
	ID      string        `arg:"" help:"Id of the approval."`
	For     time.Duration `env:"-" placeholder:"DURATION" xor:"time" help:"How long: 90m, 4h."`
	Until   time.Time     `env:"-" placeholder:"TIME" xor:"time" help:"A time before it expires: 2026-12-01T09:00:00Z."`
	Now     bool          `env:"-" xor:"time" help:"Show it again at once."`
	Comment string        `env:"-" placeholder:"TEXT" help:"For the record."`
}

// Help implements kong.HelpProvider.
func (*ApprovalsDeferCmd) Help() string {
	return `It waits on, out of the list, until then; its channel is told again at that time. It can
be decided all the while, and it expires when it would have.

  holdfast approvals defer 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a-4-0-a4 --for 4h
  holdfast approvals defer 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a-4-0-a4 --until 2026-12-01T09:00:00Z
  holdfast approvals defer 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a-4-0-a4 --now
  holdfast approvals list --deferred only

--json prints the approval, as "approvals show --json".`
}

// Run implements the command.
func (c *ApprovalsDeferCmd) Run(ctx context.Context, k *kong.Context, group *ApprovalsCmd) error {
	if c.For == 0 && c.Until.IsZero() && !c.Now {
		return usage(errors.New("say when it is to be shown again: --for DURATION, --until TIME or --now"))
	}
	api, err := group.client()
	if err != nil {
		return err
	}
	order := client.Deferral{Until: c.Until, Comment: c.Comment}
	if c.For != 0 {
		order.For = c.For.String()
	}
	a, err := api.DeferApproval(ctx, events.ApprovalID(c.ID), order)
	if err != nil {
		return advise(err, lookApprovals)
	}
	switch {
	case c.JSON:
		return printJSON(k.Stdout, a)
	case a.DeferredUntil.IsZero():
		fmt.Fprintf(k.Stdout, "%s is shown again\n", a.ApprovalID)
	default:
		fmt.Fprintf(k.Stdout, "%s is put off until %s; it expires %s\n", a.ApprovalID, stamp(a.DeferredUntil), stamp(a.ExpiresAt))
	}
	return nil
}
