package approvals_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

// asksFor makes an ask a question.
func asksFor(q events.Question) func(*events.AskApproval) {
	return func(a *events.AskApproval) { a.Kind, a.Question = events.ApprovalQuestion, &q }
}

func answer(text string) client.Decision {
	return client.Decision{Decision: "answer", Result: json.RawMessage(text)}
}

func codeOf(err error) string {
	if e, ok := errors.AsType[*client.Error](err); ok {
		return e.Code
	}
	return ""
}

// The answer of the first person who gives one that fits is what the run gets,
// with every digit; a repeat is the same answer, another one has lost.
func TestQuestion_IsAnsweredOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.ask(asksFor(events.Question{Text: "Which price?", To: "pricing", Schema: json.RawMessage(`{"type":"object","required":["price"],"properties":{"price":{"type":"number","minimum":1}}}`)}))
	seen := b.show(a.ApprovalID)
	if seen.Kind != events.ApprovalQuestion || seen.Question == nil {
		t.Fatalf("shown %+v", seen)
	}
	if diff := cmp.Diff(*a.Question, *seen.Question); diff != "" {
		t.Errorf("question (-want +got)\n%s", diff)
	}
	for _, bad := range []client.Decision{yes, no, {Decision: "happened"}} {
		if _, err := b.as("ann").Decide(t.Context(), a.ApprovalID, bad); codeOf(err) != "wrong_decision" {
			t.Errorf("%s: %v, want wrong_decision", bad.Decision, err)
		}
	}
	for _, bad := range []string{`"89.50"`, `{}`, `{"price":0}`} {
		if _, err := b.as("ann").Decide(t.Context(), a.ApprovalID, answer(bad)); codeOf(err) != "unfit_answer" || client.StatusOf(err) != 422 {
			t.Errorf("%s: %v, want unfit_answer", bad, err)
		}
	}
	for _, bad := range []string{"", "null"} {
		if _, err := b.as("ann").Decide(t.Context(), a.ApprovalID, answer(bad)); client.StatusOf(err) != 422 {
			t.Errorf("an answer of %q: %v, want 422", bad, err)
		}
	}
	const exact = `{"price":90071992547409930.10}`
	got, err := b.as("ann").Decide(t.Context(), a.ApprovalID, answer(exact))
	if err != nil || got.State != events.Answered || got.DecidedBy != "ann" {
		t.Fatalf("answered: %v, %+v", err, got)
	}
	if again, err := b.as("ben").Decide(t.Context(), a.ApprovalID, answer(` {"price": 90071992547409930.1}`)); err != nil || !again.Repeated || again.DecidedBy != "ann" {
		t.Errorf("the same answer again: %v, %+v", err, again)
	}
	if _, err := b.as("ben").Decide(t.Context(), a.ApprovalID, answer(`{"price":90071992547409930.2}`)); codeOf(err) != "already_decided" {
		t.Errorf("another answer: %v, want already_decided", err)
	}
	if d := b.decision(a.ApprovalID); d.Decision != events.Answered || d.By != "ann" || d.Kind != events.ApprovalQuestion || string(d.Result) != exact {
		t.Errorf("the runner is told %+v %s", d, d.Result)
	}
	if n := len(b.told(a.ApprovalID)); n != 1 {
		t.Errorf("the runner is told %d times, want 1", n)
	}
	if n := b.count("SELECT count(*) FROM approvals.v_decisions WHERE approval_id = $1 AND outcome = 'unfit'", a.ApprovalID); n != 3 {
		t.Errorf("the record has %d answers that did not fit, want 3", n)
	}
	page, err := b.as("vic").Approvals(t.Context(), client.ApprovalFilter{State: "answered", Kind: "question"}, client.PageRequest{})
	if err != nil || len(page.Items) != 1 {
		t.Errorf("listed %d, %v", len(page.Items), err)
	}
}

func TestQuestion_Choices(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.ask(asksFor(events.Question{Text: "Match it?", Choices: []string{"match", "keep"}}))
	for _, bad := range []string{`"Match"`, `1`, `["match"]`} {
		if _, err := b.as("ann").Decide(t.Context(), a.ApprovalID, answer(bad)); codeOf(err) != "unfit_answer" {
			t.Errorf("%s: %v, want unfit_answer", bad, err)
		}
	}
	if got, err := b.as("ann").Decide(t.Context(), a.ApprovalID, answer(`"keep"`)); err != nil || string(got.Result) != `"keep"` {
		t.Errorf("%v, %+v", err, got)
	}
	if _, err := b.as("ann").Decide(t.Context(), b.ask().ApprovalID, answer(`"keep"`)); codeOf(err) != "wrong_decision" {
		t.Errorf("an action is answered: %v", err)
	}
}

func TestQuestion_ExpiresAndIsWithdrawn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	late := question(asksFor(events.Question{Text: "Soon?"}), expiresIn(time.Millisecond))
	b.publish(late, "ask:"+string(late.ApprovalID)) // it may have expired before anybody sees it open
	if d := b.decision(late.ApprovalID); d.Decision != events.Expired || d.By != "" || d.Result != nil {
		t.Errorf("told %+v", d)
	}
	if _, err := b.as("ann").Decide(t.Context(), late.ApprovalID, answer(`"now"`)); codeOf(err) != "approval_expired" {
		t.Errorf("answered after the expiry: %v", err)
	}
	gone := b.ask(asksFor(events.Question{Text: "Still?"}))
	b.send(events.TypeWithdraw, events.ApprovalWithdraw, "withdraw:"+string(gone.ApprovalID), "1", gone.ApprovalID,
		events.WithdrawApproval{ApprovalID: gone.ApprovalID, RunID: gone.RunID, Reason: "the run was cancelled"})
	eventually(t, "it is withdrawn", func() bool { return b.show(gone.ApprovalID).State == events.Withdrawn })
	if _, err := b.as("ann").Decide(t.Context(), gone.ApprovalID, answer(`"yes"`)); codeOf(err) != "approval_withdrawn" {
		t.Errorf("answered after the withdrawal: %v", err)
	}
	if s := b.show(gone.ApprovalID).State; s == approvals.StatePending {
		t.Error("it is open again")
	}
}
