package events

import (
	"encoding/json"
	"time"
)

// Types of the messages, the CloudEvents "type". The version is part of it.
const (
	TypeStartRun        = "holdfast.run.start.v1"
	TypeStepRun         = "holdfast.run.step.v1"
	TypeSignalRun       = "holdfast.run.signal.v1"
	TypeCommandRun      = "holdfast.run.command.v1"
	TypeForkRun         = "holdfast.run.fork.v1"
	TypeSayRun          = "holdfast.run.message.v1"
	TypeMigrateRun      = "holdfast.run.migrate.v1"
	TypeToolCompleted   = "holdfast.tool.completed.v1"
	TypeApprovalDecided = "holdfast.approval.decided.v1"
	TypeChildCompleted  = "holdfast.run.child_completed.v1"
	TypeTimerFired      = "holdfast.run.timer_fired.v1"
	TypeCallTool        = "holdfast.tool.call.v1"
	TypeControlTool     = "holdfast.tool.control.v1"
	TypeAskApproval     = "holdfast.approval.ask.v1"
	TypeWithdraw        = "holdfast.approval.withdraw.v1"
	TypeNotify          = "holdfast.approval.notify.v1"
	TypeRunEvent        = "holdfast.event.run.v1"
	TypeBudgetAlert     = "holdfast.event.budget_alert.v1"
	TypeStartRequest    = "holdfast.in.start.v1"
)

// Kinds of definition that a run executes.
const (
	KindAgent = "agent"
	KindFlow  = "flow"
)

// Ref names one immutable version of a definition.
type Ref struct {
	Kind   string `json:"kind"` // KindAgent or KindFlow; resource kind in lower case elsewhere
	Name   string `json:"name"`
	Digest Digest `json:"digest"`
}

// Trigger says what started a run.
type Trigger struct {
	Kind string `json:"kind"`           // webhook, api, schedule, event, child
	Name string `json:"name,omitempty"` // webhook or schedule name
	ID   string `json:"id,omitempty"`   // delivery id, fire id, Idempotency-Key, parent call
}

// Parent links a child to the run that waits for it.
type Parent struct {
	RunID RunID  `json:"run_id"`
	Item  string `json:"item"` // pending item of the parent: "<step>/<index>", "call/<answer seq>-<index>"
	// Depth is how many runs are above the child; absent of runs from before it
	// was counted.
	Depth int `json:"depth,omitempty"`
	// Root is the run at the top, whose tree is bounded; absent of its own children.
	Root RunID `json:"root,omitempty"`
	// Priority is PriorityBatch below a batch run; empty leaves it to the child's
	// definition.
	Priority string `json:"priority,omitempty"`
	// Holds is the keys whose places runs above have: the child shares them.
	Holds []HeldKey `json:"holds,omitempty"`
	// Shared is the ceilings of flows above, which the child draws on.
	Shared []SharedCeiling `json:"shared,omitempty"`
	// Bounds is more of them, in units that releases without it would take for
	// tokens: "steps", and "seconds" of wall time.
	Bounds []SharedCeiling `json:"bounds,omitempty"`
}

// SharedCeiling is a ceiling that a flow's run sets for all runs under it.
type SharedCeiling struct {
	Pool       string `json:"pool"`
	Unit       string `json:"unit"`
	Limit      int64  `json:"limit"` // in micro-units: 400 tokens are 400000000, 2.5 dollars 2500000
	OnExceeded string `json:"on_exceeded"`
	// Since is what wall time is counted from.
	Since   *time.Time `json:"since,omitempty"`
	Channel string     `json:"channel,omitempty"` // the Channel that is told of its alerts
}

// StartRun asks the runner for a run. Its ID (the cause) is "start:<run id>".
type StartRun struct {
	RunID     RunID             `json:"run_id"`
	Namespace string            `json:"namespace"`
	Ref       Ref               `json:"ref"`
	Input     json.RawMessage   `json:"input,omitempty"`     // absent with InputRef
	InputRef  *BlobRef          `json:"input_ref,omitempty"` // an input of more than 64 KiB
	Labels    map[string]string `json:"labels,omitempty"`
	Trigger   Trigger           `json:"trigger"`
	Principal string            `json:"principal,omitempty"`
	Parent    *Parent           `json:"parent,omitempty"`
	Callback  *Callback         `json:"callback,omitempty"`
	// AcceptedAt is when a door took the start, by the database clock.
	AcceptedAt time.Time `json:"accepted_at"`
	// Deadline is a moment or a time from AcceptedAt on, see ParseDeadline; of a child
	// its parent's moment.
	Deadline string `json:"deadline,omitempty"`
	// Priority is what the start asks for, one of Priorities or empty; it lowers what
	// the definition says and never lifts it.
	Priority string `json:"priority,omitempty"`
}

// StepRun asks any runner with a free model slot to make the owed model call.
type StepRun struct {
	RunID RunID `json:"run_id"`
}

// StartRequest is what another program publishes on hf.in.<name> to start a
// run. The message's ce-id, else Nats-Msg-Id, is the dedupe key.
type StartRequest struct {
	Agent  string            `json:"agent,omitempty"` // exactly one of Agent and Flow
	Flow   string            `json:"flow,omitempty"`
	Input  json.RawMessage   `json:"input"`
	Labels map[string]string `json:"labels,omitempty"`
	// Callback is where the run's end is posted to, when the definition takes
	// callbacks.
	Callback *Callback `json:"callback,omitempty"`
	Deadline string    `json:"deadline,omitempty"` // see ParseDeadline
	Priority string    `json:"priority,omitempty"` // see StartRun
}

// Command is an operator's request about a run. Its message ID is
// "command:<id>". Which command it is says the last token of the subject.
type Command struct {
	ID        string `json:"id"`
	RunID     RunID  `json:"run_id"`
	Principal string `json:"principal"`
	Reason    string `json:"reason,omitempty"`
	// Budget names what raise_budget raises: "toolCalls", "modelCalls", "tokens",
	// "steps", "cost" or "wallTime" of the run, or "pool:<name>"; To is the new
	// ceiling, money in micro-dollars and time in seconds. A resume with a Budget is
	// the runner's own: that has room again, and who is paused for it goes on.
	Budget string `json:"budget,omitempty"`
	To     int64  `json:"to,omitempty"`
	// Place is which of the orders to the run this one is, as their door took them;
	// zero: it has none. Of pauses and resumes, and of raises of one budget, one that
	// comes behind a later one does nothing.
	Place int `json:"place,omitempty"`
}

// Signal hands data to a run from outside. Its message ID is "signal:<id>".
type Signal struct {
	ID    string `json:"id"`
	RunID RunID  `json:"run_id"`
	Name  string `json:"name"`
	// Key, when set, is that of the wait which may take it; see SignalKeyBytes.
	Key string `json:"key,omitempty"`
	// CallID, when set, is the one wait that may take it. When that has ended the
	// signal is late and the sender looks for another. Without it the run keeps
	// the signal until it waits for one of its name.
	CallID    CallID          `json:"call_id,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"` // at most SignalDataBytes
	Principal string          `json:"principal,omitempty"`
}

// Limits of a signal, at every door that takes one.
const (
	SignalKeyBytes  = 512
	SignalDataBytes = 256 << 10 // it travels in one message, and the model reads it
)

// TimerFired reports that a timer row fell due. Its ID is "timer:<run>:<timer>".
type TimerFired struct {
	RunID RunID     `json:"run_id"`
	Timer string    `json:"timer"` // unique in the run
	Due   time.Time `json:"due"`
	// Woke is when the run recorded it, by the database's clock; in the row of a
	// sleep's end only.
	Woke time.Time `json:"woke,omitzero"`
}

// ChildCompleted reports a child's end to its parent. ID: "child:<child run id>".
type ChildCompleted struct {
	RunID  RunID           `json:"run_id"` // the parent
	Item   string          `json:"item"`
	Child  RunID           `json:"child"`
	Status string          `json:"status"`
	Output json.RawMessage `json:"output,omitempty"` // absent with OutputRef
	// OutputRef is set in a message whose output does not fit one. The row of the
	// parent has the output itself.
	OutputRef *BlobRef `json:"output_ref,omitempty"`
	Error     *Problem `json:"error,omitempty"`
	// Shown is what the model reads instead of an output that is too long; in
	// the row of a call's child only.
	Shown json.RawMessage `json:"shown,omitempty"`
}

// Problem is a stable code and a sentence that says what to do next.
type Problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Approved is the yes that a gated call carries.
type Approved struct {
	ID         ApprovalID `json:"id"`
	Digest     Digest     `json:"digest"` // what was confirmed: BindDigest of tool, arguments and policy
	By         string     `json:"by"`
	At         time.Time  `json:"at"`
	ValidUntil time.Time  `json:"valid_until"`
}

// CallTool asks the tools service for one call. Its ID is "call:<call id>"; a
// repeat with the same call id is answered from the ledger.
type CallTool struct {
	CallID     CallID          `json:"call_id"`
	RunID      RunID           `json:"run_id"`
	Namespace  string          `json:"namespace"`
	Tool       string          `json:"tool"`
	ToolDigest Digest          `json:"tool_digest"`
	Args       json.RawMessage `json:"args"`        // canonical JSON
	ArgsDigest Digest          `json:"args_digest"` // DigestOf(Args)
	// Key is ours: "<run>/<answer seq>/<index>/<tool>". A business key in the
	// tool's definition replaces it.
	Key      string    `json:"key"`
	Approval *Approved `json:"approval,omitempty"`
	// Rule is RuleRecall, RuleFork or empty.
	Rule string `json:"rule,omitempty"`
}

// States of a tool call as the runner hears them.
const (
	CallSucceeded = "succeeded"
	CallFailed    = "failed"   // it surely did not happen
	CallUnknown   = "unknown"  // it may have happened; a person or a later outcome settles it
	CallMismatch  = "mismatch" // same key, other arguments
	CallExpired   = "expired"  // the yes was no longer valid when the call would have begun
	CallRevoked   = "revoked"  // the run withdrew it before it began
)

// ToolCompleted reports the state of a call. Its ID is
// "tool:<call id>:<status>:<epoch>", so an unknown that is settled later is a
// second fact and not a repeat.
type ToolCompleted struct {
	CallID   CallID          `json:"call_id"`
	RunID    RunID           `json:"run_id"`
	Tool     string          `json:"tool"`
	Status   string          `json:"status"`
	Result   json.RawMessage `json:"result,omitempty"` // any JSON value; what the model reads
	Error    *Problem        `json:"error,omitempty"`
	Key      string          `json:"key,omitempty"`
	Epoch    int64           `json:"epoch,omitempty"`
	InDoubt  string          `json:"in_doubt,omitempty"` // policy, when Status is unknown: ask or fail
	Replayed bool            `json:"replayed,omitempty"` // answered from the ledger
	Settled  string          `json:"settled,omitempty"`  // who settled a doubt
	Worker   string          `json:"worker,omitempty"`
}

// ControlTool changes a call that the tools service already has.
// ID: "settle:<approval id>" or "revoke:<call id>".
type ControlTool struct {
	CallID  CallID `json:"call_id"`
	RunID   RunID  `json:"run_id"`
	Action  string `json:"action"`            // ControlSettle or ControlRevoke
	Verdict string `json:"verdict,omitempty"` // Happened, NotHappened or GiveUp, for settle
	// Epoch is the effect epoch that the question was about; 0 for any.
	Epoch  int64           `json:"epoch,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	By     string          `json:"by,omitempty"`
	Reason string          `json:"reason,omitempty"`
}

const (
	ControlSettle = "settle"
	ControlRevoke = "revoke"
)

// Kinds of approval request.
const (
	ApprovalAction   = "action"   // may this call run?
	ApprovalDoubt    = "doubt"    // did this call happen?
	ApprovalQuestion = "question" // what is the answer?
)

// Decisions on an approval request. The first two answer an action, the next
// three a doubt, answered a question; expired and withdrawn are nobody's
// decision.
const (
	Approve     = "approved"
	Reject      = "rejected"
	Happened    = "happened"     // it happened; the result may be given
	NotHappened = "not_happened" // it did not happen: act now
	GiveUp      = "give_up"      // leave it, the model is told it is unknown
	Answered    = "answered"     // the result is the answer
	Expired     = "expired"
	Withdrawn   = "withdrawn"
)

// AskApproval opens a request. ID: "ask:<approval id>".
type AskApproval struct {
	ApprovalID ApprovalID      `json:"approval_id"`
	Kind       string          `json:"kind"`
	RunID      RunID           `json:"run_id"`
	CallID     CallID          `json:"call_id"`
	Namespace  string          `json:"namespace"`
	Agent      string          `json:"agent"`
	Tool       string          `json:"tool"`
	ToolDigest Digest          `json:"tool_digest"`
	Args       json.RawMessage `json:"args"`
	Digest     Digest          `json:"digest"` // BindDigest
	Epoch      int64           `json:"epoch,omitempty"`
	Key        string          `json:"key,omitempty"`
	// Summary is one plain sentence for the person who decides.
	Summary string            `json:"summary"`
	Labels  map[string]string `json:"labels,omitempty"`
	// ForkOf is the run whose past this run has, when the call is asked about because
	// it may have happened there: no standing permission answers it.
	ForkOf RunID `json:"fork_of,omitempty"`
	// Preview is what the tool's template makes of Args, as the model wrote them: not
	// fit to show as it is. Empty: there is none, or it cannot be made.
	Preview string `json:"preview,omitempty"`
	// ExpiresAfterMs counts from the commit of the request row; ValidForMs from
	// the decision. Zero means the service's defaults (72 h and 24 h).
	ExpiresAfterMs int64 `json:"expires_after_ms,omitempty"`
	ValidForMs     int64 `json:"valid_for_ms,omitempty"`
	// Question is set for the kind question, and for no other.
	Question *Question `json:"question,omitempty"`
	// Channel is the name of the Channel whose people are told and may decide there.
	Channel string `json:"channel,omitempty"`
	// Rule says who may decide; absent: every approver.
	Rule *DecisionRule `json:"rule,omitempty"`
	// Policy is the text that Digest covers, when it is more than the tool's own.
	Policy string `json:"policy,omitempty"`
	// Requester is the principal that started the run; empty for none.
	Requester string `json:"requester,omitempty"`
}

// ApprovalDecision reports how a request ended. ID: "decision:<approval id>".
type ApprovalDecision struct {
	ApprovalID ApprovalID      `json:"approval_id"`
	Kind       string          `json:"kind"`
	RunID      RunID           `json:"run_id"`
	CallID     CallID          `json:"call_id"`
	Decision   string          `json:"decision"`
	Digest     Digest          `json:"digest"`
	By         string          `json:"by,omitempty"`
	Comment    string          `json:"comment,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"` // with Happened and Answered
	DecidedAt  time.Time       `json:"decided_at"`
	ValidUntil time.Time       `json:"valid_until"`
	// Args are what a person put in the place of the arguments that were asked
	// about, canonical, with Approve; Digest is then what these are bound to.
	Args json.RawMessage `json:"args,omitempty"`
	// Told is what the model reads of that before the call's result; in the row of
	// the run only.
	Told string `json:"told,omitempty"`
}

// Reader is the oldest reader that makes the call as the person changed it.
func (d ApprovalDecision) Reader() int {
	if d.Args != nil {
		return 3
	}
	return 0
}

// WithdrawApproval closes a request that nobody needs any more.
// ID: "withdraw:<approval id>".
type WithdrawApproval struct {
	ApprovalID ApprovalID `json:"approval_id"`
	RunID      RunID      `json:"run_id"`
	Reason     string     `json:"reason"`
}

// BudgetAlert is published once per pool, window and threshold.
// Subject: EventSubject("budget", <id>).
type BudgetAlert struct {
	ID        string    `json:"id"`
	Namespace string    `json:"namespace"`
	RunID     RunID     `json:"run_id,omitempty"`    // whose ceiling it is: a run's own, or a flow's
	PassedBy  RunID     `json:"passed_by,omitempty"` // the run that passed the threshold first
	Pool      string    `json:"pool"`                // a Budget's name, "flow-<run id>-<unit>" of a flow's run, or "run:<ceiling>" of one run
	Window    string    `json:"window"`              // first day of the window, "2026-11-29", of a part "2026-11-28T18/night"; "all" without one; the run's id of a run's
	Percent   int       `json:"percent"`
	Limit     int64     `json:"limit"`
	Used      int64     `json:"used"` // used and reserved
	Unit      string    `json:"unit"` // "tokens", "micro_usd", "modelCalls", "toolCalls", "steps" or "seconds"
	At        time.Time `json:"at"`
}
