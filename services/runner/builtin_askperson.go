package runner

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// pendingQuestion is a call that waits for a person's answer.
const pendingQuestion = "question"

// askCall is a call of the built-in ask_person.
func (d *decision) askCall(plan *Plan, c *Call) (*events.Problem, error) {
	var args struct {
		Question string   `json:"question"`
		Choices  []string `json:"choices"`
	}
	if err := json.Unmarshal(c.Args, &args); err != nil {
		return refuseHere("%v", err), nil
	}
	if strings.TrimSpace(args.Question) == "" {
		return refuseHere("the question is empty"), nil
	}
	body := events.QuestionAsked{
		CallID: c.CallID, ApprovalID: events.NewApprovalID(c.CallID, "q", d.state.Seq+1),
		Bind:     events.BindDigest(c.Tool, d.state.toolDigest(c.Tool), c.ArgsDigest, "question"),
		Question: events.Question{Text: args.Question, Choices: args.Choices},
	}
	if who := plan.Tools[c.Tool].AskPerson; who != nil {
		body.Question.To = who.To
	}
	// What the other side would refuse would never be answered.
	raw := mustJSON(whole(plan, c.Tool, body.Question))
	if len(raw) > events.QuestionBytes {
		return refuseHere("question and choices are too long: %d bytes with the schema of the answer, at most %d are asked", len(raw), events.QuestionBytes), nil
	}
	if _, err := events.Canonical(raw); err != nil {
		return refuseHere("the question cannot be asked: %v", err), nil
	}
	return nil, d.add(events.FactQuestionAsked, body, false)
}

// whole is a question with the schema of its answer, which the tool's version has.
func whole(plan *Plan, tool string, q events.Question) *events.Question {
	if t, ok := plan.Tools[tool]; ok && t.AskPerson != nil {
		q.Schema = t.AskPerson.Answer.JSON()
	}
	return &q
}

func (s *State) questionAsked(seq int64, b events.QuestionAsked) error {
	c, ok := s.Calls[b.CallID]
	if !ok || c.State != callHere {
		return fmt.Errorf("call %s cannot ask", b.CallID)
	}
	c.State, c.Since, c.Asked = callQuestion, seq, &b
	return nil
}

// answered gives a call its answer, as the person gave it. Who it was is in the
// row.
func (c *Call) answered(run events.RunID, d events.ApprovalDecision) {
	c.State = callDone
	c.Done = &events.ToolCompleted{CallID: c.CallID, RunID: run, Tool: c.Tool, Status: events.CallFailed}
	switch d.Decision {
	case events.Answered:
		c.Done.Status, c.Done.Result = events.CallSucceeded, d.Result
	case events.Expired:
		c.Done.Error = &events.Problem{Code: "expired", Message: "nobody answered the question in time"}
	default:
		c.Done.Error = &events.Problem{Code: "withdrawn", Message: "the question was withdrawn; nobody answered it"}
	}
}

// askQuestion asks a person. Nothing but the row and the pinned tool says what.
func (o *outbox) askQuestion(q events.QuestionAsked) error {
	c, ok := o.s.call(q.CallID)
	if !ok {
		return fmt.Errorf("call %s was never asked", q.CallID)
	}
	body := events.AskApproval{
		ApprovalID: q.ApprovalID, Kind: events.ApprovalQuestion, RunID: o.s.RunID, CallID: q.CallID, Namespace: o.s.Namespace,
		Agent: o.s.Started.Ref.Name, Tool: c.Tool, ToolDigest: o.s.toolDigest(c.Tool), Args: c.Args, Digest: q.Bind,
		Summary: clip(q.Question.Text, 300), Labels: o.s.Started.Labels, Question: whole(o.plan, c.Tool, q.Question), Channel: o.plan.asksIn(), Requester: o.s.Started.Principal,
	}
	if t, ok := o.plan.Tools[c.Tool]; ok {
		body.ExpiresAfterMs = t.ApprovalExpiresAfter.Std().Milliseconds()
	}
	o.put(events.ApprovalSubject(q.ApprovalID, events.ApprovalAsk), "ask:"+string(q.ApprovalID), events.TypeAskApproval, string(q.ApprovalID), body)
	return nil
}
