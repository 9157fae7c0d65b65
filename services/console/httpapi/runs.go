package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

// Run is a run on the wire.
type Run struct {
	RunID       events.RunID      `json:"run_id"`
	Namespace   string            `json:"namespace"`
	Kind        string            `json:"kind" enum:"agent,flow,program" doc:"program: its loop is a program of the user"`
	Name        string            `json:"name"`
	Digest      events.Digest     `json:"digest" doc:"the version that the run executes, to its end unless it is moved"`
	Status      string            `json:"status" doc:"queued, running, waiting, paused, needs_attention, cancelling; ends: completed, failed, cancelled, expired"`
	Seq         int64             `json:"seq" doc:"number of the newest event; 0 before a runner has the run"`
	Waiting     string            `json:"waiting,omitempty" doc:"what it waits for, in a few words; see /why"`
	Input       json.RawMessage   `json:"input,omitempty" doc:"not in lists"`
	Output      json.RawMessage   `json:"output,omitempty" doc:"not in lists"`
	Error       json.RawMessage   `json:"error,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Trigger     json.RawMessage   `json:"trigger,omitempty"`
	Principal   string            `json:"principal,omitempty"`
	ParentRunID events.RunID      `json:"parent_run_id,omitempty"`
	ParentItem  string            `json:"parent_item,omitempty"`
	ModelCalls  int64             `json:"model_calls"`
	ToolCalls   int64             `json:"tool_calls"`
	Tokens      int64             `json:"tokens"`
	CacheRead   int64             `json:"cache_read_tokens,omitempty" doc:"of the tokens, input that the provider read from its cache; not in lists"`
	CacheWrite  int64             `json:"cache_write_tokens,omitempty" doc:"of the tokens, input that it wrote to its cache; not in lists"`
	Cost        int64             `json:"cost_micro_usd,omitempty" doc:"what its answers cost by the prices of their models, in millionths of a dollar"`
	CostGuess   int64             `json:"cost_estimated_micro_usd,omitempty" doc:"the part of the cost whose usage the provider did not report"`
	Worker      string            `json:"worker,omitempty" doc:"that is asking the model"`
	Attempts    int               `json:"attempts,omitempty" doc:"takeovers since the last progress"`
	AcceptedAt  time.Time         `json:"accepted_at"`
	CreatedAt   time.Time         `json:"created_at"`
	UpdatedAt   time.Time         `json:"updated_at"`
	EndedAt     *time.Time        `json:"ended_at,omitempty"`
	Callback    *Callback         `json:"callback,omitempty" doc:"what became of posting the end; not in lists"`
	ForkedFrom  *Link             `json:"forked_from,omitempty" doc:"the run whose rows this one began with; not in lists"`
	Forks       []Link            `json:"forks,omitempty" doc:"runs that go on from this one, at most 100; not in lists"`
	Deadline    *time.Time        `json:"deadline,omitempty" doc:"when it ends at the latest, as expired; not in lists"`
	Budgets     []RunBudget       `json:"budgets,omitempty" doc:"how it stands to its ceilings, own ones first; not in lists"`
	Priority    string            `json:"priority,omitempty" doc:"interactive, or batch: others come before it; not in lists"`
	Messages    *Messages         `json:"messages,omitempty" doc:"what was said to its model; not in lists"`
	Edits       []CallEdit        `json:"edits,omitempty" doc:"calls that people changed before they were made, the newest first, at most 100; not in lists"`
	Migrations  []Move            `json:"migrations,omitempty" doc:"orders to move it to another version of its agent and what became of them, the newest first; not in lists"`
	Known
}

// Callback is what became of posting a run's end.
type Callback struct {
	URL         string     `json:"url"`
	State       string     `json:"state" enum:"owed,retrying,delivered,failed" doc:"owed: nothing was tried yet, perhaps because the run has not ended"`
	Attempts    int        `json:"attempts"`
	NextAttempt *time.Time `json:"next_attempt,omitempty"`
	LastError   string     `json:"last_error,omitempty"`
}

func wireCallback(c *console.Callback) *Callback {
	if c == nil {
		return nil
	}
	return &Callback{URL: c.URL, State: c.State, Attempts: c.Attempts, NextAttempt: orNil(c.NextAttempt), LastError: c.LastError}
}

func wireRun(r console.Run) Run {
	return Run{
		RunID: r.ID, Namespace: r.Namespace, Kind: r.Kind, Name: r.Name, Digest: r.Digest, Status: r.Status, Seq: r.Seq,
		Waiting: r.Waiting, Input: r.Input, Output: r.Output, Error: r.Error, Labels: r.Labels, Trigger: r.Trigger,
		Principal: r.Principal, ParentRunID: r.ParentRunID, ParentItem: r.ParentItem,
		ModelCalls: r.ModelCalls, ToolCalls: r.ToolCalls, Tokens: r.Tokens, CacheRead: r.CacheReadTokens, CacheWrite: r.CacheWriteTokens, Cost: r.CostMicroUSD, CostGuess: r.CostEstimatedMicroUSD, Worker: r.ClaimWorker, Attempts: r.Attempts,
		AcceptedAt: r.AcceptedAt, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, EndedAt: orNil(r.EndedAt),
		Callback: wireCallback(r.Callback), Known: wireKnown(r.Known),
		ForkedFrom: wireOrigin(r.Origin), Forks: wireForks(r.Forks), Messages: wireMessages(r.Messages), Edits: wireEdits(r.Edits), Migrations: wireMoves(r.Moves), Deadline: orNil(r.Deadline), Priority: r.Priority, Budgets: wireBudgets(r.Budgets),
	}
}

// RunPath is the id in the path of a run. It is exported because huma looks into
// exported embedded structs only.
type RunPath struct {
	ID events.RunID `path:"id" pattern:"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$" doc:"run id"`
}

type listRunsInput struct {
	door.PageInput
	FindRuns
}

type runCursor struct {
	Before events.RunID `json:"b"`
}

// find reads one page of a list of runs.
func (a *api) find(ctx context.Context, f console.RunFilter, text, cursor string) (console.Found, error) {
	var at runCursor
	if _, err := door.DecodeCursor(cursor, &at); err != nil {
		return console.Found{}, err
	}
	f.Before = at.Before
	if text != "" {
		return a.console.FindText(ctx, f, text)
	}
	return a.console.Find(ctx, f)
}

type listRunsOutput struct{ Body door.Page[Run] }

type runOutput struct{ Body Run }

type journalInput struct {
	RunPath
	door.PageInput
	After int64 `query:"after" minimum:"0" doc:"events after this number; a cursor wins"`
}

type journalOutput struct{ Body door.Page[events.RunEvent] }

type journalCursor struct {
	After int64 `json:"a"`
}

// Why is the answer to "what does this run wait for?".
type Why struct {
	RunID    events.RunID `json:"run_id"`
	Sentence string       `json:"sentence" doc:"one sentence for people"`
	Since    *time.Time   `json:"since,omitempty"`
	Waits    []Wait       `json:"waits" doc:"everything that must happen before the run goes on"`
}

// Wait is one thing that must happen.
type Wait struct {
	Kind     string     `json:"kind" doc:"queue, model, tool, approval, doubt, signal, child"`
	ID       string     `json:"id,omitempty" doc:"approval id"`
	Name     string     `json:"name,omitempty" doc:"tool"`
	Since    *time.Time `json:"since,omitempty"`
	Until    *time.Time `json:"until,omitempty" doc:"when it expires by itself"`
	Sentence string     `json:"sentence"`
}

type whyOutput struct{ Body Why }

func (a *api) runs() {
	door.Register(a.door, huma.Operation{
		OperationID: "list-runs", Method: http.MethodGet, Path: "/v1/runs", Summary: "List runs, newest first", Tags: []string{"runs"},
		Description: "Cost, words of text and statuses of ended runs have no index: a page looks for them among the next 10,000 runs that fit the rest. It may hold fewer than limit runs, or none, while there is a next_cursor: read on.",
	}, authn.Viewer, func(ctx context.Context, in *listRunsInput) (*listRunsOutput, error) {
		p, _ := authn.FromContext(ctx)
		f, err := in.filter(p.Namespace, time.Now())
		if err != nil {
			return nil, err
		}
		f.Limit = in.Limit
		found, err := a.find(ctx, f, in.Text, in.Cursor)
		if err != nil {
			return nil, err
		}
		out := &listRunsOutput{door.PageOf(found.Runs, in.Limit, func(console.Run) any { return nil }, wireRun)}
		if found.Next != "" {
			out.Body.NextCursor = door.EncodeCursor(runCursor{found.Next})
		}
		return out, nil
	})

	door.Register(a.door, huma.Operation{
		OperationID: "get-run", Method: http.MethodGet, Path: "/v1/runs/{id}", Summary: "Get a run", Tags: []string{"runs"},
		Description: "Answers queued for an accepted start that no runner has taken yet.",
	}, authn.Viewer, func(ctx context.Context, in *RunPath) (*runOutput, error) {
		p, _ := authn.FromContext(ctx)
		r, err := a.console.GetRun(ctx, p.Namespace, in.ID)
		if err != nil {
			return nil, problem(err, "run %s", in.ID)
		}
		return &runOutput{wireRun(r)}, nil
	})

	door.Register(a.door, huma.Operation{
		OperationID: "get-run-journal", Method: http.MethodGet, Path: "/v1/runs/{id}/journal", Summary: "Read a run's journal, oldest first", Tags: []string{"runs"},
		Description: "A page has at most limit rows, and fewer when they say more than about 4 MiB: read on while there is a next_cursor.",
	}, authn.Viewer, func(ctx context.Context, in *journalInput) (*journalOutput, error) {
		p, _ := authn.FromContext(ctx)
		after := journalCursor{in.After}
		if _, err := door.DecodeCursor(in.Cursor, &after); err != nil {
			return nil, err
		}
		if _, _, err := a.console.Head(ctx, p.Namespace, in.ID); err != nil {
			return nil, problem(err, "run %s", in.ID)
		}
		found, more, err := a.console.Journal(ctx, p.Namespace, in.ID, after.After, in.Limit)
		if err != nil {
			return nil, err
		}
		page := door.NewPage(found, in.Limit, func(e events.RunEvent) any { return journalCursor{e.Seq} })
		if more {
			page.NextCursor = door.EncodeCursor(journalCursor{found[len(found)-1].Seq})
		}
		return &journalOutput{page}, nil
	})

	door.Register(a.door, huma.Operation{
		OperationID: "why-run", Method: http.MethodGet, Path: "/v1/runs/{id}/why", Summary: "Say what a run waits for", Tags: []string{"runs"},
	}, authn.Viewer, func(ctx context.Context, in *RunPath) (*whyOutput, error) {
		p, _ := authn.FromContext(ctx)
		why, err := a.console.WhyRun(ctx, p.Namespace, in.ID)
		if err != nil {
			return nil, problem(err, "run %s", in.ID)
		}
		out := Why{RunID: in.ID, Sentence: why.Sentence, Since: orNil(why.Since), Waits: make([]Wait, 0, len(why.Waits))}
		for _, w := range why.Waits {
			out.Waits = append(out.Waits, Wait{Kind: w.Kind, ID: w.ID, Name: w.Name, Since: orNil(w.Since), Until: orNil(w.Until), Sentence: w.Phrase})
		}
		return &whyOutput{out}, nil
	})
}
