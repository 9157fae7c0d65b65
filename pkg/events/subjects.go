package events

import "fmt"

// Names of the streams. A stream is the inbox of one service; only EVENTS has
// many readers.
const (
	StreamIn        = "IN"
	StreamRuns      = "RUNS"
	StreamTools     = "TOOLS"
	StreamApprovals = "APPROVALS"
	StreamEvents    = "EVENTS"
)

// Names of the durable consumers.
const (
	ConsumerTrigger    = "trigger"
	ConsumerRunner     = "runner"
	ConsumerRunnerStep = "runner-step"
	ConsumerToolCtl    = "tools-control"
	ConsumerApprovals  = "approvals"
)

// ToolConsumer is the durable consumer of one tool pool.
func ToolConsumer(pool string) string { return "tools-" + pool }

// What a RUNS message asks for or reports: the last token of its subject.
const (
	RunStart           = "start"
	RunStep            = "step"
	RunSignal          = "signal"
	RunToolCompleted   = "tool_completed"
	RunApprovalDecided = "approval_decided"
	RunChildCompleted  = "child_completed"
	RunTimerFired      = "timer_fired"
	RunCancel          = "cancel"
	RunPause           = "pause"
	RunResume          = "resume"
	RunRaiseBudget     = "raise_budget"
	RunFork            = "fork" // to the run that comes of it
	RunMessage         = "message"
	RunMigrate         = "migrate"
)

// FastRunKinds lists every <what> of RUNS that the consumer "runner" takes;
// RunStep and its lanes belong to consumers of their own; see lanes.go.
var FastRunKinds = []string{
	RunStart, RunSignal, RunToolCompleted, RunApprovalDecided, RunChildCompleted,
	RunTimerFired, RunCancel, RunPause, RunResume, RunRaiseBudget, RunFork, RunMessage, RunMigrate,
}

// What an APPROVALS message asks for.
const (
	ApprovalAsk      = "ask"
	ApprovalWithdraw = "withdraw"
)

// Subject builders. Every token is checked: an id that is not ours is a
// programming error and panics, because it could widen a subscription.

// RunSubject is hf.run.<run>.<what>.
func RunSubject(run RunID, what string) string {
	return fmt.Sprintf("hf.run.%s.%s", token(string(run)), token(what))
}

// ToolSubject is hf.tool.<pool>.<call>.
func ToolSubject(pool string, call CallID) string {
	return fmt.Sprintf("hf.tool.%s.%s", token(pool), token(string(call)))
}

// ToolControlSubject is hf.toolctl.<call>; it carries settle and revoke.
func ToolControlSubject(call CallID) string {
	return "hf.toolctl." + token(string(call))
}

// ApprovalSubject is hf.approval.<id>.<what>.
func ApprovalSubject(id ApprovalID, what string) string {
	return fmt.Sprintf("hf.approval.%s.%s", token(string(id)), token(what))
}

// RunEventSubject is hf.event.run.<run>; only the runner publishes there.
func RunEventSubject(run RunID) string { return "hf.event.run." + token(string(run)) }

// EventSubject is hf.event.<kind>.<id>, for facts that are not a run's.
func EventSubject(kind, id string) string {
	return fmt.Sprintf("hf.event.%s.%s", token(kind), token(id))
}

// InSubject is hf.in.<name>: another program starts runs by publishing there.
func InSubject(name string) string { return "hf.in." + token(name) }

func token(s string) string {
	if !ValidToken(s) {
		panic(fmt.Sprintf("events: %q is not a subject token (1 to 120 of A-Z a-z 0-9 _ -)", s))
	}
	return s
}
