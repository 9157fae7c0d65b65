package runner

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Plan is the pinned definitions of a run: what its first row names by digest.
type Plan struct {
	Agent *spec.Agent
	Model *spec.Model
	// ModelName is the name of Model's document.
	ModelName string
	// Fallbacks are the models that may go on where Model fails, in order.
	Fallbacks []NamedModel
	Tools     map[string]*spec.Tool
	Flow      *spec.Flow
	Pools     []Pool
	// Starts is what the tools may start, by kind and name.
	Starts map[string]Startable
	// Next is what an order that waits moves the run to; nil without one.
	Next *Plan
}

// Pool is a shared budget that an agent draws on.
type Pool struct {
	Name   string
	Budget *spec.Budget
	Fixed  bool // of a flow: no definition changes it
}

// Stop reasons, in the words of Anthropic's Messages API, to which every
// provider's adapter maps its own. One that is not known comes as it is.
const (
	StopEnd      = "end_turn"
	StopSequence = "stop_sequence"
	StopTools    = "tool_use"
	StopLength   = "max_tokens"
	StopPause    = "pause_turn"
	StopRefusal  = "refusal"
	StopWindow   = "model_context_window_exceeded"
)

// Answer is what a model said, as its adapter read it.
type Answer struct {
	Model      string
	RequestID  string
	Raw        string // the provider's answer, byte for byte
	StopReason string
	Text       string
	Calls      []ModelCall
	// Bound says that the answer holds what only its own model can take back:
	// signed or encrypted reasoning.
	Bound    bool
	Messages int // that the request had, see State.Messages
	Usage    events.Usage
	Duration time.Duration
	Room     *CallRoom // what shared budgets of tool calls leave; nil: they say nothing
	MayBegin *int64    // how many runs its calls may start, see decision
}

// ModelCall is one tool call as the model wrote it.
type ModelCall struct {
	ProviderID string
	Tool       string
	Args       json.RawMessage // may be malformed
}

// Claimed says under which claim a model call was made.
type Claimed struct {
	Cause  string // the message that the claim belongs to
	Worker string
	Epoch  int64
}

// DecideAnswer says what an answer adds to a run. It is pure. An answer that
// lost its race against a pause, a cancel or an end is recorded with its cost
// and none of its calls is sent.
func DecideAnswer(s *State, plan *Plan, a Answer, by Claimed, now time.Time) (Decision, error) {
	d := &decision{state: s.Clone(), cause: by.Cause, worker: by.Worker, now: now, mayBegin: a.MayBegin}
	body := events.ModelAnswered{
		Model: a.Model, RequestID: a.RequestID, Raw: a.Raw, StopReason: a.StopReason, Text: a.Text, Usage: a.Usage,
		Worker: by.Worker, Epoch: by.Epoch, DurationMs: a.Duration.Milliseconds(), Bound: a.Bound, Messages: a.Messages,
	}
	if m := plan.answering(s); m.Model != nil {
		body.ModelName, body.CostMicroUSD = m.Name, Cost(m.Prices, a.Usage)
	}
	if s.End != "" {
		err := d.add(events.FactLateResult, events.LateResult{Type: events.FactModelAnswered, Data: mustJSON(body)}, false)
		return Decision{Facts: d.facts, State: d.state}, err
	}
	if err := d.expire(); err != nil { // its calls would begin too late
		return Decision{}, err
	}
	s = d.state
	begun := s.ToolCalls
	for i, call := range a.Calls {
		asked := s.judgeCall(plan, a, call, i, begun)
		if asked.Route == events.RouteSend && countsAsCall(plan.Tools[call.Tool].Builtin) {
			begun++
		}
		body.Calls = append(body.Calls, asked)
	}
	s.recall(plan, body.Calls)
	facts := spec.GateCase{Run: s.approvalRun(a, begun, body.CostMicroUSD), Now: now}
	for i := range body.Calls {
		if !s.awaits(plan, &body.Calls[i], now) {
			s.gate(plan, &body.Calls[i], facts)
		}
	}
	body.Left = s.left(plan, body, now)
	if err := d.add(events.FactModelAnswered, body, false); err != nil {
		return Decision{}, err
	}
	if err := d.advance(plan); err != nil {
		return Decision{}, err
	}
	return Decision{Facts: d.facts, State: d.state, Plan: d.plan}, nil
}

// judgeCall decides whether call number index of an answer is made at all.
// begun counts the tool calls that the run has begun, those before this one
// included.
func (s *State) judgeCall(plan *Plan, a Answer, call ModelCall, index int, begun int64) events.AskedCall {
	seq := s.Seq + 1
	asked := events.AskedCall{CallID: events.NewCallID(s.RunID, seq, index), ProviderID: call.ProviderID, Tool: call.Tool, Route: events.RouteAnswer}
	refuse := func(code, format string, args ...any) events.AskedCall {
		asked.Problem = &events.Problem{Code: code, Message: fmt.Sprintf(format, args...)}
		return asked
	}
	if len(call.Tool) > 200 {
		asked.Tool = strings.ToValidUTF8(call.Tool[:200], "")
	}
	if index >= maxCalls {
		return refuse("too_many_calls", "at most %d calls of one answer are made and this is number %d; ask for it again in your next", maxCalls, index+1)
	}
	switch a.StopReason {
	case StopEnd, StopSequence, StopTools, StopPause:
	case StopLength:
		return refuse("truncated", "the answer was cut at the output limit, so this call was not made; ask for less at once")
	default:
		return refuse("not_made", "the answer ended with %.80q, so this call was not made", a.StopReason)
	}
	if s.Repairing {
		return refuse(codeOutput, "only the final answer can be corrected now; nothing was called")
	}
	tool, ok := plan.Tools[call.Tool]
	if !ok {
		return refuse("unknown_tool", "there is no tool %q; the tools are: %s", asked.Tool, strings.Join(s.toolNames(), ", "))
	}
	args, err := events.Canonical(call.Args)
	if err != nil {
		return refuse("malformed_arguments", "the arguments are not usable JSON (%v); nothing was called%s", err, schemaHint(tool))
	}
	if !strings.HasPrefix(string(args), "{") {
		return refuse("malformed_arguments", "the arguments must be a JSON object; nothing was called%s", schemaHint(tool))
	}
	if bad := tool.CheckAsked(args); len(bad) > 0 {
		return refuse("invalid_arguments", "the arguments break the schema of %s: %s; nothing was called%s", call.Tool, violations(bad), schemaHint(tool))
	}
	if own := tool.AnsweredByRunner(); own != nil {
		if bad := own.Input().Validate(args); len(bad) > 0 {
			return refuse("invalid_arguments", "the arguments break the schema of %s: %s; nothing was changed", call.Tool, violations(bad))
		}
	}
	asked.Args, asked.ArgsDigest = args, events.DigestOf(args)
	if s.Cancel != nil {
		return refuse("cancelled", "the run was cancelled before this call began")
	}
	if why := s.noCallsLeft(plan, a, begun); why != "" && countsAsCall(tool.Builtin) {
		return refuse("budget", "%s; this call was not made. Finish with what you have", why)
	}
	asked.Route = events.RouteSend
	return asked
}

// gate sends a call that is made to a person first when its tool's policy says
// so, holds it back while the run is paused, and keeps what the runner answers
// itself.
func (s *State) gate(plan *Plan, asked *events.AskedCall, facts spec.GateCase) {
	if asked.Route != events.RouteSend {
		return
	}
	plan.keepHere(asked)
	tool := plan.Tools[asked.Tool]
	if asked.Rule != events.RuleRecall && s.Guarded && changes(tool) {
		asked.Rule = events.RuleFork
	}
	facts.Args, facts.Fork = asked.Args, asked.Rule == events.RuleFork
	g := tool.Gate(plan.asking(), facts)
	// What a person changed or refused before is asked about again, whatever the conditions
	// say, until it was refused often enough; a recall begins nothing.
	refused, _ := s.refusals(asked.Tool, asked.ArgsDigest, s.Seq+1)
	if (g.Ask || s.changedBefore(*asked) != nil || refused > 0) && asked.Rule != events.RuleRecall {
		if asked.Problem = s.refusedBefore(asked); asked.Problem != nil {
			asked.Route = events.RouteAnswer
			return
		}
		asked.Route = events.RouteAsk
		asked.ApprovalID = events.NewApprovalID(asked.CallID, "a", s.Seq+1)
		asked.Bind = events.BindDigest(asked.Tool, s.toolDigest(asked.Tool), asked.ArgsDigest, g.Policy)
	}
	if s.Pause != nil && heldBack(asked) {
		asked.Route = events.RouteHold
	}
}

// schemaHint repeats what a tool's arguments must be, within a limit.
func schemaHint(tool *spec.Tool) string {
	if raw := tool.AskedInput().JSON(); raw != nil && len(raw) <= 2000 {
		return ". The schema is " + string(raw)
	}
	return ""
}

func violations(bad []spec.Violation) string {
	var parts []string
	for _, v := range bad[:min(len(bad), 5)] {
		parts = append(parts, v.Path+" "+v.Message)
	}
	return strings.Join(parts, "; ")
}

func (s *State) toolNames() []string {
	var names []string
	for _, t := range s.Started.Tools {
		names = append(names, t.Name)
	}
	return names
}

func (s *State) toolDigest(name string) events.Digest {
	for _, t := range s.Started.Tools {
		if t.Name == name {
			return t.Digest
		}
	}
	return ""
}

// approvalRun is what an approval condition may read of the run: its counts
// with this answer, as they stand in its row when the calls are made, so that
// the ledger judges by the same.
func (s *State) approvalRun(a Answer, toolCalls, cost int64) *spec.RunFacts {
	return &spec.RunFacts{
		ID: string(s.RunID), Namespace: s.Namespace, Agent: s.Started.Ref.Name, Labels: s.Started.Labels, Input: s.Started.Input,
		Trigger: s.Started.Trigger, Principal: s.Started.Principal, ModelCalls: s.ModelCalls + 1, ToolCalls: toolCalls, Tokens: s.Usage.Total() + a.Usage.Total(),
		Cost: s.Cost + cost,
	}
}

// advanceAgent adds what follows for an agent's run: its end after a last
// answer, or a pause when a ceiling is reached.
func (d *decision) advanceAgent(plan *Plan) (more bool, err error) {
	s := d.state
	fail := func(p *events.Problem) error { return d.add(events.FactFailed, events.Ending{Error: p}, false) }
	output, judged, err := d.judgeOutput(plan)
	if judged || err != nil {
		return s.End == "", err
	}
	if s.OwesModelCall() {
		if stuck := s.stuck(); stuck != nil {
			return false, fail(stuck)
		}
		if started, err := d.compact(plan); started || err != nil {
			return started, err
		}
		return false, d.checkCeilings(plan)
	}
	if s.Retry != nil || s.blocked() || len(s.Turns) == 0 {
		return false, nil
	}
	last := s.Turns[len(s.Turns)-1].Answer
	if end := s.outcome(last); end != nil {
		if end.Code == CodeContextWindow {
			if started, err := d.squeeze(plan); started || err != nil {
				return started, err
			}
		}
		return false, fail(end)
	}
	switch last.StopReason {
	case StopEnd, StopSequence, StopTools:
		if output == nil {
			output = mustJSON(last.Text)
		}
		return false, d.add(events.FactCompleted, events.Ending{Output: output}, false)
	}
	return false, d.add(events.FactAttention, events.Ending{Error: &events.Problem{Code: "stop_reason",
		Message: fmt.Sprintf("the model stopped for a reason this release does not know: %.80q", last.StopReason)}}, false)
}

// CodeContextWindow is the ModelError of a request that does not fit the model's
// context window: the same request never will.
const CodeContextWindow = "context_window"

// ModelError is a model call that gave no answer.
type ModelError struct {
	Code       string // the provider's word for it, or "timeout", "connection", "auth", CodeContextWindow …
	Retry      bool   // another attempt may succeed
	RetryAfter time.Duration
	// Begun says that the provider had begun to answer, and Seen how many bytes of
	// text had come: it bills that. Unknown says that it may have.
	Begun, Unknown bool
	Seen           int
	Usage          *events.Usage // what it is taken to bill; filled in by the runner
	Unasked        bool          // no request left: it is no attempt
	Err            error
}

func (e *ModelError) Error() string { return e.Code + ": " + e.Err.Error() }
func (e *ModelError) Unwrap() error { return e.Err }

// maxModelFailures is how many attempts of one model call may fail in a row.
const maxModelFailures = 8

// DecideFailure says what a failed model call adds to a run: a timer for the
// next attempt, or a stop that an operator can end.
func DecideFailure(s *State, plan *Plan, e *ModelError, by Claimed, now time.Time) (Decision, error) {
	d := &decision{state: s.Clone(), cause: by.Cause, worker: by.Worker, now: now}
	body := events.ModelFailed{Problem: events.Problem{Code: e.Code, Message: clip(e.Err.Error(), 500)}, Attempt: s.Failures + 1, Worker: by.Worker, Epoch: by.Epoch}
	if body.Usage, body.Unbilled = e.Usage, e.Usage == nil; body.Usage != nil {
		m := plan.answering(s)
		body.ModelName, body.CostMicroUSD = m.Name, Cost(m.prices(), *e.Usage)
	}
	if e.Unasked {
		body.Attempt, body.Unasked = s.Failures, true
	}
	if s.End != "" {
		err := d.add(events.FactLateResult, events.LateResult{Type: events.FactModelFailed, Data: mustJSON(body)}, false)
		return Decision{Facts: d.facts, State: d.state}, err
	}
	most := maxModelFailures
	if e.Code == codeSummary {
		most = maxSummaries
	}
	again := e.Retry && body.Attempt < most && s.Cancel == nil
	if next := plan.fallback(s, e, body.Attempt); next != "" && s.Cancel == nil {
		body.NextModel, again = next, true
	} else if again {
		at := now.Add(backoff(s, e.RetryAfter)).Truncate(time.Microsecond)
		body.RetryAt = &at
	}
	if err := d.add(events.FactModelFailed, body, false); err != nil {
		return Decision{}, err
	}
	plan, err := d.moveOn(plan) // the new version asks at once, whatever the old one failed of
	if err != nil {
		return Decision{}, err
	}
	switch {
	case again || d.state.Cancel != nil || d.plan != nil:
	case e.Code == CodeContextWindow:
		if started, err := d.squeeze(plan); err != nil {
			return Decision{}, err
		} else if started {
			break
		}
		if err := d.add(events.FactFailed, events.Ending{Error: s.overflow(body.Problem.Message)}, false); err != nil {
			return Decision{}, err
		}
	default:
		if err := d.add(events.FactAttention, events.Ending{Error: &events.Problem{Code: e.Code, Message: fmt.Sprintf(
			"the model call failed (attempt %d, %s); mend the cause, then: holdfast runs resume %s", body.Attempt, e.Code, s.RunID)}}, false); err != nil {
			return Decision{}, err
		}
	}
	err = d.advance(plan)
	return Decision{Facts: d.facts, State: d.state, Plan: d.plan}, err
}

// backoff is 1 s doubling to 60 s, at least the provider's hint and at most
// 10 minutes, plus up to a quarter that depends on run and row, so that many
// runs do not come back at once and the same row decides the same time.
func backoff(s *State, hint time.Duration) time.Duration {
	wait := min(time.Second<<min(s.Failures, 6), time.Minute)
	wait = min(max(wait, hint), 10*time.Minute)
	h := fnv.New32a()
	fmt.Fprintf(h, "%s/%d", s.RunID, s.Seq)
	return wait + wait/4*time.Duration(h.Sum32()%1000)/1000
}

// Park stops a run that keeps losing its workers.
func Park(s *State, p events.Problem, by Claimed, now time.Time) (Decision, error) {
	d := &decision{state: s.Clone(), cause: by.Cause, worker: by.Worker, now: now}
	if s.End != "" {
		return Decision{State: s}, nil
	}
	err := d.add(events.FactAttention, events.Ending{Error: &p}, false)
	return Decision{Facts: d.facts, State: d.state}, err
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// CallsInOrder lists the calls of turn i as the model wrote them.
func (s *State) CallsInOrder(i int) []*Call {
	var out []*Call
	for _, asked := range s.Turns[i].Answer.Calls {
		c, _ := s.call(asked.CallID)
		out = append(out, c)
	}
	return slices.Clip(out)
}
