package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// RunsCmd groups what is done with runs.
type RunsCmd struct {
	Remote

	Start   RunsStartCmd   `cmd:"" help:"Start a run of an agent or a flow."`
	Get     RunsGetCmd     `cmd:"" help:"Show one run, or its journal."`
	Why     RunsWhyCmd     `cmd:"" help:"Say what one run waits for."`
	List    RunsListCmd    `cmd:"" help:"List runs, newest first."`
	Watch   RunsWatchCmd   `cmd:"" help:"Follow one run from its first event to its end, or all runs in a live view."`
	Cancel  RunsCancelCmd  `cmd:"" help:"End runs: calls that have not begun are taken back."`
	Pause   RunsPauseCmd   `cmd:"" help:"Hold runs before their next model call."`
	Resume  RunsResumeCmd  `cmd:"" help:"Let paused runs go on."`
	Retry   RunsRetryCmd   `cmd:"" help:"Try failed runs again from their last good row."`
	Fork    RunsForkCmd    `cmd:"" help:"Begin a run with the rows of another one, with edits."`
	Bundle  RunsBundleCmd  `cmd:"" help:"Get everything about a run in one document."`
	Migrate RunsMigrateCmd `cmd:"" help:"Move a run to another version of its agent, with a diff."`
	Message RunsMessageCmd `cmd:"" help:"Say something to the model of a run."`
	Delete  RunsDeleteCmd  `cmd:"" help:"Delete runs that have ended, with all runs below them."`
	Deleted RunsDeletedCmd `cmd:"" help:"List runs that were deleted, the newest deletion first."`
}

// Help implements kong.HelpProvider.
func (*RunsCmd) Help() string {
	return `A run is one execution of an agent or a flow. It survives crashes and deploys
and can wait for days; its journal has one numbered row per fact.

  holdfast runs start competitor-check --input '{"shop":"shop-07"}' --label customer=42
  holdfast runs watch 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a
  holdfast runs list --status waiting --label customer=42
` + exitHelp
}

const lookRuns = "holdfast runs list"

// RunsStartCmd starts a run.
type RunsStartCmd struct {
	Output
	Name           string            `arg:"" help:"Name of the agent (or of the flow, with --flow)."`
	Flow           bool              `env:"-" help:"NAME is a flow."`
	Input          string            `env:"-" placeholder:"JSON|@FILE" help:"Input as JSON, @file, or @- for standard input. Default: {}."`
	Label          map[string]string `env:"-" mapsep:"none" placeholder:"K=V" help:"Label to find the run by; repeat for more, at most 16."`
	IdempotencyKey string            `env:"-" placeholder:"KEY" help:"The same key starts the same run again instead of a second one."`
	Callback       string            `env:"-" placeholder:"URL" help:"Post the run's end there, signed; the definition must take callbacks."`
	Deadline       string            `env:"-" placeholder:"TIME" help:"End the run then, as expired: 90m or 2d after the start, or a moment like 2026-12-01T08:00:00Z."`
	Priority       string            `env:"-" placeholder:"batch" help:"Let other runs come before it (batch). It lowers what the definition says and never lifts it."`
	Wait           waitFlag          `env:"-" help:"Wait for the end, as --wait=30s no longer than that, and print the output."`
	Stream         bool              `env:"-" help:"Wait for the end and print what the model writes meanwhile."`
}

// Help implements kong.HelpProvider.
func (*RunsStartCmd) Help() string {
	return `Prints the id of the run. Once it is printed the run takes effect exactly once.

  holdfast runs start triage --input '{"issue": 7}'
  holdfast runs start nightly --flow --input @night.json --idempotency-key night-2026-11-29
  id=$(holdfast runs start triage --input '{"issue": 7}' --json | jq -r .run_id)
  holdfast runs start triage --input @issue.json --wait=30s
  holdfast runs start triage --input @issue.json --stream

With --wait or --stream the exit code says how it went: 0 the run completed, 1 it
ended otherwise, 7 it was still running when the wait was over or Ctrl-C came.
Nothing that ends the waiting ends the run.

--json prints {"run_id", "status", "status_url", "replayed"}; with --wait the
run as "holdfast runs get --json" prints it; with --stream one line per event,
as "holdfast runs watch --json" does, {"delta": {...}} for each piece of the
model's answers, and the run last.`
}

// Run implements the command.
func (c *RunsStartCmd) Run(ctx context.Context, k *kong.Context, group *RunsCmd) error {
	input, err := readJSON("--input", c.Input)
	if err != nil {
		return err
	}
	if len(c.Label) > client.MaxLabels {
		return usage(fmt.Errorf("%d labels, at most %d are kept", len(c.Label), client.MaxLabels))
	}
	api, err := group.client()
	if err != nil {
		return err
	}
	req := client.StartRequest{Agent: c.Name, Input: input, Labels: c.Label, IdempotencyKey: c.IdempotencyKey, CallbackURL: c.Callback, Deadline: c.Deadline, Priority: c.Priority}
	if c.Flow {
		req.Agent, req.Flow = "", c.Name
	}
	started, err := api.Start(ctx, req)
	if client.StatusOf(err) == http.StatusNotFound && !c.Flow {
		return fmt.Errorf("%w; is it a flow? then add --flow; definitions are stored with \"holdfast apply -f DIR\"", err)
	}
	if err != nil {
		return advise(err, "")
	}
	if c.Wait.set || c.Stream {
		return c.wait(ctx, k, api, started)
	}
	if c.JSON {
		return printJSON(k.Stdout, started)
	}
	how := "started"
	if started.Replayed {
		how = "was started before with this key"
	}
	_, err = fmt.Fprintf(k.Stdout, "run %s %s (%s)\nfollow it: holdfast runs watch %s\n", started.RunID, how, started.Status, started.RunID)
	return err
}

// RunsGetCmd shows one run.
type RunsGetCmd struct {
	Output
	ID      string `arg:"" help:"Id of the run."`
	Journal bool   `env:"-" help:"Show every fact of the run, oldest first, instead of its state."`
}

// Help implements kong.HelpProvider.
func (*RunsGetCmd) Help() string {
	return `  holdfast runs get 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a
  holdfast runs get 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a --journal
  holdfast runs get 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a --json | jq .status

--json prints the run, with its plan, facts and artifacts; with --journal {"items": [...]}, one per fact.`
}

// Run implements the command.
func (c *RunsGetCmd) Run(ctx context.Context, k *kong.Context, group *RunsCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	id := events.RunID(c.ID)
	if c.Journal {
		return c.journal(ctx, k.Stdout, api, id)
	}
	r, err := api.Run(ctx, id)
	if err != nil {
		return advise(err, lookRuns)
	}
	if c.JSON {
		return printJSON(k.Stdout, r)
	}
	failed, from := "", ""
	if r.Error != nil {
		failed = r.Error.Code + ": " + r.Error.Message
	}
	if r.Trigger != nil {
		from = joinWords(r.Trigger.Kind, r.Trigger.Name, r.Trigger.ID)
	}
	spent := ""
	if r.Seq > 0 {
		spent = fmt.Sprintf("%d model calls, %d tool calls, %d tokens", r.ModelCalls, r.ToolCalls, r.Tokens) + cacheLine(r) + costLine(r)
	}
	why := ""
	if slices.Contains([]string{events.StatusQueued, events.StatusRunning, events.StatusWaiting}, r.Status) {
		if w, err := api.Why(ctx, id); err == nil { // a courtesy beside the run
			why = clean(w.Sentence)
		}
	}
	return details(k.Stdout,
		"run", string(r.RunID), "namespace", r.Namespace, r.Kind, joinWords(r.Name, r.Digest.Short()),
		"status", r.Status, "waiting", r.Waiting, "why", why, "error", failed,
		"started by", joinWords(from, parenthesis(r.Principal)), "parent", joinWords(string(r.ParentRunID), r.ParentItem),
		"goes on from", originLine(r.ForkedFrom), "continued by", forkLines(r.Forks),
		"labels", pairs(r.Labels), "callback", callbackLine(r.Callback), "spent", spent, "budgets", budgetLines(r), "journal", journalLength(r.Seq),
		"deadline", stamp(r.Deadline), "priority", r.Priority, "accepted", stamp(r.AcceptedAt), "updated", stamp(r.UpdatedAt), "ended", stamp(r.EndedAt),
		"input", pretty(r.Input), "output", pretty(r.Output),
		"versions", moveLines(r.Migrations), "changed by people", editLines(r.Edits), "messages", messageLines(r.Messages), "plan", planLines(r.Plan), "facts", factLines(r.Facts), "artifacts", artifactLines(r))
}

func journalLength(seq int64) string {
	if seq == 0 {
		return ""
	}
	return fmt.Sprintf("%d facts", seq)
}

func parenthesis(s string) string {
	if s == "" {
		return ""
	}
	return "(" + s + ")"
}

func joinWords(words ...string) string {
	out := ""
	for _, w := range words {
		if w == "" {
			continue
		}
		if out != "" {
			out += " "
		}
		out += w
	}
	return out
}

// RunsListCmd lists runs.
type RunsListCmd struct {
	Output
	List
	Label   map[string]string `env:"-" mapsep:"none" placeholder:"K=V" help:"Only runs with this label; repeat to narrow further."`
	Status  []string          `env:"-" placeholder:"STATUS" help:"Only runs in this status, or in one of several: queued, running, waiting, paused, needs_attention, cancelling, completed, failed, cancelled, expired."`
	Agent   string            `env:"-" placeholder:"NAME" help:"Only runs of this agent."`
	Flow    string            `env:"-" placeholder:"NAME" help:"Only runs of this flow."`
	Program string            `env:"-" placeholder:"NAME" help:"Only the own runs of this program; see docs/ledger.md."`
	Trigger string            `env:"-" placeholder:"KIND" help:"Only runs that this started: webhook, api, schedule, event, child or fork."`
	Source  string            `env:"-" placeholder:"NAME" help:"With --trigger: only by the webhook, schedule or parent of this name."`
	Since   string            `env:"-" placeholder:"TIME" help:"Only runs accepted then or later: 90m or 2d ago, or a moment like 2026-12-01T08:00:00Z."`
	Until   string            `env:"-" placeholder:"TIME" help:"Only runs accepted before then."`
	Cost    string            `env:"-" placeholder:"DOLLARS" help:"Only runs that cost at least so much, like 0.10."`
	Text    string            `env:"-" placeholder:"TEXT" help:"Only runs with this beginning of an id (eight characters or more), this end of it (eight), or these words in the name, the labels or what they wait for."`
	Parent  string            `env:"-" placeholder:"RUN" help:"Only the children of this run."`
}

// Help implements kong.HelpProvider.
func (*RunsListCmd) Help() string {
	return `  holdfast runs list
  holdfast runs list --label customer=42 --status failed --since 7d
  holdfast runs list --status paused,needs_attention
  holdfast runs list --trigger webhook --source stripe --cost 0.10
  holdfast runs list --text "shop-07 price"
  holdfast runs list --program nightly
  holdfast runs list --agent triage --limit 500 --json | jq -r '.items[].run_id'

--json prints {"items": [...], "next_cursor"}.`
}

// Run implements the command.
func (c *RunsListCmd) Run(ctx context.Context, k *kong.Context, group *RunsCmd) error {
	if err := c.check(); err != nil {
		return err
	}
	api, err := group.client()
	if err != nil {
		return err
	}
	f := client.RunFilter{Agent: c.Agent, Flow: c.Flow, Program: c.Program, Status: c.Status, Labels: c.Label, Parent: events.RunID(c.Parent),
		Trigger: c.Trigger, Source: c.Source, From: c.Since, To: c.Until, Cost: c.Cost, Text: c.Text}
	page, err := upTo(ctx, c.Limit, func(ctx context.Context, p client.PageRequest) (client.Page[client.Run], error) {
		return api.Runs(ctx, f, p)
	})
	if err != nil {
		return advise(err, "")
	}
	if c.JSON {
		return printJSON(k.Stdout, page)
	}
	tellStops(ctx, k.Stderr, api)
	if len(page.Items) == 0 {
		_, err := fmt.Fprintln(k.Stdout, "no runs; start one with \"holdfast runs start NAME\"")
		return err
	}
	rows := make([][]string, 0, len(page.Items))
	for _, r := range page.Items {
		started := r.AcceptedAt
		if started.IsZero() {
			started = r.CreatedAt
		}
		rows = append(rows, []string{string(r.RunID), r.Name, r.Status, cut(r.Waiting, 40), stamp(started), pairs(r.Labels)})
	}
	if err := table(k.Stdout, []string{"RUN", "NAME", "STATUS", "WAITING FOR", "ACCEPTED", "LABELS"}, rows); err != nil {
		return err
	}
	more(k.Stdout, page.NextCursor, len(page.Items))
	return nil
}

// RunsWatchCmd follows one run.
type RunsWatchCmd struct {
	Output
	ID   string `arg:"" optional:"" help:"Id of the run. Without one all runs are shown, as they change."`
	From int64  `env:"-" placeholder:"SEQ" help:"Begin after this event number. Default: with the first."`
	Live bool   `env:"-" help:"Show what the model writes meanwhile. Default on a terminal."`
}

// Help implements kong.HelpProvider.
func (*RunsWatchCmd) Help() string {
	return `Shows every event once and in order, and ends with the run. It reconnects by
itself and continues where it was.

  holdfast runs watch 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a
  holdfast runs watch 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a --from 12 --json

On a terminal, or with --live, what the model writes comes between the events.
Ctrl-C ends the watching (exit code 7), not the run.

Without an id the newest 200 runs are shown, with counts and as they change: Enter
opens one and says why it stands where it does, / filters, c cancels after a y, q
ends. Where there is no terminal, and with --json, each change of a run is a line
(with --json the run, as in "runs list --json"). NO_COLOR is honoured.

  holdfast runs watch

--json prints one event per line: {"run_id", "seq", "kind", "status", "at",
"cause", "worker", "data"}; with --live also {"delta": {...}}.`
}

// Run implements the command.
func (c *RunsWatchCmd) Run(ctx context.Context, k *kong.Context, group *RunsCmd) error {
	if c.From < 0 {
		return usage(fmt.Errorf("--from is %d, event numbers begin with 1", c.From))
	}
	api, err := group.client()
	if err != nil {
		return err
	}
	if c.ID == "" {
		if c.From > 0 || c.Live {
			return usage(errors.New("--from and --live are of one run; give its id"))
		}
		return c.top(ctx, k, api)
	}
	id := events.RunID(c.ID)
	live := c.Live || !c.JSON && isTerminal(os.Stdout)
	text := &liveText{w: k.Stdout, notes: k.Stdout}
	defer text.end()
	frames := api.WatchLive(ctx, id, c.From)
	if !live {
		frames = onlyEvents(api.Watch(ctx, id, c.From))
	}
	for f, err := range frames {
		switch {
		case err != nil:
			return advise(err, lookRuns)
		case c.JSON:
			if err := printFrameJSON(k.Stdout, f); err != nil {
				return err
			}
		case f.Delta != nil:
			text.print(*f.Delta)
		default:
			text.end()
			printEvent(k.Stdout, *f.Event)
		}
	}
	if ctx.Err() != nil {
		text.end()
		return stillRunning(ctx, id, "watching", nil)
	}
	return nil
}

func printEvent(w io.Writer, e client.Event) {
	fmt.Fprintf(w, "%4d  %s  %-17s  %-15s  %s\n", e.Seq, e.At.UTC().Format(time.TimeOnly), clean(e.Kind), clean(e.Status), clean(short(e.Data, 100)))
}
