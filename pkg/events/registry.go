package events

// MessageType is one kind of message: where it travels, who sends it and what
// its body is.
type MessageType struct {
	Type     string   // ce-type, with the version
	Stream   string   // the stream that keeps it
	Subjects []string // patterns, as docs name them: "hf.run.<run id>.start"
	ID       string   // the form of the logical id (ce-id), which receivers record as the cause
	From, To string   // services; several separated by commas
	New      func() any
}

// Types lists every message, in the order of a run's life.
func Types() []MessageType {
	return []MessageType{
		{TypeStartRequest, StreamIn, []string{"hf.in.<name>"}, "chosen by the sender; without it Nats-Msg-Id", "other programs", "trigger", body[StartRequest]},
		{TypeStartRun, StreamRuns, []string{"hf.run.<run id>.start"}, "start:<run id>", "trigger, runner", "runner", body[StartRun]},
		{TypeStepRun, StreamRuns, []string{"hf.run.<run id>.step", "hf.run.<run id>.step-<lane>"}, "step:<run id>:<seq>:<epoch>", "runner", "runner", body[StepRun]},
		{TypeCallTool, StreamTools, []string{"hf.tool.<pool>.<call id>"}, "call:<call id>", "runner, tools", "tools", body[CallTool]},
		{TypeControlTool, StreamTools, []string{"hf.toolctl.<call id>"}, "settle:<approval id> or revoke:<call id>", "runner", "tools", body[ControlTool]},
		{TypeToolCompleted, StreamRuns, []string{"hf.run.<run id>.tool_completed"}, "tool:<call id>:<status>:<epoch>", "tools", "runner", body[ToolCompleted]},
		{TypeAskApproval, StreamApprovals, []string{"hf.approval.<approval id>.ask"}, "ask:<approval id>", "runner", "approvals", body[AskApproval]},
		{TypeWithdraw, StreamApprovals, []string{"hf.approval.<approval id>.withdraw"}, "withdraw:<approval id>", "runner", "approvals", body[WithdrawApproval]},
		{TypeNotify, StreamApprovals, []string{"hf.approval.<notice id>.notify"}, "notify:<notice id>", "runner", "approvals", body[Notice]},
		{TypeApprovalDecided, StreamRuns, []string{"hf.run.<run id>.approval_decided"}, "decision:<approval id>", "approvals", "runner", body[ApprovalDecision]},
		{TypeChildCompleted, StreamRuns, []string{"hf.run.<parent run id>.child_completed"}, "child:<child run id>", "runner", "runner", body[ChildCompleted]},
		{TypeTimerFired, StreamRuns, []string{"hf.run.<run id>.timer_fired"}, "timer:<run id>:<timer>", "runner", "runner", body[TimerFired]},
		{TypeCommandRun, StreamRuns, []string{"hf.run.<run id>.cancel", "hf.run.<run id>.pause", "hf.run.<run id>.resume", "hf.run.<run id>.raise_budget"}, "command:<command id>", "console, runner", "runner", body[Command]},
		{TypeForkRun, StreamRuns, []string{"hf.run.<new run id>.fork"}, "command:<command id>", "console", "runner", body[ForkRun]},
		{TypeSayRun, StreamRuns, []string{"hf.run.<run id>.message"}, "command:<command id>", "console", "runner", body[SayRun]},
		{TypeMigrateRun, StreamRuns, []string{"hf.run.<run id>.migrate"}, "command:<command id>", "console", "runner", body[MigrateRun]},
		{TypeSignalRun, StreamRuns, []string{"hf.run.<run id>.signal"}, "signal:<signal id>", "console, trigger", "runner", body[Signal]},
		{TypeRunEvent, StreamEvents, []string{"hf.event.run.<run id>"}, "<run id>:<seq>", "runner", "everybody", body[RunEvent]},
		{TypeBudgetAlert, StreamEvents, []string{"hf.event.budget.<alert id>"}, "alert:<alert id>", "runner", "everybody", body[BudgetAlert]},
	}
}

// FactKind is one kind of journal row: the "kind" and the body ("data") of a
// run event.
type FactKind struct {
	Kind string
	Doc  string // one sentence: what has happened
	New  func() any
	// Reader is the oldest reader that understands such a row; zero means 1. A row
	// whose body gets a meaning that an older reader would take for another one
	// raises it as well.
	Reader int
}

// Reader is the newest form of journal rows that this release reads. A run's
// min_reader rises with the rows that are written to it; a release whose Reader
// is lower leaves the run to a newer one. A release reads a form before the next
// one writes it.
const Reader = 3

// ReaderOf is the oldest reader that understands a row of the kind, and one more
// than Reader for a kind that this release does not know.
func ReaderOf(kind string) int {
	for _, k := range Facts() {
		if k.Kind == kind {
			return max(k.Reader, 1)
		}
	}
	return Reader + 1
}

// Facts lists every kind of journal row.
func Facts() []FactKind {
	return []FactKind{
		{Kind: FactStarted, Doc: "The run exists, and what it executes is pinned.", New: body[RunStarted]},
		{Kind: FactModelAnswered, Doc: "The model answered, and each tool call of the answer was given a route.", New: body[ModelAnswered]},
		{Kind: FactModelFailed, Doc: "A model call gave no answer.", New: body[ModelFailed]},
		{Kind: FactToolCompleted, Doc: "A tool call is finished, in doubt or settled.", New: body[ToolCompleted]},
		{Kind: FactApprovalDecided, Doc: "A question to a person has ended; with args, the call is made as the person changed it.", New: body[ApprovalDecision]},
		{Kind: FactChildrenStarted, Doc: "A window of child runs was started for one step of a flow.", New: body[ChildrenStarted]},
		{Kind: FactChildCompleted, Doc: "A child run has ended.", New: body[ChildCompleted]},
		{Kind: FactItemsStarted, Doc: "Items of a flow step began: calls, questions or sleeps, or of any step items that failed before.", New: body[ItemsStarted]},
		{Kind: FactStepSkipped, Doc: "The condition of a flow step did not hold, so it is over without an item.", New: body[StepSkipped]},
		{Kind: FactItemRetried, Doc: "A failed item of a flow step will be started again at a time.", New: body[ItemRetried]},
		{Kind: FactItemsKept, Doc: "A run that retries another one of its flow took over what was finished of a step.", New: body[ItemsKept]},
		{Kind: FactTimerFired, Doc: "A timer of the run fell due.", New: body[TimerFired]},
		{Kind: FactSignalReceived, Doc: "Data came from outside, and is kept until a call takes it.", New: body[Signal]},
		{Kind: FactSignalTaken, Doc: "A call that waited for a signal has it as its result.", New: body[SignalTaken]},
		{Kind: FactPlanChanged, Doc: "A call of the model wrote, changed or read the run's plan, and has its result.", New: body[PlanChanged]},
		{Kind: FactFactsChanged, Doc: "A call of the model wrote, removed or read facts that the run keeps by name, and has its result.", New: body[FactsChanged]},
		{Kind: FactSleepStarted, Doc: "A call sleeps until a time, or finds that it has passed.", New: body[SleepStarted]},
		{Kind: FactTurnAwaited, Doc: "The next model call waits for its turn under the limits of its model.", New: body[TurnAwaited], Reader: 2},
		{Kind: FactChildStarted, Doc: "A call starts a child run.", New: body[ChildStarted]},
		{Kind: FactQuestionAsked, Doc: "A call asks a person, whose answer is its result.", New: body[QuestionAsked]},
		{Kind: FactOutputRejected, Doc: "A final answer is not what the agent's output has to be; the model corrects it, or the run fails.", New: body[OutputRejected], Reader: 3},
		{Kind: FactCompactionStarted, Doc: "The conversation is too long: the model is asked to summarize what is old of it.", New: body[CompactionStarted], Reader: 3},
		{Kind: FactContextCompacted, Doc: "A summary stands for the old answers in every later request; the rows stay as they are.", New: body[ContextCompacted], Reader: 3},
		{Kind: FactCancelRequested, Doc: "Somebody cancelled the run; what had not begun is taken back.", New: body[Cancelling]},
		{Kind: FactPaused, Doc: "The run stands still: an operator or a budget holds it.", New: body[Paused]},
		{Kind: FactResumed, Doc: "The pause is over.", New: body[Resumed]},
		{Kind: FactBudgetRaised, Doc: "A ceiling was lifted.", New: body[Raised]},
		{Kind: FactAttention, Doc: "The run is parked until a person looks.", New: body[Ending]},
		{Kind: FactCompleted, Doc: "The run ended well.", New: body[Ending]},
		{Kind: FactFailed, Doc: "The run ended with an error.", New: body[Ending]},
		{Kind: FactCancelled, Doc: "The run ended because it was cancelled.", New: body[Ending]},
		{Kind: FactExpired, Doc: "The run ended because its time was over.", New: body[Ending]},
		{Kind: FactCallback, Doc: "The ledger is done with the call that posts the run's end; the end stays as it is.", New: body[ToolCompleted]},
		{Kind: FactForked, Doc: "The rows before this one are another run's, and the run goes on from them, with these edits.", New: body[Forked], Reader: 2},
		{Kind: FactMessage, Doc: "Somebody said something to the model, which reads it in its next request.", New: body[SayRun], Reader: 3},
		{Kind: FactDeadline, Doc: "The deadline of the run passed; what had not begun is taken back, and the run expires.", New: body[Expiring], Reader: 3},
		{Kind: FactMigrationOrdered, Doc: "Somebody ordered that the run goes on under another version of its agent; the order waits until no call is open and the model is not answering.", New: body[Migration], Reader: 3},
		{Kind: FactMigrated, Doc: "From here on the run executes another version of its agent; the rows before stay as they are.", New: body[Migrated], Reader: 3},
		{Kind: FactMigrationRefused, Doc: "The order to move the run to another version is not carried out; the run goes on as it was.", New: body[MigrationRefused], Reader: 3},
		{Kind: FactSlotsAwaited, Doc: "The run waits until others under its concurrency keys have ended.", New: body[SlotsAwaited], Reader: 3},
		{Kind: FactSlotsTaken, Doc: "The run has its place under all of its concurrency keys, until it ends.", New: body[SlotsTaken], Reader: 3},
		{Kind: FactLateResult, Doc: "Something arrived after the end, or behind what was ordered later, and changed nothing.", New: body[LateResult]},
	}
}

func body[T any]() any { return new(T) }
