package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// listGroups prints what waits in groups.
func (c *ApprovalsListCmd) listGroups(ctx context.Context, k *kong.Context, api *client.Client) error {
	if c.State != "pending" || c.OfRun != "" {
		return usage(errors.New("--group-by shows what is pending; leave --state and --run out"))
	}
	read := func(ctx context.Context, p client.PageRequest) (client.Page[client.ApprovalGroup], error) {
		return api.ApprovalGroups(ctx, c.GroupBy, c.Kind, p)
	}
	var proposals []client.ApprovalGroup
	err := printList(ctx, k, c.Output, c.List, read, listing[client.ApprovalGroup]{
		none: "nothing is pending",
		head: []string{"GROUP", "WAIT", "SINCE", "NEXT EXPIRES", "TOOL", "LIKE"},
		row: func(g client.ApprovalGroup) []string {
			if g.Proposal != nil {
				proposals = append(proposals, g)
			}
			return []string{g.Group, fmt.Sprint(g.Count), stamp(g.Oldest), stamp(g.NextExpiry), g.Sample.Tool, cut(titleOf(g.Sample), 60)}
		},
	})
	for _, g := range proposals {
		fmt.Fprintf(k.Stdout, "\n%s was approved %d times in 30 days and never rejected; to allow some without asking:\n  holdfast grants create --like %s --count 20 --expires-in 24h\n",
			clean(titleOf(g.Sample)), g.Proposal.Approved, g.Proposal.Like)
	}
	return err
}

// titleOf is what people read first of an approval.
func titleOf(a client.Approval) string {
	if a.Preview != "" {
		return a.Preview
	}
	return a.Summary
}

// manyAtOnce is how many one request decides.
const manyAtOnce = 100

// ApprovalsDecideCmd decides many at once.
type ApprovalsDecideCmd struct {
	Output
	ID       []string `arg:"" optional:"" help:"Ids of approvals."`
	All      bool     `env:"-" help:"Everything that waits; with --group, all of that group."`
	Group    string   `env:"-" placeholder:"GROUP" help:"As 'approvals list --group-by' names it: tool:propose_price."`
	Decision string   `required:"" env:"-" placeholder:"DECISION" help:"approve or reject."`
	Comment  string   `env:"-" placeholder:"TEXT" help:"Kept with each decision; the agents read why they are rejected."`
	DryRun   bool     `env:"-" help:"Show what would be decided, and decide nothing."`
}

// Help implements kong.HelpProvider.
func (*ApprovalsDecideCmd) Help() string {
	return `Reads what waits first and decides exactly that, each by itself: one that somebody
decided meanwhile is told so and keeps no other from it. Sent again nothing is decided
twice.

  holdfast approvals list --group-by similarity
  holdfast approvals decide --group tool:propose_price --all --decision approve --dry-run
  holdfast approvals decide --group tool:propose_price --all --decision approve
  holdfast approvals decide ID1 ID2 --decision reject --comment "below cost"

--json prints one line per approval: {"approval_id", "status", "state", "decided_by",
"repeated"} or {"approval_id", "status", "code", "detail"}. Exit code 5: somebody decided
one of them first.`
}

// Run implements the command.
func (c *ApprovalsDecideCmd) Run(ctx context.Context, k *kong.Context, group *ApprovalsCmd) error {
	switch {
	case len(c.ID) > 0 && (c.All || c.Group != ""):
		return usage(errors.New("name approvals, or --all with or without --group"))
	case len(c.ID) == 0 && !c.All:
		return usage(errors.New("name approvals, or say --all"))
	case c.Decision != "approve" && c.Decision != "reject":
		return usage(fmt.Errorf("--decision is %q, want approve or reject; doubts and questions are answered one by one", c.Decision))
	}
	api, err := group.client()
	if err != nil {
		return err
	}
	found, err := c.find(ctx, api)
	if err != nil {
		return advise(err, lookApprovals)
	}
	if c.DryRun {
		return c.show(k, found)
	}
	if len(found) == 0 && !c.JSON {
		fmt.Fprintln(k.Stdout, "nothing waits there")
	}
	var errs []error
	for len(found) > 0 {
		n := min(len(found), manyAtOnce)
		d := client.ManyDecisions{Decision: c.Decision, Comment: c.Comment}
		for _, a := range found[:n] {
			d.Items = append(d.Items, client.ItemDecision{ID: a.ApprovalID, Digest: a.Digest})
		}
		found = found[n:]
		got, err := api.DecideMany(ctx, d)
		if err != nil {
			return errors.Join(append(errs, advise(err, lookApprovals))...)
		}
		for _, r := range got.Results {
			if err := c.told(k, r); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// find reads what is to be decided, so that its digests are confirmed.
func (c *ApprovalsDecideCmd) find(ctx context.Context, api *client.Client) (out []client.Approval, err error) {
	for _, id := range c.ID {
		a, err := api.Approval(ctx, events.ApprovalID(id))
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	if len(c.ID) > 0 {
		return out, nil
	}
	f := client.ApprovalFilter{Kind: events.ApprovalAction}
	if c.Group != "" {
		f = client.ApprovalFilter{Group: c.Group}
	}
	page, err := upTo(ctx, 10_000, func(ctx context.Context, p client.PageRequest) (client.Page[client.Approval], error) {
		return api.Approvals(ctx, f, p)
	})
	for _, a := range page.Items {
		if a.Kind == events.ApprovalAction {
			out = append(out, a)
		}
	}
	return out, err
}

func (c *ApprovalsDecideCmd) show(k *kong.Context, found []client.Approval) error {
	if c.JSON {
		for _, a := range found {
			if err := printJSONLine(k.Stdout, a); err != nil {
				return err
			}
		}
		return nil
	}
	rows := make([][]string, 0, len(found))
	for _, a := range found {
		rows = append(rows, []string{string(a.ApprovalID), a.Tool, cut(titleOf(a), 70), a.State, stamp(a.ExpiresAt)})
	}
	if len(rows) > 0 {
		if err := table(k.Stdout, []string{"APPROVAL", "TOOL", "LIKE", "STATE", "EXPIRES"}, rows); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(k.Stdout, "%d would be decided with %s; nothing was done\n", len(found), c.Decision)
	return err
}

// told prints one result; the error is of one that was not decided.
func (c *ApprovalsDecideCmd) told(k *kong.Context, r client.ItemResult) error {
	var err error
	if r.Status != http.StatusOK {
		err = advise(&client.Error{Status: r.Status, Code: r.Code, Detail: r.Detail}, lookApprovals)
	}
	switch {
	case c.JSON:
		if printed := printJSONLine(k.Stdout, r); printed != nil {
			return printed
		}
	case err != nil:
	case r.Repeated:
		fmt.Fprintf(k.Stdout, "%s was %s before, by %s at %s\n", r.ApprovalID, r.State, clean(r.DecidedBy), stamp(r.DecidedAt))
	default:
		fmt.Fprintf(k.Stdout, "%s %s\n", r.ApprovalID, r.State)
	}
	return err
}
