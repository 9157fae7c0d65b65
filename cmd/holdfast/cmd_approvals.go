package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// ApprovalsCmd groups what a person decides.
type ApprovalsCmd struct {
	Remote

	List    ApprovalsListCmd    `cmd:"" help:"List approval requests; those that wait, unless told otherwise."`
	Show    ApprovalsShowCmd    `cmd:"" help:"Show exactly what would happen."`
	Approve ApprovalsApproveCmd `cmd:"" help:"Say yes: the call runs once, while the yes is valid."`
	Edit    ApprovalsEditCmd    `cmd:"" help:"Say yes to other arguments: shown first, confirmed by its digest."`
	Defer   ApprovalsDeferCmd   `cmd:"" help:"Put off to a later time, before it expires."`
	Reject  ApprovalsRejectCmd  `cmd:"" help:"Say no: the agent reads the reason."`
	Decide  ApprovalsDecideCmd  `cmd:"" help:"Decide many at once: ids, a group, or all that waits."`
	Audit   ApprovalsAuditCmd   `cmd:"" help:"Print what happened to requests, or verify that nobody changed it."`
	Settle  ApprovalsSettleCmd  `cmd:"" help:"Answer a doubt: did the call happen?"`
	Answer  ApprovalsAnswerCmd  `cmd:"" help:"Answer a question: the agent gets what you say."`
}

// Help implements kong.HelpProvider.
func (*ApprovalsCmd) Help() string {
	return `An action asks whether a call may run; a doubt asks whether one has run; a question
asks for an answer. Each is decided once: the same decision again is fine, another one is
told who was first.

  holdfast approvals list
  holdfast approvals show 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a-4-0-a4
  holdfast approvals approve 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a-4-0-a4 --comment "checked"
  holdfast approvals list --json | jq -r '.items[].approval_id' | xargs holdfast approvals approve
` + exitHelp
}

const lookApprovals = "holdfast approvals list --state all"

// ApprovalsListCmd lists requests.
type ApprovalsListCmd struct {
	Output
	List
	State string `default:"pending" env:"-" placeholder:"STATE" help:"pending, approved, rejected, happened, not_happened, give_up, answered, expired, withdrawn or all (${default})."`
	Kind  string `env:"-" placeholder:"KIND" help:"Only of this kind: action, doubt or question."`
	OfRun string `name:"run" env:"-" placeholder:"RUN" help:"Only of this run."`

	Deferred string `env:"-" placeholder:"HOW" help:"What was put off and waits: show or only; it is left out otherwise."`

	GroupBy string `env:"-" placeholder:"WHAT" help:"Show what waits in groups: by flow, agent, tool or similarity (the same call with other values)."`
	Group   string `env:"-" placeholder:"GROUP" help:"Only what waits in this group, as --group-by names it."`
}

// Help implements kong.HelpProvider.
func (*ApprovalsListCmd) Help() string {
	return `  holdfast approvals list
  holdfast approvals list --kind doubt
  holdfast approvals list --state all --run 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a
  holdfast approvals list --group-by similarity
  holdfast approvals list --group tool:propose_price

--json prints {"items": [...], "next_cursor"}, each as "approvals show --json"; with
--group-by {"group", "count", "oldest", "newest", "next_expiry", "sample", "ids", ...}.`
}

// Run implements the command.
func (c *ApprovalsListCmd) Run(ctx context.Context, k *kong.Context, group *ApprovalsCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	if c.GroupBy != "" {
		return c.listGroups(ctx, k, api)
	}
	f := client.ApprovalFilter{State: c.State, Kind: c.Kind, Run: events.RunID(c.OfRun), Group: c.Group, Deferred: c.Deferred}
	read := func(ctx context.Context, p client.PageRequest) (client.Page[client.Approval], error) {
		return api.Approvals(ctx, f, p)
	}
	return printList(ctx, k, c.Output, c.List, read, listing[client.Approval]{
		none: "nothing is " + stateWords(c.State),
		head: []string{"APPROVAL", "KIND", "TOOL", "QUESTION", "STATE", "EXPIRES"},
		row: func(a client.Approval) []string {
			by := a.State
			if a.DecidedBy != "" {
				by += " by " + a.DecidedBy
			}
			return []string{string(a.ApprovalID), a.Kind, a.Tool, cut(titleOf(a), 60), by, expiry(a)}
		},
	})
}

func stateWords(state string) string {
	if state == "all" {
		return "there"
	}
	return state
}

// ApprovalsShowCmd shows one request.
type ApprovalsShowCmd struct {
	Output
	ID string `arg:"" help:"Id of the approval."`
}

// Help implements kong.HelpProvider.
func (*ApprovalsShowCmd) Help() string {
	return `Shows the call with all of its arguments. A yes is bound to the digest; with
"approve --digest" nothing else can be decided by mistake.

  holdfast approvals show 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a-4-0-a4

--json prints {"approval_id", "kind", "state", "summary", "run_id", "call_id",
"agent", "tool", "args", "digest", "created_at", "expires_at", ...}.`
}

// Run implements the command.
func (c *ApprovalsShowCmd) Run(ctx context.Context, k *kong.Context, group *ApprovalsCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	a, err := api.Approval(ctx, events.ApprovalID(c.ID))
	if err != nil {
		return advise(err, lookApprovals)
	}
	if c.JSON {
		return printJSON(k.Stdout, a)
	}
	return showApproval(k.Stdout, a)
}

func showApproval(w io.Writer, a client.Approval) error {
	decided := ""
	if !a.DecidedAt.IsZero() {
		decided = stamp(a.DecidedAt)
		if a.DecidedBy != "" {
			decided = fmt.Sprintf("%s by %s through %s", decided, a.DecidedBy, a.Door)
		}
	}
	told := ""
	switch {
	case !a.LandedAt.IsZero():
		told = "the run has the decision since " + stamp(a.LandedAt)
	case a.DecidedBy != "":
		told = "the run will get the decision; it is repeated until it has it"
	}
	unused := ""
	if !a.UnusedAt.IsZero() {
		unused = fmt.Sprintf("the decision was not used: %s (%s)", a.UnusedReason, stamp(a.UnusedAt))
	}
	edited, changed := "", ""
	if a.Edited != nil {
		edited, changed = pretty(a.Edited.Args), changeLines(a.Edited.Changes)
	}
	deferred := ""
	if a.DeferredBy != "" && !a.DeferredUntil.IsZero() {
		deferred = fmt.Sprintf("until %s by %s", stamp(a.DeferredUntil), a.DeferredBy)
	}
	hidden := ""
	if a.Hidden {
		hidden = "you may not decide this, so what it is about is not shown"
	}
	asked, choices, to, schema := questionOf(a)
	if err := details(w,
		"approval", string(a.ApprovalID), "preview", a.Preview, "question", asked, "choices", choices, "asked of", to, "schema", schema, "kind", a.Kind, "state", a.State,
		"tool", a.Tool, "arguments", pretty(a.Args), "changed to", edited, "changed", changed, "key", a.Key, "digest", string(a.Digest),
		"agent", a.Agent, "run", string(a.RunID), "labels", pairs(a.Labels),
		"hidden", hidden, "decided by", deciders(a.Rule), "started by", a.Requester, "said yes", votes(a),
		"asked", stamp(a.CreatedAt), "expires", expiry(a), "put off", deferred, "told again", stamp(a.RemindAt), "escalated", escalation(a), "counts", counted(a.Rule), "to fill in", formLines(a.Rule),
		"decided", decided, "comment", a.Comment, "result", pretty(a.Result), "valid until", stamp(a.ValidUntil),
		"withdrawn", a.WithdrawReason, "unused", unused, "told", told,
	); err != nil || a.State != "pending" {
		return err
	}
	why := ""
	if a.Rule != nil && a.Rule.CommentRequired {
		why = " --comment WHY"
	}
	fill := why
	for _, f := range a.Rule.FormOf() {
		fill += " --field " + clean(f.Name) + "=VALUE"
	}
	next := fmt.Sprintf("holdfast approvals approve %s%s | holdfast approvals reject %s --comment WHY", a.ApprovalID, fill, a.ApprovalID)
	switch a.Kind {
	case events.ApprovalQuestion:
		next = fmt.Sprintf("holdfast approvals answer %s --text TEXT | holdfast approvals answer %s --result JSON", a.ApprovalID, a.ApprovalID)
	case events.ApprovalDoubt:
		next = fmt.Sprintf("holdfast approvals settle %s happened|not_happened|give_up%s", a.ApprovalID, why)
	}
	_, err := fmt.Fprintf(w, "\ndecide: %s\n", next)
	return err
}

// decisionResult is what --json prints, one line per approval.
type decisionResult struct {
	ApprovalID events.ApprovalID `json:"approval_id"`
	Decision   string            `json:"decision,omitempty"`
	DecidedBy  string            `json:"decided_by,omitempty"`
	Repeated   bool              `json:"repeated,omitempty"`
	Error      string            `json:"error,omitempty"`
}

// decideEach decides every id; one that fails does not keep the others from it.
func decideEach(ctx context.Context, k *kong.Context, api *client.Client, asJSON bool, ids []string, d client.Decision) error {
	var errs []error
	for _, id := range ids {
		a, err := decideOne(ctx, api, events.ApprovalID(id), d)
		res := decisionResult{ApprovalID: events.ApprovalID(id), Decision: a.State, DecidedBy: a.DecidedBy, Repeated: a.Repeated}
		if err != nil {
			res.Error = err.Error()
			errs = append(errs, advise(err, lookApprovals))
		}
		switch {
		case asJSON:
			if err := printJSONLine(k.Stdout, res); err != nil {
				return err
			}
		case err != nil:
		case a.State == "pending":
			fmt.Fprintf(k.Stdout, "%s waits for others, %s\n", id, votes(a))
		case a.Repeated:
			fmt.Fprintf(k.Stdout, "%s was %s before, by %s at %s\n", id, a.State, clean(a.DecidedBy), stamp(a.DecidedAt))
		default:
			fmt.Fprintf(k.Stdout, "%s %s\n", id, a.State)
		}
	}
	return errors.Join(errs...)
}

// decideOne confirms what the request asks about now, unless a digest says what was
// shown.
func decideOne(ctx context.Context, api *client.Client, id events.ApprovalID, d client.Decision) (client.Approval, error) {
	if d.Decision == "approve" && d.Digest == "" {
		a, err := api.Approval(ctx, id)
		if err != nil {
			return a, err
		}
		d.Digest = a.Digest
	}
	return api.Decide(ctx, id, d)
}

// expiry says until when a may be decided.
func expiry(a client.Approval) string {
	if a.Overdue {
		return "overdue since " + stamp(a.ExpiresAt)
	}
	return stamp(a.ExpiresAt)
}

// deciders says who may decide; empty when every approver may.
func deciders(r *events.DecisionRule) string {
	if r == nil {
		return ""
	}
	return r.String()
}

// votes says how many of several have said yes, and who; empty where one decides.
func votes(a client.Approval) string {
	if a.Rule == nil || a.Rule.Quorum < 2 || a.Kind != events.ApprovalAction {
		return ""
	}
	var same, other []string
	for _, v := range a.Votes {
		if v.Digest == a.Digest {
			same = append(same, clean(v.By))
		} else {
			other = append(other, clean(v.By))
		}
	}
	said := fmt.Sprintf("%d of %d", len(same), a.Rule.Quorum)
	if len(same) > 0 {
		said += ": " + strings.Join(same, ", ")
	}
	if len(other) > 0 {
		said += "; with other arguments: " + strings.Join(other, ", ")
	}
	return said
}

const decisionHelp = `
--json prints one line per approval: {"approval_id", "decision", "decided_by",
"repeated"} or {"approval_id", "error"}. Exit code 5: somebody decided first.`

// ApprovalsApproveCmd says yes.
type ApprovalsApproveCmd struct {
	Output
	ID      []string `arg:"" help:"Ids of the approvals."`
	Comment string   `env:"-" placeholder:"TEXT" help:"Kept with the decision, at most 4,000 characters."`
	Field   []string `env:"-" sep:"none" placeholder:"NAME=VALUE" help:"What is to be filled in: refund=true, reason=damaged. Repeat it for more."`
	Digest  string   `env:"-" placeholder:"DIGEST" help:"What was shown; anything else is not decided. For one approval."`
}

// Help implements kong.HelpProvider.
func (*ApprovalsApproveCmd) Help() string {
	return `  holdfast approvals approve 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a-4-0-a4
  holdfast approvals approve ID1 ID2 ID3 --comment "night of 29 November"
  holdfast approvals approve 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a-4-0-a4 --field reason=damaged
` + decisionHelp
}

// Run implements the command.
func (c *ApprovalsApproveCmd) Run(ctx context.Context, k *kong.Context, group *ApprovalsCmd) error {
	if c.Digest != "" && len(c.ID) > 1 {
		return usage(errors.New("--digest belongs to one approval; decide them one by one"))
	}
	api, err := group.client()
	if err != nil {
		return err
	}
	d := client.Decision{Decision: "approve", Comment: c.Comment, Digest: events.Digest(c.Digest)}
	if len(c.Field) > 0 {
		if len(c.ID) > 1 {
			return usage(errors.New("--field belongs to one approval; decide them one by one"))
		}
		a, err := api.Approval(ctx, events.ApprovalID(c.ID[0]))
		if err != nil {
			return advise(err, lookApprovals)
		}
		if d.Fields, err = fieldsOf(a.Rule.FormOf(), c.Field); err != nil {
			return usage(err)
		}
	}
	return decideEach(ctx, k, api, c.JSON, c.ID, d)
}

// ApprovalsRejectCmd says no.
type ApprovalsRejectCmd struct {
	Output
	ID      []string `arg:"" help:"Ids of the approvals."`
	Comment string   `env:"-" placeholder:"TEXT" help:"Why; the agent reads it. At most 4,000 characters."`
}

// Help implements kong.HelpProvider.
func (*ApprovalsRejectCmd) Help() string {
	return `  holdfast approvals reject 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a-4-0-a4 --comment "below cost"
` + decisionHelp
}

// Run implements the command.
func (c *ApprovalsRejectCmd) Run(ctx context.Context, k *kong.Context, group *ApprovalsCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	return decideEach(ctx, k, api, c.JSON, c.ID, client.Decision{Decision: "reject", Comment: c.Comment})
}

// ApprovalsSettleCmd answers a doubt.
type ApprovalsSettleCmd struct {
	Output
	ID      string `arg:"" help:"Id of the approval, of kind doubt."`
	Verdict string `arg:"" enum:"happened,not_happened,give_up" help:"happened: record it as done. not_happened: act now. give_up: leave it unknown and tell the agent."`
	Result  string `env:"-" placeholder:"JSON|@FILE" help:"With happened: what the call returned."`
	Comment string `env:"-" placeholder:"TEXT" help:"Kept with the decision."`
}

// Help implements kong.HelpProvider.
func (*ApprovalsSettleCmd) Help() string {
	return `Look at the other side first: "not_happened" makes the call run.

  holdfast approvals settle 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a-4-0-d6 happened --result '{"price_id":"p-17"}'
` + decisionHelp
}

// Run implements the command.
func (c *ApprovalsSettleCmd) Run(ctx context.Context, k *kong.Context, group *ApprovalsCmd) error {
	result, err := readJSON("--result", c.Result)
	if err != nil {
		return err
	}
	api, err := group.client()
	if err != nil {
		return err
	}
	return decideEach(ctx, k, api, c.JSON, []string{c.ID}, client.Decision{Decision: c.Verdict, Comment: c.Comment, Result: result})
}
