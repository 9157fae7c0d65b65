package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// MaxLabels is how many labels a start may carry.
const MaxLabels = 16

// StartRequest starts a run of an agent or of a flow; exactly one is named.
type StartRequest struct {
	Agent  string
	Flow   string
	Input  json.RawMessage // nil means {}
	Labels map[string]string
	// IdempotencyKey makes a repeat of the start the same run, from any process.
	// Empty means a fresh key, which covers the repeats of this one call.
	IdempotencyKey string
	// CallbackURL is where the run's end is posted to, signed, when the agent's
	// or flow's definition takes callbacks. Empty: nowhere.
	CallbackURL string
	// Deadline ends the run: a moment as RFC 3339 or a time from the acceptance on,
	// "90m" or "2d". Empty: the definition's, if any.
	Deadline string
	// Priority is "batch" for a run that others come before, or "interactive" for one
	// of an agent that says nothing. Empty: what the definition says.
	Priority string
}

// Started is an accepted start.
type Started struct {
	RunID     events.RunID `json:"run_id"`
	Status    string       `json:"status"`
	StatusURL string       `json:"status_url"`
	Replayed  bool         `json:"replayed,omitempty"` // the key had started this run before
}

// Start starts a run. Once it returns nil the run takes effect exactly once.
func (c *Client) Start(ctx context.Context, r StartRequest) (Started, error) {
	var out Started
	header, err := c.start(ctx, r, nil, &out)
	out.Replayed = header.Get("Idempotency-Replayed") == "true"
	return out, err
}

// start sends a start with the query q.
func (c *Client) start(ctx context.Context, r StartRequest, q url.Values, out any) (http.Header, error) {
	kind, name := "agents", r.Agent
	switch {
	case (r.Agent == "") == (r.Flow == ""):
		return nil, errors.New("a start names one agent or one flow")
	case r.Flow != "":
		kind, name = "flows", r.Flow
	}
	if len(r.Labels) > MaxLabels {
		return nil, fmt.Errorf("a start takes at most %d labels, these are %d", MaxLabels, len(r.Labels))
	}
	input := r.Input
	if input == nil {
		input = json.RawMessage("{}")
	}
	body := struct {
		Input    json.RawMessage   `json:"input"`
		Labels   map[string]string `json:"labels,omitempty"`
		Callback *events.Callback  `json:"callback,omitempty"`
		Deadline string            `json:"deadline,omitempty"`
		Priority string            `json:"priority,omitempty"`
	}{Input: input, Labels: r.Labels, Deadline: r.Deadline, Priority: r.Priority}
	if r.CallbackURL != "" {
		body.Callback = &events.Callback{URL: r.CallbackURL}
	}
	return c.do(ctx, call{
		method: http.MethodPost, path: "/v1/" + kind + "/" + url.PathEscape(name) + "/runs", query: q, body: body,
		key: cmp.Or(r.IdempotencyKey, newKey()), idempotent: true,
	}, out)
}

// Run is the current state of one run.
type Run struct {
	RunID       events.RunID      `json:"run_id"`
	Namespace   string            `json:"namespace"`
	Kind        string            `json:"kind"` // agent or flow
	Name        string            `json:"name"`
	Digest      events.Digest     `json:"digest"`
	Status      string            `json:"status"`
	Seq         int64             `json:"seq"`
	Waiting     string            `json:"waiting,omitempty"`
	Input       json.RawMessage   `json:"input,omitempty"`
	Output      json.RawMessage   `json:"output,omitempty"`
	Error       *events.Problem   `json:"error,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Trigger     *events.Trigger   `json:"trigger,omitempty"`
	Principal   string            `json:"principal,omitempty"`
	ParentRunID events.RunID      `json:"parent_run_id,omitempty"`
	ParentItem  string            `json:"parent_item,omitempty"`
	ModelCalls  int64             `json:"model_calls"`
	ToolCalls   int64             `json:"tool_calls"`
	Tokens      int64             `json:"tokens"`
	// CacheReadTokens and CacheWriteTokens are the input among the tokens that the
	// provider read from, and wrote to, its cache; not in lists.
	CacheReadTokens  int64 `json:"cache_read_tokens,omitempty"`
	CacheWriteTokens int64 `json:"cache_write_tokens,omitempty"`
	// CostMicroUSD is what its answers cost by the prices of their models, in
	// millionths of a dollar, and CostEstimatedMicroUSD the part of it whose usage
	// the provider did not report.
	CostMicroUSD          int64     `json:"cost_micro_usd,omitempty"`
	CostEstimatedMicroUSD int64     `json:"cost_estimated_micro_usd,omitempty"`
	Worker                string    `json:"worker,omitempty"`   // that is asking the model
	Attempts              int64     `json:"attempts,omitempty"` // takeovers since the last progress
	AcceptedAt            time.Time `json:"accepted_at,omitzero"`
	CreatedAt             time.Time `json:"created_at,omitzero"`
	UpdatedAt             time.Time `json:"updated_at,omitzero"`
	EndedAt               time.Time `json:"ended_at,omitzero"`
	Callback              *Callback `json:"callback,omitempty"` // not in lists
	// ForkedFrom is the run whose rows this one began with, Forks those that go on
	// from this one. Neither is in lists.
	ForkedFrom *Link     `json:"forked_from,omitempty"`
	Forks      []Link    `json:"forks,omitempty"`
	Deadline   time.Time `json:"deadline,omitzero"`  // when it ends at the latest; not in lists
	Priority   string    `json:"priority,omitempty"` // interactive or batch; not in lists
	// Budgets is how it stands to its ceilings; not in lists.
	Budgets []RunBudget `json:"budgets,omitempty"`
	// Messages is what was said to its model; not in lists.
	Messages *Messages `json:"messages,omitempty"`
	// Migrations are the newest orders to move it to another version of its agent; not
	// in lists.
	Migrations []Move `json:"migrations,omitempty"`
	// Edits are the calls that people changed before they were made; not in lists.
	Edits []CallEdit `json:"edits,omitempty"`
	// Plan and Facts are what the run's model keeps, Artifacts the newest 100 that
	// its calls left behind. None is in lists.
	Plan          []events.PlanItem          `json:"plan,omitempty"`
	Facts         map[string]json.RawMessage `json:"facts,omitempty"`
	Artifacts     []RunArtifact              `json:"artifacts,omitempty"`
	MoreArtifacts bool                       `json:"more_artifacts,omitempty"`
}

// CallEdit is a call that a person changed before it was made.
type CallEdit struct {
	ApprovalID events.ApprovalID `json:"approval_id"`
	CallID     events.CallID     `json:"call_id"`
	Tool       string            `json:"tool"`
	Args       json.RawMessage   `json:"args"`   // as the model wrote them
	Edited     json.RawMessage   `json:"edited"` // as they were sent
	Changes    []events.Change   `json:"changes"`
	By         string            `json:"by"`
	Door       string            `json:"door"`
	Comment    string            `json:"comment,omitempty"`
	At         time.Time         `json:"at"`
}

// Callback is what became of posting a run's end.
type Callback struct {
	URL         string    `json:"url"`
	State       string    `json:"state"` // owed, retrying, delivered or failed
	Attempts    int       `json:"attempts"`
	NextAttempt time.Time `json:"next_attempt,omitzero"`
	LastError   string    `json:"last_error,omitempty"`
}

// Run reads one run. An accepted start is found at once, as queued.
func (c *Client) Run(ctx context.Context, id events.RunID) (Run, error) {
	return get[Run](ctx, c, "/v1/runs/"+url.PathEscape(string(id)), nil)
}

// RunFilter narrows a list of runs. Empty fields do not narrow.
type RunFilter struct {
	Agent, Flow string
	Program     string            // whose own runs these are
	Status      []string          // any of them
	Trigger     string            // what started it: webhook, api, schedule, event, child or fork
	Source      string            // beside Trigger: the name of the webhook, the schedule, the parent
	Labels      map[string]string // all of them
	// From and To bound when the start was accepted: a moment, a day, or how long ago, like
	// 90m or 2d. To is not part of it.
	From, To string
	Cost     string // at least so many dollars, like 0.10
	// Text is eight or more characters of the beginning of an id, its last eight, or words
	// that all stand in the name, the labels or what the run waits for.
	Text   string
	Parent events.RunID
}

// Runs lists runs, newest first. Under Cost, words and statuses of ended runs a page may
// be short or empty while it has a NextCursor: read on.
func (c *Client) Runs(ctx context.Context, f RunFilter, p PageRequest) (Page[Run], error) {
	q := p.values()
	for name, value := range map[string]string{
		"agent": f.Agent, "flow": f.Flow, "program": f.Program, "trigger": f.Trigger, "source": f.Source,
		"from": f.From, "to": f.To, "cost": f.Cost, "text": f.Text, "parent": string(f.Parent),
	} {
		set(q, name, value)
	}
	for _, status := range f.Status {
		q.Add("status", status)
	}
	for _, k := range slices.Sorted(maps.Keys(f.Labels)) {
		q.Add("label", k+":"+f.Labels[k])
	}
	return get[Page[Run]](ctx, c, "/v1/runs", q)
}

// Event is one row of a run's journal and also one event.
type Event = events.RunEvent

// Journal reads the journal of a run, oldest first.
func (c *Client) Journal(ctx context.Context, id events.RunID, p PageRequest) (Page[Event], error) {
	return get[Page[Event]](ctx, c, "/v1/runs/"+url.PathEscape(string(id))+"/journal", p.values())
}

// Why is the answer to "what does this run wait for?".
type Why struct {
	RunID    events.RunID `json:"run_id"`
	Sentence string       `json:"sentence"`
	Since    time.Time    `json:"since,omitzero"`
	Waits    []Wait       `json:"waits"`
}

// Wait is one thing that must happen before a run goes on.
type Wait struct {
	Kind     string    `json:"kind"` // queue, model, tool, approval, doubt, child
	ID       string    `json:"id,omitempty"`
	Name     string    `json:"name,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Until    time.Time `json:"until,omitzero"`
	Sentence string    `json:"sentence"`
}

// Why says what a run waits for.
func (c *Client) Why(ctx context.Context, id events.RunID) (Why, error) {
	return get[Why](ctx, c, "/v1/runs/"+url.PathEscape(string(id))+"/why", nil)
}

// Commanded is an accepted command. What came of it is in the run's events.
type Commanded struct {
	CommandID string       `json:"command_id"`
	RunID     events.RunID `json:"run_id"`
}

// Cancel asks a run to stop: calls that have not begun are taken back, open
// questions are withdrawn, and the run ends as cancelled.
func (c *Client) Cancel(ctx context.Context, id events.RunID, reason string) (Commanded, error) {
	return c.command(ctx, id, "cancel", reason)
}

// Pause asks a run to make no further model call.
func (c *Client) Pause(ctx context.Context, id events.RunID, reason string) (Commanded, error) {
	return c.command(ctx, id, "pause", reason)
}

// Resume ends a pause.
func (c *Client) Resume(ctx context.Context, id events.RunID, reason string) (Commanded, error) {
	return c.command(ctx, id, "resume", reason)
}

func (c *Client) command(ctx context.Context, id events.RunID, what, reason string) (Commanded, error) {
	body := struct {
		Reason string `json:"reason,omitempty"`
	}{reason}
	return post[Commanded](ctx, c, "/v1/runs/"+url.PathEscape(string(id))+"/"+what, body)
}
