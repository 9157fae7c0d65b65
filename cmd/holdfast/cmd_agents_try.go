package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// AgentsTryCmd runs an agent in the foreground.
type AgentsTryCmd struct {
	Output
	Name  string   `arg:"" help:"Name of the agent."`
	Input string   `env:"-" placeholder:"JSON|@FILE" help:"Input as JSON, @file, or @- for standard input. Default: {}."`
	File  []string `short:"f" env:"-" placeholder:"DIR" help:"Start a server for this run alone, in a temporary directory, with the definitions of this file or directory. Repeatable."`
}

// Help implements kong.HelpProvider.
func (*AgentsTryCmd) Help() string {
	return `Starts a run and prints each step as it happens: what the model writes, its calls
with their arguments and results, what is waited for, and at the end the output
and what it cost.

  holdfast agents try triage --input '{"issue": 7}'
  holdfast agents try triage --input '{"issue": 7}' -f .

Without -f it runs on the server that --server names, "holdfast dev" by default. With
-f it needs none: it starts what "holdfast dev" does, on a port of its own, and
stops it and forgets everything at the end.

What waits for a person is asked on the terminal. Without one, the command that
answers is printed, and the run waits.

The exit code is that of "holdfast runs start --wait": 0 the run completed, 1 it
ended otherwise, 7 Ctrl-C came first. On a server the run then goes on; with -f it
ends with its server.

--json prints one line per event, {"delta": {...}} for each piece of the model's
answers, {"approval": {...}} for what waits for a person, and the run last.`
}

// askEvery is how often the run's open questions are looked for.
const askEvery = 300 * time.Millisecond

// Run implements the command.
func (c *AgentsTryCmd) Run(ctx context.Context, k *kong.Context, group *AgentsCmd) error {
	input, err := readJSON("--input", c.Input)
	if err != nil {
		return err
	}
	remote := group.Remote
	if len(c.File) > 0 {
		fmt.Fprintln(k.Stderr, "starting a server for this run ...")
		url, stop, err := startPrivate(ctx, c.File)
		if err != nil {
			return fmt.Errorf("start a server for this run: %w", err)
		}
		defer stop()
		remote = Remote{Server: url}
	}
	api, err := remote.client()
	if err != nil {
		return err
	}
	started, err := api.Start(ctx, client.StartRequest{Agent: c.Name, Input: input})
	if errors.Is(err, client.ErrUnreachable) {
		return fmt.Errorf("%w; start \"holdfast dev\", or add -f DIR to run without a server", err)
	}
	if err != nil {
		return advise(err, lookAgents)
	}
	t := &try{api: api, run: started.RunID, out: k.Stdout, notes: k.Stderr, json: c.JSON, server: remote.Server, asked: map[events.ApprovalID]bool{},
		text: &liveText{w: k.Stdout, notes: k.Stderr, onlyText: true}}
	if !c.JSON {
		fmt.Fprintf(k.Stderr, "run %s started\n", started.RunID)
	}
	if isTerminal(os.Stdin) && !c.JSON {
		t.in = bufio.NewReader(os.Stdin)
	}
	if err := t.follow(ctx); err != nil {
		if len(c.File) > 0 && ctx.Err() != nil {
			return &exitError{exitStillRunning, fmt.Errorf("stopped; run %s ended with its server", started.RunID)}
		}
		return err
	}
	return t.end(ctx)
}

// approvalLine is what --json prints of what waits for a person.
type approvalLine struct {
	Approval client.Approval `json:"approval"`
}

// try follows one run.
type try struct {
	api        *client.Client
	run        events.RunID
	out, notes io.Writer
	in         *bufio.Reader // of the terminal; nil: nobody is asked
	json       bool
	server     string
	text       *liveText
	streamed   bool // something of the answer under way was printed
	asked      map[events.ApprovalID]bool
}

type tryFrame struct {
	frame client.Frame
	err   error
}

// follow prints what happens until the run has ended.
func (t *try) follow(ctx context.Context) error {
	watching, cancel := context.WithCancel(ctx)
	frames := make(chan tryFrame)
	go func() {
		defer close(frames)
		for f, err := range t.api.WatchLive(watching, t.run, 0) {
			select {
			case frames <- tryFrame{f, err}:
			case <-watching.Done():
				return
			}
		}
	}()
	defer func() {
		cancel()
		for range frames { // until it has ended
		}
		t.text.end()
	}()
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		select {
		case f, open := <-frames:
			switch {
			case !open && ctx.Err() != nil:
				return stillRunning(ctx, t.run, "watching", context.Cause(ctx))
			case !open:
				return nil
			case f.err != nil:
				return stillRunning(ctx, t.run, "watching", f.err)
			}
			if err := t.print(f.frame); err != nil {
				return err
			}
		case <-tick.C:
			if err := t.ask(ctx); err != nil {
				return err
			}
		}
	}
}

func (t *try) print(f client.Frame) error {
	switch {
	case t.json:
		return printFrameJSON(t.out, f)
	case f.Delta != nil:
		t.streamed = t.streamed || f.Delta.Kind == events.DeltaText
		t.text.print(*f.Delta)
		return nil
	}
	t.text.end()
	e := *f.Event
	var d struct {
		Text  string `json:"text"`
		Calls []struct {
			Tool string          `json:"tool"`
			Args json.RawMessage `json:"args"`
			// ApprovalID is of a call that waits for a yes.
			ApprovalID events.ApprovalID `json:"approval_id"`
		} `json:"calls"`
		Tool     string          `json:"tool"`
		Status   string          `json:"status"`
		Result   json.RawMessage `json:"result"`
		Error    *events.Problem `json:"error"`
		Decision string          `json:"decision"`
		By       string          `json:"by"`
	}
	_ = json.Unmarshal(e.Data, &d) // what is of another shape is printed as it is
	switch e.Kind {
	case events.FactStarted, events.FactCompleted:
	case events.FactModelAnswered:
		if !t.streamed && d.Text != "" {
			fmt.Fprintln(t.out, cleanLines(d.Text))
		}
		t.streamed = false
		for _, call := range d.Calls {
			fmt.Fprintf(t.out, "  > %s %s\n", clean(call.Tool), clean(short(call.Args, 2000)))
			if call.ApprovalID != "" && t.in == nil && !t.asked[call.ApprovalID] {
				t.asked[call.ApprovalID] = true
				t.say(call.Tool+" wants a yes", "approve", call.ApprovalID)
			}
		}
	case events.FactToolCompleted:
		said := clean(short(d.Result, 2000))
		if d.Error != nil {
			said = clean(d.Error.Code + ": " + d.Error.Message)
		}
		fmt.Fprintf(t.out, "  < %s %s %s\n", clean(d.Tool), clean(d.Status), said)
	case events.FactApprovalDecided:
		fmt.Fprintf(t.out, "  = %s\n", clean(joinWords(d.Decision, "by", d.By)))
	default:
		fmt.Fprintf(t.out, "  . %s %s\n", strings.ReplaceAll(clean(e.Kind), "_", " "), clean(short(e.Data, 200)))
	}
	return nil
}

// ask asks the terminal what waits for a person, or says how it is answered.
func (t *try) ask(ctx context.Context) error {
	page, err := t.api.Approvals(ctx, client.ApprovalFilter{State: "pending", Run: t.run, Deferred: "show"}, client.PageRequest{Limit: 50})
	if err != nil {
		return nil // the watch says what is wrong with the server
	}
	for _, a := range page.Items {
		if t.asked[a.ApprovalID] {
			continue
		}
		t.asked[a.ApprovalID] = true
		switch {
		case t.json:
			if err := printJSONLine(t.out, approvalLine{a}); err != nil {
				return err
			}
		case t.in != nil && a.Kind == events.ApprovalAction:
			if err := t.decide(ctx, a); err != nil {
				return err
			}
		default:
			t.text.end()
			verb := map[string]string{events.ApprovalAction: "approve", events.ApprovalDoubt: "settle", events.ApprovalQuestion: "answer"}[a.Kind]
			t.say(a.Summary, verb, a.ApprovalID)
		}
	}
	return nil
}

// say tells how somebody answers what waits.
func (t *try) say(what, verb string, id events.ApprovalID) {
	fmt.Fprintf(t.notes, "  ? waits for a person: %s\n    answer with: holdfast approvals %s %s --server %s\n", clean(what), verb, id, clean(t.server))
}

// decide asks for a yes or a no. What is asked stands above it whole: a yes is bound to it.
func (t *try) decide(ctx context.Context, a client.Approval) error {
	t.text.end()
	fmt.Fprintf(t.notes, "  ? %s\n    %s %s\n", clean(a.Summary), clean(a.Tool), clean(short(a.Args, 1<<20)))
	for {
		fmt.Fprint(t.notes, "    may it? y approves, n rejects, Enter leaves it waiting: ")
		line, err := t.line(ctx)
		if err != nil {
			return nil // the terminal is gone, or Ctrl-C came: it waits on
		}
		d := client.Decision{Digest: a.Digest}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			d.Decision = "approve"
		case "n", "no":
			d.Decision, d.Comment = "reject", "rejected while it was tried"
		case "":
			fmt.Fprintf(t.notes, "    answer later with: holdfast approvals approve %s --server %s\n", a.ApprovalID, clean(t.server))
			return nil
		default:
			continue
		}
		if _, err := t.api.Decide(ctx, a.ApprovalID, d); err != nil {
			fmt.Fprintf(t.notes, "    not decided: %s\n", clean(err.Error()))
		}
		return nil
	}
}

// line reads one line of the terminal, or ends with ctx.
func (t *try) line(ctx context.Context) (string, error) {
	type read struct {
		text string
		err  error
	}
	got := make(chan read, 1)
	go func() {
		text, err := t.in.ReadString('\n')
		got <- read{text, err}
	}()
	select {
	case r := <-got:
		return r.text, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// end prints what came out and what it cost.
func (t *try) end(ctx context.Context) error {
	run, err := t.api.Run(ctx, t.run)
	if err != nil {
		return advise(err, lookRuns)
	}
	if t.json {
		if err := printJSONLine(t.out, run); err != nil {
			return err
		}
	} else {
		if out := pretty(run.Output); out != "" {
			fmt.Fprintln(t.out, out)
		}
		fmt.Fprintf(t.notes, "%s: %d model calls, %d tool calls, %d tokens%s\n", run.Status, run.ModelCalls, run.ToolCalls, run.Tokens, costLine(run))
	}
	if run.Status == events.StatusCompleted {
		return nil
	}
	why := ""
	if run.Error != nil {
		why = ": " + clean(run.Error.Message)
	}
	return fmt.Errorf("run %s ended as %s%s", run.RunID, run.Status, why)
}
