package runner

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

const source = "/services/runner"

// Outgoing lists what one row says must go out, its event first. It is a pure
// function of the row and of the rows before it, so a redelivery repeats it
// exactly: nothing is minted here.
func Outgoing(s *State, plan *Plan, f Fact) ([]events.Message, error) {
	o := &outbox{s: s, plan: plan, f: f}
	o.event()
	err := o.commands()
	return o.out, err
}

type outbox struct {
	s    *State
	plan *Plan
	f    Fact
	out  []events.Message
}

func (o *outbox) put(subject, id, typ, about string, body any) {
	o.out = append(o.out, events.Message{
		Subject: subject, MsgID: id, ID: id, Source: source, Type: typ, About: about,
		Time: o.f.At, Namespace: o.s.Namespace, Data: mustJSON(body),
	})
}

func (o *outbox) event() {
	id := fmt.Sprintf("%s:%d", o.s.RunID, o.f.Seq)
	o.put(events.RunEventSubject(o.s.RunID), id, events.TypeRunEvent, string(o.s.RunID), onBus(EventOf(o.s.RunID, o.s.Namespace, o.f)))
}

// onBus leaves out a body that is too large for a message: whoever needs it
// reads the run's events.
func onBus(e events.RunEvent) events.RunEvent {
	if len(e.Data) > events.MaxInline {
		e.Data, e.Elided = json.RawMessage("null"), int64(len(e.Data))
	}
	return e
}

// EventOf is the event of a row: the row itself, in public form.
func EventOf(run events.RunID, namespace string, f Fact) events.RunEvent {
	return events.RunEvent{RunID: run, Namespace: namespace, Seq: f.Seq, Kind: f.Kind, Status: f.Status, At: f.At.UTC(), Cause: f.Cause, Worker: f.Worker, Data: f.Data}
}

func (o *outbox) commands() error {
	if o.s.copied(o.f.Seq) {
		return nil // another run said it
	}
	switch o.f.Kind {
	case events.FactModelAnswered:
		return decodeInto(o.f, func(a events.ModelAnswered) error { o.calls(a.Calls); return nil })
	case events.FactResumed:
		return decodeInto(o.f, func(r events.Resumed) error { o.calls(r.Release); return nil })
	case events.FactBudgetRaised:
		return decodeInto(o.f, func(r events.Raised) error { o.calls(r.Release); o.passOn(r); return nil })
	case events.FactToolCompleted:
		return decodeInto(o.f, o.toolCompleted)
	case events.FactApprovalDecided:
		if o.s.behind(o.f.Seq) {
			return nil
		}
		return decodeInto(o.f, o.decided)
	case events.FactChildrenStarted:
		return decodeInto(o.f, func(c events.ChildrenStarted) error {
			for _, child := range c.Children {
				o.startChild(child)
			}
			return nil
		})
	case events.FactItemsStarted:
		return decodeInto(o.f, func(b events.ItemsStarted) error { o.items(b); return nil })
	case events.FactChildStarted:
		return decodeInto(o.f, func(c events.ChildStarted) error { o.startChild(c.Child); return nil })
	case events.FactQuestionAsked:
		if o.s.behind(o.f.Seq) {
			return nil
		}
		return decodeInto(o.f, o.askQuestion)
	case events.FactDeadline:
		return decodeInto(o.f, func(e events.Expiring) error { o.takeBack(e.Cancelling); return nil })
	case events.FactCancelRequested:
		return decodeInto(o.f, func(c events.Cancelling) error { o.takeBack(c); return nil })
	case events.FactCompleted, events.FactFailed, events.FactCancelled, events.FactExpired:
		return decodeInto(o.f, func(e events.Ending) error { o.ended(e); return nil })
	}
	return nil
}

func (o *outbox) calls(calls []events.AskedCall) {
	if o.s.behind(o.f.Seq) {
		return
	}
	for _, c := range calls {
		switch c.Route {
		case events.RouteSend:
			o.send(c, nil)
		case events.RouteAsk:
			o.ask(c)
		}
	}
}

func (o *outbox) send(c events.AskedCall, yes *events.Approved) {
	body := callTool(o.s, c, yes)
	o.put(events.ToolSubject(o.pool(c.Tool), c.CallID), "call:"+string(c.CallID), events.TypeCallTool, string(c.CallID), body)
}

// callTool is the command for one call; its key comes from run, answer row,
// index and tool, never from the model or the attempt.
func callTool(s *State, c events.AskedCall, yes *events.Approved) events.CallTool {
	call := events.CallTool{
		CallID: c.CallID, RunID: s.RunID, Namespace: s.Namespace, Tool: c.Tool, ToolDigest: s.toolDigest(c.Tool),
		Args: c.Args, ArgsDigest: c.ArgsDigest, Key: callKey(s.RunID, c), Approval: yes, Rule: c.Rule,
	}
	if c.Recalls != nil {
		call.Key = c.Recalls.Key
	}
	return call
}

func callKey(run events.RunID, c events.AskedCall) string {
	seq, index, _ := strings.Cut(string(c.CallID)[len(run)+1:], "-")
	return fmt.Sprintf("%s/%s/%s/%s", run, seq, index, c.Tool)
}

func (o *outbox) pool(tool string) string {
	if t, ok := o.plan.Tools[tool]; ok && t.Pool != "" {
		return t.Pool
	}
	return "default"
}

func (o *outbox) ask(c events.AskedCall) {
	body := events.AskApproval{
		ApprovalID: c.ApprovalID, Kind: events.ApprovalAction, RunID: o.s.RunID, CallID: c.CallID, Namespace: o.s.Namespace,
		Agent: o.s.Started.Ref.Name, Tool: c.Tool, ToolDigest: o.s.toolDigest(c.Tool), Args: c.Args, Digest: c.Bind,
		Summary: fmt.Sprintf("%s wants to call %s", o.s.Started.Ref.Name, c.Tool), Labels: o.s.Started.Labels, Channel: o.plan.asksIn(),
		Requester: o.s.Started.Principal, Rule: o.plan.ruleOf(c),
	}
	if c.Rule == events.RuleFork {
		body.ForkOf = o.s.Started.Origin.RunID
		body.Summary = fmt.Sprintf("%s, in a fork of run %s, wants to call %s", o.s.Started.Ref.Name, o.s.Started.Origin.RunID, c.Tool)
	}
	if e := o.s.changedBefore(c); e != nil && len(body.Rule.FormOf()) == 0 { // who fills in a form is asked every time
		body.Summary += fmt.Sprintf(" just as it was before %s changed it", e.By)
	}
	if _, r := o.s.refusals(c.Tool, c.ArgsDigest, c.CallID.Row()); r != nil {
		body.Summary += fmt.Sprintf(", which %s rejected before", r.By)
	}
	if t, ok := o.plan.Tools[c.Tool]; ok {
		body.ExpiresAfterMs = t.ApprovalExpiresAfter.Std().Milliseconds()
		body.ValidForMs = t.ApprovalValidFor.Std().Milliseconds()
		body.Preview, _ = t.PreviewOf(c.Args) // what cannot be previewed is asked with its arguments alone
		if text := o.plan.asking().PolicyText(t, c.Rule == events.RuleFork); text != t.Approval.String() && text != events.RuleFork {
			body.Policy = text
		}
	}
	if c.Step != nil && c.Step.Question != "" {
		body.Summary, body.ToolDigest, body.ExpiresAfterMs = c.Step.Question, o.s.Started.Ref.Digest, c.Step.ExpiresAfterMs
	}
	o.put(events.ApprovalSubject(c.ApprovalID, events.ApprovalAsk), "ask:"+string(c.ApprovalID), events.TypeAskApproval, string(c.ApprovalID), body)
}

// askDoubt asks a person whether an unknown call happened.
func (o *outbox) askDoubt(c *Call, id events.ApprovalID, t events.ToolCompleted) {
	body := events.AskApproval{
		ApprovalID: id, Kind: events.ApprovalDoubt, RunID: o.s.RunID, CallID: c.CallID, Namespace: o.s.Namespace,
		Agent: o.s.Started.Ref.Name, Tool: c.Tool, ToolDigest: o.s.toolDigest(c.Tool), Args: c.Args,
		Digest: events.BindDigest(c.Tool, o.s.toolDigest(c.Tool), c.ArgsDigest, "doubt"), Epoch: t.Epoch, Key: t.Key,
		Summary: fmt.Sprintf("did %s happen? Its worker was lost after the call was sent", c.Tool), Labels: o.s.Started.Labels, Channel: o.plan.asksIn(),
		Requester: o.s.Started.Principal, Rule: o.plan.ruleOf(c.AskedCall),
	}
	o.put(events.ApprovalSubject(id, events.ApprovalAsk), "ask:"+string(id), events.TypeAskApproval, string(id), body)
}

func (o *outbox) toolCompleted(t events.ToolCompleted) error {
	c, ok := o.s.call(t.CallID)
	if !ok {
		return fmt.Errorf("call %s was never asked", t.CallID)
	}
	if t.Status == events.CallUnknown && t.InDoubt == "ask" && t.Settled == "" {
		if id := events.NewApprovalID(t.CallID, "d", o.f.Seq); slices.Contains(c.Doubts, id) && !o.s.behind(o.f.Seq) {
			o.askDoubt(c, id, t)
		}
		return nil
	}
	for _, id := range c.Doubts { // settled by a late outcome or at the ledger's door
		o.withdraw(id, "the outcome is known: "+t.Status)
	}
	return nil
}

func (o *outbox) withdraw(id events.ApprovalID, reason string) {
	o.put(events.ApprovalSubject(id, events.ApprovalWithdraw), "withdraw:"+string(id), events.TypeWithdraw, string(id),
		events.WithdrawApproval{ApprovalID: id, RunID: o.s.RunID, Reason: reason})
}

func (o *outbox) decided(d events.ApprovalDecision) error {
	c, ok := o.s.call(d.CallID)
	if !ok {
		return fmt.Errorf("call %s was never asked", d.CallID)
	}
	switch {
	case d.Kind == events.ApprovalAction && d.Decision == events.Approve && (c.Builtin != "" || c.onlyAsks()):
		return nil // answered by the row behind this one, or by this one
	case d.Kind == events.ApprovalAction && d.Decision == events.Approve:
		o.send(c.AskedCall, approvedBy(d))
	case d.Kind == events.ApprovalDoubt && (d.Decision == events.Happened || d.Decision == events.NotHappened || d.Decision == events.GiveUp):
		o.put(events.ToolControlSubject(c.CallID), "settle:"+string(d.ApprovalID), events.TypeControlTool, string(c.CallID), settle(c, d))
	}
	return nil
}

func approvedBy(d events.ApprovalDecision) *events.Approved {
	return &events.Approved{ID: d.ApprovalID, Digest: d.Digest, By: d.By, At: d.DecidedAt, ValidUntil: d.ValidUntil}
}

func settle(c *Call, d events.ApprovalDecision) events.ControlTool {
	m := events.ControlTool{CallID: c.CallID, RunID: d.RunID, Action: events.ControlSettle, Verdict: d.Decision, Result: d.Result, By: d.By, Reason: d.Comment}
	if c.Done != nil {
		m.Epoch = c.Done.Epoch // the verdict is about that attempt and no later one
	}
	return m
}

func (o *outbox) startChild(c events.Child) {
	o.put(events.RunSubject(c.RunID, events.RunStart), "start:"+string(c.RunID), events.TypeStartRun, string(c.RunID), o.childStart(c))
}

func (o *outbox) childStart(c events.Child) events.StartRun {
	return events.StartRun{
		RunID: c.RunID, Namespace: o.s.Namespace, Ref: c.Ref, Input: c.Input, Labels: o.s.Started.Labels,
		Trigger: events.Trigger{Kind: "child", Name: o.s.Started.Ref.Name, ID: c.Item}, Principal: o.s.Started.Principal,
		Parent: &events.Parent{RunID: o.s.RunID, Item: c.Item, Depth: o.s.depth() + 1, Root: o.s.rootAbove(), Priority: o.s.priorityFor(o.plan, c.Item), Holds: o.s.holds(), Shared: o.s.sharedCeilings(o.plan), Bounds: o.s.bounds(o.plan)}, AcceptedAt: o.f.At, Deadline: o.s.deadlineFor(),
	}
}

func (o *outbox) takeBack(c events.Cancelling) {
	for _, id := range c.Revoke {
		o.put(events.ToolControlSubject(id), "revoke:"+string(id), events.TypeControlTool, string(id),
			events.ControlTool{CallID: id, RunID: o.s.RunID, Action: events.ControlRevoke, By: c.Principal, Reason: c.Reason})
	}
	for _, id := range c.Withdraw {
		o.withdraw(id, withdrawnBy(c))
	}
	for _, child := range c.Children {
		o.cancelChild(child, c.Principal, o.s.parentStopped())
	}
}

func (o *outbox) cancelChild(child events.RunID, principal, reason string) {
	id := fmt.Sprintf("%s-%d-%s", o.s.RunID, o.f.Seq, child)
	o.put(events.RunSubject(child, events.RunCancel), "command:"+id, events.TypeCommandRun, string(child),
		events.Command{ID: id, RunID: child, Principal: principal, Reason: reason})
}

func (o *outbox) ended(e events.Ending) {
	for _, item := range o.s.openItems() {
		if item.Detached && o.s.Cancel == nil {
			continue // it goes on by itself
		}
		o.cancelChild(item.RunID, "run "+string(o.s.RunID), "its parent ended")
	}
	o.takeBackCalls()
	if p := o.s.Started.Parent; p != nil {
		o.put(events.RunSubject(p.RunID, events.RunChildCompleted), "child:"+string(o.s.RunID), events.TypeChildCompleted, string(p.RunID),
			events.ChildCompleted{RunID: p.RunID, Item: p.Item, Child: o.s.RunID, Status: o.s.End, Output: e.Output, Error: e.Error})
	}
	o.postEnd()
}

// EndAgain tells the parent of a run that has ended how it ended, under a message id
// that is fresh for each n; ok is false for a run without a parent.
func EndAgain(s *State, plan *Plan, n uint64, now time.Time) (m events.Message, ok bool) {
	o := &outbox{s: s, plan: plan, f: Fact{Seq: s.Seq, At: now.UTC()}}
	o.ended(s.Ending)
	for _, m := range o.out {
		if m.Type == events.TypeChildCompleted {
			m.MsgID = fmt.Sprintf("%s:r%d", m.ID, n)
			return m, true
		}
	}
	return events.Message{}, false
}

func (s *State) openItems() []*Item {
	var out []*Item
	for _, name := range sortedKeys(s.Items) {
		if item := s.Items[name]; item.Done == nil {
			out = append(out, item)
		}
	}
	return out
}

// Nudge re-sends what one pending item waits for under a fresh message id: the
// receiver answers from its own rows. MsgID differs for each n.
func Nudge(s *State, plan *Plan, item string, n int) (events.Message, bool) {
	o := &outbox{s: s, plan: plan, f: Fact{Seq: s.Seq, At: s.Started.AcceptedAt}}
	kind, id, _ := cutItem(item)
	switch kind {
	case "model":
		o.out = append(o.out, StepMessage(s.RunID, s.Namespace, s.Seq, 0))
	case "call":
		c, ok := s.Calls[events.CallID(id)]
		if !ok || c.State != callSent {
			return events.Message{}, false
		}
		switch {
		case c.Verdict != nil:
			o.put(events.ToolControlSubject(c.CallID), "settle:"+string(c.Verdict.ApprovalID), events.TypeControlTool, id, settle(c, *c.Verdict))
		case c.Approved != nil:
			o.send(c.AskedCall, approvedBy(*c.Approved))
		default:
			o.send(c.AskedCall, nil)
		}
	case "approval":
		for _, c := range s.Calls {
			switch {
			case c.State == callAsked && c.ApprovalID == events.ApprovalID(id):
				o.ask(c.AskedCall)
			case c.State == callQuestion && c.Asked.ApprovalID == events.ApprovalID(id):
				_ = o.askQuestion(*c.Asked) // the call is there
			case c.State == callDoubt && c.Doubt == events.ApprovalID(id):
				o.askDoubt(c, c.Doubt, *c.Done)
			}
		}
	case pendingCallback:
		if s.owesCallback() {
			o.postEnd()
		}
	case "child":
		if it, ok := s.Items[id]; ok && it.Done == nil {
			o.startChild(it.Child)
		}
	}
	if len(o.out) == 0 {
		return events.Message{}, false
	}
	m := o.out[0]
	m.MsgID = fmt.Sprintf("%s:n%d", m.ID, n)
	return m, true
}

// StepMessage asks for the owed model call of the run at row seq.
func StepMessage(run events.RunID, namespace string, seq, epoch int64) events.Message {
	id := stepID(run, seq, epoch)
	return events.Message{Subject: events.RunSubject(run, events.RunStep), MsgID: id, ID: id, Source: source,
		Type: events.TypeStepRun, About: string(run), Namespace: namespace, Data: json.RawMessage(`{"run_id":"` + string(run) + `"}`)}
}

// StepAgain asks for the owed model call of a run under a message id that is fresh
// for each n: that one was asked for before is no proof that it is still to come.
func StepAgain(s *State, epoch int64, n uint64) events.Message {
	m := StepMessage(s.RunID, s.Namespace, s.Seq, epoch)
	m.MsgID = fmt.Sprintf("%s:r%d", m.ID, n)
	return m
}

func stepID(run events.RunID, seq, epoch int64) string {
	return fmt.Sprintf("step:%s:%d:%d", run, seq, epoch)
}

// afterStep is the first row that the step of an id can have led to; 0 when the id is not
// a step's.
func afterStep(id string) int64 {
	parts := strings.Split(id, ":")
	if len(parts) != 4 || parts[0] != "step" {
		return 0
	}
	seq, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil {
		return 0
	}
	return seq + 1
}
