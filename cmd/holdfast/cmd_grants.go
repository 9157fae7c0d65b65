package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// GrantsCmd groups bounded permissions.
type GrantsCmd struct {
	Remote

	Create GrantsCreateCmd `cmd:"" help:"Allow calls of one tool before they are asked, within bounds."`
	List   GrantsListCmd   `cmd:"" help:"List grants; those that still allow something, unless told otherwise."`
	Get    GrantsGetCmd    `cmd:"" help:"Show one grant and what was used of it."`
	Revoke GrantsRevokeCmd `cmd:"" help:"End a grant."`
}

// Help implements kong.HelpProvider.
func (*GrantsCmd) Help() string {
	return `A grant says yes in advance: to one tool, at most so many times, until then, and if you
like for one agent, some arguments, or so much in all. Each use is recorded and counted in
the commit that creates the request.

  holdfast grants create --tool propose_price --when "args.price < 100.0" --count 20 --expires-in 24h
  holdfast grants list
  holdfast grants revoke g-4f0c0a51d0c94f3a8b5f0a6e2d1c9b7e
` + exitHelp
}

const lookGrants = "holdfast grants list --all"

// GrantsCreateCmd makes a grant.
type GrantsCreateCmd struct {
	Output
	Like      string        `env:"-" placeholder:"APPROVAL" help:"The same tool and agent as this request."`
	Tool      string        `env:"-" placeholder:"TOOL" help:"The tool, unless --like says it."`
	Agent     string        `env:"-" placeholder:"AGENT" help:"Only for this agent or flow."`
	When      string        `env:"-" placeholder:"CEL" help:"Only for such arguments: args.price < 100.0."`
	Count     int64         `required:"" env:"-" placeholder:"N" help:"How many calls at most."`
	AmountOf  string        `env:"-" placeholder:"PATH" help:"With --max-amount: the argument that it bounds, like args.amount."`
	MaxAmount string        `env:"-" placeholder:"DECIMAL" help:"How much all calls together may come to: 250.00."`
	ExpiresIn time.Duration `required:"" env:"-" placeholder:"DURATION" help:"How long from now: 24h."`
	Comment   string        `env:"-" placeholder:"TEXT" help:"Why; kept with it."`
}

// Help implements kong.HelpProvider.
func (*GrantsCreateCmd) Help() string {
	return `  holdfast grants create --like 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a-4-0-a4 --count 20 --expires-in 24h
  holdfast grants create --tool refund --agent support --count 50 --amount-of args.amount --max-amount 500 --expires-in 168h

It counts calls that are asked, whatever becomes of them. An argument without the amount,
or with one that is no plain decimal, is asked as ever. --json prints the grant.`
}

// Run implements the command.
func (c *GrantsCreateCmd) Run(ctx context.Context, k *kong.Context, group *GrantsCmd) error {
	if c.Tool == "" && c.Like == "" {
		return usage(errors.New("name the tool with --tool, or a request with --like"))
	}
	api, err := group.client()
	if err != nil {
		return err
	}
	g, err := api.MakeGrant(ctx, client.GrantRequest{
		Like: events.ApprovalID(c.Like), Tool: c.Tool, Agent: c.Agent, When: c.When, Count: c.Count, AmountOf: c.AmountOf, MaxAmount: c.MaxAmount,
		ExpiresIn: int64(c.ExpiresIn / time.Second), Comment: c.Comment,
	})
	return showGrant(k.Stdout, c.JSON, g, advise(err, lookApprovals))
}

// GrantsListCmd lists grants.
type GrantsListCmd struct {
	Output
	List
	All bool `env:"-" help:"Also those that are used up, expired or revoked."`
}

// Run implements the command.
func (c *GrantsListCmd) Run(ctx context.Context, k *kong.Context, group *GrantsCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	read := func(ctx context.Context, p client.PageRequest) (client.Page[client.Grant], error) {
		return api.Grants(ctx, c.All, p)
	}
	return printList(ctx, k, c.Output, c.List, read, listing[client.Grant]{
		none: "no grants",
		head: []string{"GRANT", "TOOL", "AGENT", "WHEN", "USED", "AMOUNT", "STATE", "EXPIRES", "BY"},
		row: func(g client.Grant) []string {
			return []string{g.GrantID, g.Tool, g.Agent, cut(g.When, 40), usedOf(g), amountOf(g), g.State, stamp(g.ExpiresAt), g.CreatedBy}
		},
	})
}

func usedOf(g client.Grant) string { return fmt.Sprintf("%d of %d", g.Used, g.Count) }

func amountOf(g client.Grant) string {
	if g.AmountOf == "" {
		return ""
	}
	return fmt.Sprintf("%s of %s (%s)", g.Amount, g.MaxAmount, g.AmountOf)
}

// GrantsGetCmd shows one grant.
type GrantsGetCmd struct {
	Output
	ID string `arg:"" help:"Id of the grant."`
}

// Run implements the command.
func (c *GrantsGetCmd) Run(ctx context.Context, k *kong.Context, group *GrantsCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	g, err := api.Grant(ctx, c.ID)
	return showGrant(k.Stdout, c.JSON, g, advise(err, lookGrants))
}

// GrantsRevokeCmd ends a grant.
type GrantsRevokeCmd struct {
	Output
	ID string `arg:"" help:"Id of the grant."`
}

// Help implements kong.HelpProvider.
func (*GrantsRevokeCmd) Help() string {
	return `What is asked afterwards waits for a person. What the grant has approved stays approved
until its yes is no longer valid; cancel or pause the run to stop that.`
}

// Run implements the command.
func (c *GrantsRevokeCmd) Run(ctx context.Context, k *kong.Context, group *GrantsCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	g, err := api.RevokeGrant(ctx, c.ID)
	return showGrant(k.Stdout, c.JSON, g, advise(err, lookGrants))
}

func showGrant(w io.Writer, asJSON bool, g client.Grant, err error) error {
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(w, g)
	}
	revoked := ""
	if !g.RevokedAt.IsZero() {
		revoked = fmt.Sprintf("%s by %s", stamp(g.RevokedAt), g.RevokedBy)
	}
	return details(w, "grant", g.GrantID, "state", g.State, "tool", g.Tool, "agent", g.Agent, "when", g.When, "used", usedOf(g), "amount", amountOf(g),
		"expires", stamp(g.ExpiresAt), "made", fmt.Sprintf("%s by %s", stamp(g.CreatedAt), g.CreatedBy), "comment", g.Comment, "revoked", revoked)
}
