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
		{TypeStepRun, StreamRuns, []string{"hf.run.<run id>.step"}, "step:<run id>:<seq>:<epoch>", "runner", "runner", body[StepRun]},
		{TypeCallTool, StreamTools, []string{"hf.tool.<pool>.<call id>"}, "call:<call id>", "runner, tools", "tools", body[CallTool]},
		{TypeControlTool, StreamTools, []string{"hf.toolctl.<call id>"}, "settle:<approval id> or revoke:<call id>", "runner", "tools", body[ControlTool]},
		{TypeToolCompleted, StreamRuns, []string{"hf.run.<run id>.tool_completed"}, "tool:<call id>:<status>:<epoch>", "tools", "runner", body[ToolCompleted]},
		{TypeAskApproval, StreamApprovals, []string{"hf.approval.<approval id>.ask"}, "ask:<approval id>", "runner", "approvals", body[AskApproval]},
		{TypeWithdraw, StreamApprovals, []string{"hf.approval.<approval id>.withdraw"}, "withdraw:<approval id>", "runner", "approvals", body[WithdrawApproval]},
		{TypeApprovalDecided, StreamRuns, []string{"hf.run.<run id>.approval_decided"}, "decision:<approval id>", "approvals", "runner", body[ApprovalDecision]},
		{TypeChildCompleted, StreamRuns, []string{"hf.run.<parent run id>.child_completed"}, "child:<child run id>", "runner", "runner", body[ChildCompleted]},
		{TypeTimerFired, StreamRuns, []string{"hf.run.<run id>.timer_fired"}, "timer:<run id>:<timer>", "runner", "runner", body[TimerFired]},
		{TypeCommandRun, StreamRuns, []string{"hf.run.<run id>.cancel", "hf.run.<run id>.pause", "hf.run.<run id>.resume", "hf.run.<run id>.raise_budget"}, "command:<command id>", "console, runner", "runner", body[Command]},
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
}

// Facts lists every kind of journal row.
func Facts() []FactKind {
	return []FactKind{
		{FactStarted, "The run exists, and what it executes is pinned.", body[RunStarted]},
		{FactModelAnswered, "The model answered, and each tool call of the answer was given a route.", body[ModelAnswered]},
		{FactModelFailed, "A model call gave no answer.", body[ModelFailed]},
		{FactToolCompleted, "A tool call is finished, in doubt or settled.", body[ToolCompleted]},
		{FactApprovalDecided, "A question to a person has ended.", body[ApprovalDecision]},
		{FactChildrenStarted, "A window of child runs was started for one step of a flow.", body[ChildrenStarted]},
		{FactChildCompleted, "A child run has ended.", body[ChildCompleted]},
		{FactTimerFired, "A timer of the run fell due.", body[TimerFired]},
		{FactSignalReceived, "Data came from outside, and is kept until a call takes it.", body[Signal]},
		{FactSignalTaken, "A call that waited for a signal has it as its result.", body[SignalTaken]},
		{FactPlanChanged, "A call of the model wrote, changed or read the run's plan, and has its result.", body[PlanChanged]},
		{FactFactsChanged, "A call of the model wrote, removed or read facts that the run keeps by name, and has its result.", body[FactsChanged]},
		{FactSleepStarted, "A call sleeps until a time, or finds that it has passed.", body[SleepStarted]},
		{FactChildStarted, "A call starts a child run.", body[ChildStarted]},
		{FactQuestionAsked, "A call asks a person, whose answer is its result.", body[QuestionAsked]},
		{FactCancelRequested, "Somebody cancelled the run; what had not begun is taken back.", body[Cancelling]},
		{FactPaused, "The run stands still: an operator or a budget holds it.", body[Paused]},
		{FactResumed, "The pause is over.", body[Resumed]},
		{FactBudgetRaised, "A ceiling was lifted.", body[Raised]},
		{FactAttention, "The run is parked until a person looks.", body[Ending]},
		{FactCompleted, "The run ended well.", body[Ending]},
		{FactFailed, "The run ended with an error.", body[Ending]},
		{FactCancelled, "The run ended because it was cancelled.", body[Ending]},
		{FactExpired, "The run ended because its time was over.", body[Ending]},
		{FactCallback, "The ledger is done with the call that posts the run's end; the end stays as it is.", body[ToolCompleted]},
		{FactLateResult, "Something arrived after the end, and changed nothing.", body[LateResult]},
	}
}

func body[T any]() any { return new(T) }
