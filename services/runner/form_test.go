package runner

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// formed are the documents of a tool that a person fills in.
var formed = strings.NewReplacer(`approval: {when: "args.amount > 100"}`, `approval: {form: [{name: reason}, {name: note}]}`,
	"amount: {type: integer}}}", "amount: {type: integer}, reason: {enum: [late, damaged]}, note: {type: string}}}", "[order, amount]", "[order, amount, reason]").Replace(refundDocuments)

func (r *refunds) bindForm(args string) events.Digest {
	tool := r.plan.Tools["refund"]
	return events.BindDigest("refund", r.s.toolDigest("refund"), events.DigestOf([]byte(args)), r.plan.asking().PolicyText(tool, false))
}

// The person's part is asked of the person, bound with the rest, sent, and told to the
// model, which may not give it.
func TestForm_ThePersonFillsItIn(t *testing.T) {
	t.Parallel()
	r := refundsOf(t, formed)
	var ask events.AskApproval
	for _, m := range r.sent {
		if m.Type == events.TypeAskApproval {
			decodeBody(t, m, &ask)
		}
	}
	if c := r.last(); c.State != callAsked || string(ask.Args) != asked500 || len(ask.Rule.FormOf()) != 2 || !ask.Rule.Form[0].Required || string(ask.Rule.Form[0].Schema) != `{"enum":["late","damaged"]}` {
		t.Fatalf("the call is %s, asked with %s and %+v", c.State, ask.Args, ask.Rule)
	}
	const filled = `{"amount":500,"order":1234567890123456789,"reason":"late"}`
	r.says(filled, r.bindForm(filled))
	sent := r.calls()
	if len(sent) != 1 || string(sent[0].Args) != filled || sent[0].Approval == nil || sent[0].Approval.Digest != r.bindForm(filled) {
		t.Fatalf("sent %+v", sent)
	}
	var row events.ApprovalDecision
	if err := json.Unmarshal(r.rows[len(r.rows)-1].Data, &row); err != nil || row.Told != `A person (ada) approved this call and filled in reason: "late". They say: half a euro` {
		t.Errorf("the model is told %q (%v)", row.Told, err)
	}
	// It proposes another one: that is asked as the first was, and filled in anew.
	r.take(Decide(r.s, r.plan, Input{Cause: "tool:1", Type: events.TypeToolCompleted, Tool: &events.ToolCompleted{CallID: sent[0].CallID, RunID: testRun, Status: events.CallSucceeded, Result: json.RawMessage(`1`)}}, "w", testTime))
	n := len(r.sent)
	if c := r.proposes("refund", asked500); c.State != callAsked {
		t.Fatalf("the second call is %s", c.State)
	}
	for _, m := range r.sent[n:] {
		if m.Type == events.TypeAskApproval && strings.Contains(string(m.Data), "changed it") {
			t.Errorf("it is asked as if it had been changed: %s", m.Data)
		}
	}
	// What a person adds beside the form is a change.
	r.says(strings.Replace(filled, "500", "50", 1), r.bindForm(strings.Replace(filled, "500", "50", 1)))
	if err := json.Unmarshal(r.rows[len(r.rows)-1].Data, &row); err != nil || !strings.Contains(row.Told, "changed this call before it was made") || len(r.calls()) != 2 {
		t.Errorf("the model is told %q (%v)", row.Told, err)
	}
}

// Neither a yes that leaves it out, nor one that was bound to something else, sends the
// call; and the model's own words for it send nothing either.
func TestForm_NobodyElseDoes(t *testing.T) {
	t.Parallel()
	for name, decide := range map[string]func(*refunds){
		"a bare yes": func(r *refunds) {
			c := r.last()
			d := &events.ApprovalDecision{ApprovalID: c.ApprovalID, Kind: events.ApprovalAction, RunID: testRun, CallID: c.CallID, Decision: events.Approve, Digest: c.Bind, By: "ada"}
			r.take(Decide(r.s, r.plan, Input{Cause: "decision", Type: events.TypeApprovalDecided, Decided: d, Original: d}, "w", testTime))
		},
		"only what is not needed": func(r *refunds) {
			args := `{"amount":500,"note":"x","order":1234567890123456789}`
			r.says(args, r.bindForm(args))
		},
		"bound to another reason": func(r *refunds) {
			args := `{"amount":500,"order":1234567890123456789,"reason":"late"}`
			r.says(args, r.bindForm(strings.Replace(args, "late", "damaged", 1)))
		},
	} {
		r := refundsOf(t, formed)
		decide(r)
		if c := r.last(); len(r.calls()) != 0 || c.State != callDone || c.Done == nil && c.Problem == nil {
			t.Errorf("%s: the call is %s, %d were sent", name, c.State, len(r.calls()))
		}
	}
	r := refundsOf(t, formed)
	body := events.RunStarted{Input: json.RawMessage(`{}`), Tools: r.s.Started.Tools, Ref: r.s.Started.Ref, Model: r.s.Started.Model}
	fresh := &refunds{t: t, s: NewState(testRun, "default"), plan: r.plan}
	fresh.take(Decide(fresh.s, r.plan, Input{Cause: "start", Start: &Start{Body: body}}, "w", testTime))
	c := fresh.proposes("refund", `{"order":1,"amount":5,"reason":"late"}`)
	if c.State == callAsked || c.Problem == nil || c.Problem.Code != "invalid_arguments" || !strings.Contains(c.Problem.Message, "filled in by the person") || strings.Contains(c.Problem.Message, "damaged") {
		t.Errorf("the model fills it in: %s, %+v", c.State, c.Problem)
	}
	if raw := string(r.plan.Tools["refund"].AskedInput().JSON()); strings.Contains(raw, "reason") || strings.Contains(raw, "note") {
		t.Errorf("the model is shown %s", raw)
	}
}
