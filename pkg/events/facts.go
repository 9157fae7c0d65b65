package events

import (
	"encoding/json"
	"time"
)

// Kinds of journal row. A run's journal is the list of its facts; each row is
// also one event, whose number is the row's seq.
const (
	FactStarted         = "run_started"
	FactModelAnswered   = "model_answered"
	FactModelFailed     = "model_failed"
	FactToolCompleted   = "tool_completed"   // body: ToolCompleted
	FactApprovalDecided = "approval_decided" // body: ApprovalDecision
	FactChildrenStarted = "children_started"
	FactChildCompleted  = "child_completed" // body: ChildCompleted
	FactTimerFired      = "timer_fired"     // body: TimerFired
	FactSignalReceived  = "signal_received" // body: Signal
	FactSignalTaken     = "signal_taken"
	FactPlanChanged     = "plan_changed"
	FactFactsChanged    = "facts_changed"
	FactSleepStarted    = "sleep_started"
	FactTurnAwaited     = "turn_awaited"
	FactChildStarted    = "child_started"
	FactQuestionAsked   = "question_asked"
	FactItemsStarted    = "items_started"
	FactStepSkipped     = "step_skipped"
	FactItemRetried     = "item_retried"
	FactItemsKept       = "items_kept"
	FactCancelRequested = "cancel_requested" // body: Cancelling
	FactPaused          = "paused"
	FactResumed         = "resumed"
	FactBudgetRaised    = "budget_raised" // body: Raised
	FactAttention       = "needs_attention"
	FactCompleted       = "run_completed"
	FactFailed          = "run_failed"
	FactCancelled       = "run_cancelled"
	FactExpired         = "run_expired"
	FactLateResult      = "late_result"
	FactOutputRejected  = "output_rejected"
	FactForked          = "run_forked"       // body: Forked
	FactMessage         = "message_received" // body: SayRun
	FactDeadline        = "deadline_passed"  // body: Expiring
	// A migration's row keeps the order, carries it out or refuses it.
	FactMigrationOrdered = "migration_ordered" // body: Migration
	FactMigrated         = "run_migrated"      // body: Migrated
	FactMigrationRefused = "migration_refused" // body: MigrationRefused
	FactSlotsAwaited     = "slots_awaited"
	FactSlotsTaken       = "slots_taken"
	// FactCompactionStarted and FactContextCompacted shorten the conversation that
	// later requests begin with.
	FactCompactionStarted = "compaction_started"
	FactContextCompacted  = "context_compacted"
	// FactCallback comes after the end, at most once, and leaves the end as it
	// is. Body: ToolCompleted.
	FactCallback = "callback_completed"
)

// Statuses of a run.
const (
	StatusQueued     = "queued"
	StatusRunning    = "running"
	StatusWaiting    = "waiting"
	StatusPaused     = "paused"
	StatusAttention  = "needs_attention"
	StatusCancelling = "cancelling"
	StatusCompleted  = "completed"
	StatusFailed     = "failed"
	StatusCancelled  = "cancelled"
	StatusExpired    = "expired"
)

// Ended reports whether status is final.
func Ended(status string) bool {
	switch status {
	case StatusCompleted, StatusFailed, StatusCancelled, StatusExpired:
		return true
	}
	return false
}

// RunEvent is the body of an event: one journal row.
type RunEvent struct {
	RunID     RunID           `json:"run_id"`
	Namespace string          `json:"namespace"`
	Seq       int64           `json:"seq"`
	Kind      string          `json:"kind"`
	Status    string          `json:"status"` // of the run after this row
	At        time.Time       `json:"at"`
	Cause     string          `json:"cause"`
	Worker    string          `json:"worker"`
	Data      json.RawMessage `json:"data"`
	// Elided is the size of a body that is too large for the bus: Data is null
	// there, and the run's own events have it.
	Elided int64 `json:"elided_bytes,omitempty"`
}

// RunStarted is the first row. It pins what the run executes to its end.
type RunStarted struct {
	Ref       Ref               `json:"ref"`
	Model     *Ref              `json:"model,omitempty"`     // agents only
	Fallbacks []Ref             `json:"fallbacks,omitempty"` // models that may go on where Model fails
	Tools     []Ref             `json:"tools,omitempty"`     // in the agent's order; kind "tool"
	Steps     []Ref             `json:"steps,omitempty"`     // flows only: what each step starts, in step order
	Pools     []Ref             `json:"pools,omitempty"`     // shared budgets; kind "budget"
	Starts    []Ref             `json:"starts,omitempty"`    // what its calls may start as child runs
	Policies  Digest            `json:"policies"`            // digest over the approval and in-doubt policies of Tools
	Input     json.RawMessage   `json:"input"`
	Labels    map[string]string `json:"labels,omitempty"`
	Trigger   Trigger           `json:"trigger"`
	Principal string            `json:"principal,omitempty"`
	Parent    *Parent           `json:"parent,omitempty"`
	Callback  *Callback         `json:"callback,omitempty"` // where its end is posted to
	Origin    *Origin           `json:"origin,omitempty"`   // of a fork or a retry: whose rows follow
	// WallTimeMs bounds how long the run may take, from AcceptedAt on.
	WallTimeMs int64 `json:"wall_time_ms,omitempty"`
	// Priority is PriorityBatch, or empty for an interactive run.
	Priority string `json:"priority,omitempty"`
	// Concurrency is the limits that the run is under, with their keys.
	Concurrency []ConcurrencyKey `json:"concurrency,omitempty"`
	AcceptedAt  time.Time        `json:"accepted_at"`
	// Wording is which wording of its output's rule the model is told, counted from 1;
	// absent without a rule, and of runs from before it was kept, which have the first.
	Wording int `json:"wording,omitempty"`
	// Deadline is when the run ends, whatever it does. A row with one needs reader 3.
	Deadline *Deadline `json:"deadline,omitempty"`
}

// Usage is what one answer cost, normalized: Input includes what was read from
// and written to the provider's cache.
type Usage struct {
	InputTokens      int64 `json:"input_tokens"`
	CacheReadTokens  int64 `json:"cache_read_tokens,omitempty"`
	CacheWriteTokens int64 `json:"cache_write_tokens,omitempty"`
	OutputTokens     int64 `json:"output_tokens"`
	ReasoningTokens  int64 `json:"reasoning_tokens,omitempty"` // of the output
	Estimated        bool  `json:"estimated,omitempty"`        // the provider did not say all of it
}

// Total is input and output.
func (u Usage) Total() int64 { return u.InputTokens + u.OutputTokens }

// ModelAnswered is one answer of the model and what was decided about each of
// its tool calls, in the order of the answer.
type ModelAnswered struct {
	Model     string `json:"model"`
	RequestID string `json:"request_id,omitempty"` // the provider's
	// Raw is the provider's answer as text, byte for byte: what is sent back as
	// history. A JSON value would be re-spelled on its way.
	Raw        string      `json:"raw"`
	StopReason string      `json:"stop_reason"`
	Text       string      `json:"text,omitempty"`
	Calls      []AskedCall `json:"calls,omitempty"`
	Usage      Usage       `json:"usage"`
	Worker     string      `json:"worker"`
	Epoch      int64       `json:"epoch"`
	DurationMs int64       `json:"duration_ms"`
	// ModelName is the Model document that answered; absent in rows of older
	// releases, which knew one model for a run.
	ModelName string `json:"model_name,omitempty"`
	// CostMicroUSD is what Usage costs by that document's prices, rounded up;
	// absent without prices.
	CostMicroUSD int64 `json:"cost_micro_usd,omitempty"`
	// Left is what the model reads behind the results of Calls about its budget.
	Left string `json:"left,omitempty"`
	// Messages is how many messages to the model the request had.
	Messages int `json:"messages,omitempty"`
	// Bound says that Raw holds what only its own model can take back.
	Bound bool `json:"bound,omitempty"`
}

// Routes of an asked call.
const (
	RouteSend   = "send"   // goes to the tools service at once
	RouteAsk    = "ask"    // waits for a person first
	RouteAnswer = "answer" // answered here without acting: refused, unknown tool, over budget
	RouteHold   = "hold"   // the run was paused when the answer came; sent or asked by the resume
	RouteWait   = "wait"   // waits here for a signal; nothing is sent
	RouteHere   = "here"   // a built-in of the runner: a row of its own, behind this one, says what follows
)

// AskedCall is one tool call of an answer and where it went.
type AskedCall struct {
	CallID     CallID          `json:"call_id"`
	ProviderID string          `json:"provider_id"` // the model's own id of the call; never a key of ours
	Tool       string          `json:"tool"`
	Args       json.RawMessage `json:"args,omitempty"` // canonical JSON; absent when it could not be parsed
	ArgsDigest Digest          `json:"args_digest,omitempty"`
	Route      string          `json:"route"`
	ApprovalID ApprovalID      `json:"approval_id,omitempty"` // RouteAsk
	Bind       Digest          `json:"bind,omitempty"`        // RouteAsk: what a yes is bound to
	Problem    *Problem        `json:"problem,omitempty"`     // RouteAnswer
	Wait       *SignalWait     `json:"wait,omitempty"`        // RouteWait, and RouteHold of such a call
	// Builtin names the runner's built-in that the call is of, whatever its route.
	Builtin string `json:"builtin,omitempty"`
	// Step is set for a call that a flow's step makes; then no model asked for it.
	Step *StepCall `json:"step,omitempty"`
	// Rule is what the ledger is told beside the tool's policy: RuleRecall or
	// RuleFork.
	Rule    string    `json:"rule,omitempty"`
	Recalls *Recalled `json:"recalls,omitempty"` // RuleRecall
}

// SignalWait is what a call waits for.
type SignalWait struct {
	Name      string `json:"name"`
	Key       string `json:"key,omitempty"` // without one only signals to the run itself are taken
	TimeoutMs int64  `json:"timeout_ms"`
	// Until is when the call ends without a signal; absent while it is held.
	Until time.Time `json:"until,omitzero"`
}

// SignalTaken is the one call whose result a signal became.
type SignalTaken struct {
	SignalID string `json:"signal_id"`
	CallID   CallID `json:"call_id"`
}

// ModelFailed is a model call that gave no answer. With RetryAt a timer row
// repeats it; without, the run ends or parks.
type ModelFailed struct {
	Problem
	Attempt int        `json:"attempt"`
	RetryAt *time.Time `json:"retry_at,omitempty"`
	// Unasked says that no request left, because the host failed too often: the
	// row counts neither as a model call nor as an attempt. A reader that does not
	// know it counts one too many.
	Unasked bool `json:"unasked,omitempty"`
	// NextModel is the Model document that makes the call instead, at once, and
	// every later one of the run.
	NextModel string `json:"next_model,omitempty"`
	// Usage is what the provider is taken to bill for the attempt, and
	// CostMicroUSD what that costs; nil when it billed nothing or nobody knows.
	Usage        *Usage `json:"usage,omitempty"`
	CostMicroUSD int64  `json:"cost_micro_usd,omitempty"`
	// ModelName is the Model document that was asked, beside Usage; absent in rows of
	// older releases.
	ModelName string `json:"model_name,omitempty"`
	// Unbilled says that the provider refused the attempt: it counts as no call.
	Unbilled bool   `json:"unbilled,omitempty"`
	Worker   string `json:"worker"`
	Epoch    int64  `json:"epoch"`
}

// ChildrenStarted starts one window of a flow step.
type ChildrenStarted struct {
	Step     string  `json:"step"`
	Total    int     `json:"total"` // items of the step
	Children []Child `json:"children"`
}

// Child is a run that another one starts: an item of a flow step, or a call.
type Child struct {
	Item  string          `json:"item"` // "<step>/<index>", "call/<answer seq>-<index>"
	RunID RunID           `json:"run_id"`
	Ref   Ref             `json:"ref"`
	Input json.RawMessage `json:"input"`
}

// Paused says why a run stands still: an operator, a budget, or the stop.
type Paused struct {
	By     string `json:"by"` // "operator", "budget"
	Reason string `json:"reason,omitempty"`
	Pool   string `json:"pool,omitempty"`
	// Until is when the next window of Pool begins: the run goes on then by itself.
	Until *time.Time `json:"until,omitempty"`
	// Principal is who asked, for an operator's pause or resume.
	Principal string `json:"principal,omitempty"`
	CommandID string `json:"command_id,omitempty"`
	Place     int    `json:"place,omitempty"` // as in Command
}

// Reader is the oldest reader that holds the run to its bounds.
func (r RunStarted) Reader() int {
	if r.Parent != nil && len(r.Parent.Bounds) > 0 || r.Ref.Kind == KindFlow && r.WallTimeMs > 0 {
		return 3
	}
	return 0
}

// Reader is the oldest reader that knows what the row waits for.
func (p Paused) Reader() int {
	if p.Until != nil {
		return 3
	}
	return 0
}

// Resumed ends a pause. Release holds the calls of an answer that came during
// the pause, each with the route it takes now.
type Resumed struct {
	By        string      `json:"by"` // "operator", "budget", "window"
	Principal string      `json:"principal,omitempty"`
	CommandID string      `json:"command_id,omitempty"`
	Place     int         `json:"place,omitempty"` // as in Command
	Release   []AskedCall `json:"release,omitempty"`
}

// Cancelling is an accepted cancel and everything it takes back.
type Cancelling struct {
	Command
	Revoke   []CallID     `json:"revoke,omitempty"`   // calls that were sent
	Withdraw []ApprovalID `json:"withdraw,omitempty"` // questions that were asked
	Children []RunID      `json:"children,omitempty"` // runs to cancel
}

// Raised lifts a ceiling. When the run was paused for it, Release is as in
// Resumed.
type Raised struct {
	Command
	Release []AskedCall `json:"release,omitempty"`
}

// Ending is the body of every end and of needs_attention.
type Ending struct {
	Output json.RawMessage `json:"output,omitempty"` // run_completed
	Error  *Problem        `json:"error,omitempty"`
	By     string          `json:"by,omitempty"`
}

// LateResult keeps what arrived when it could change nothing any more.
type LateResult struct {
	Type string          `json:"type"`
	Data json.RawMessage `json:"data"`
	// Overtaken is the ID of the order that was given later and came first, and
	// holds instead of this one.
	Overtaken string `json:"overtaken,omitempty"`
}
