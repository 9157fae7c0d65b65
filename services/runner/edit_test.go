package runner

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

const refundDocuments = `
apiVersion: holdfast/v1
kind: Model
metadata: {name: m}
spec: {provider: anthropic, model: x, apiKey: {env: KEY}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: refund}
spec:
  description: gives money back
  effect: write
  approval: {when: "args.amount > 100"}
  input: {type: object, required: [order, amount], properties: {order: {type: integer}, amount: {type: integer}}}
  http: {method: POST, url: "http://h/refund", body: "${args}"}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: wipe}
spec: {description: deletes, effect: write, approval: always, input: {type: object}, http: {method: POST, url: "http://h/wipe", body: "${args}"}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: a}
spec: {model: m, instructions: i, tools: [refund, wipe], budget: {toolCalls: 6, modelCalls: 8}}
`

// refunds is a run whose model has proposed to give 500 back.
type refunds struct {
	t    *testing.T
	s    *State
	plan *Plan
	rows []Fact
	sent []events.Message
}

const asked500 = `{"amount":500,"order":1234567890123456789}`

func newRefunds(t *testing.T) *refunds {
	t.Helper()
	return refundsOf(t, refundDocuments)
}

func refundsOf(t *testing.T, documents string) *refunds {
	t.Helper()
	docs, err := spec.Parse("t.yaml", []byte(documents))
	if err != nil {
		t.Fatal(err)
	}
	r := &refunds{t: t, s: NewState(testRun, "default"), plan: &Plan{Tools: map[string]*spec.Tool{}}}
	body := events.RunStarted{Input: json.RawMessage(`{"k":1}`)}
	for _, d := range docs {
		switch {
		case d.Agent != nil:
			r.plan.Agent, body.Ref = d.Agent, events.Ref{Kind: events.KindAgent, Name: d.Name, Digest: d.Digest}
		case d.Model != nil:
			r.plan.Model, body.Model = d.Model, &events.Ref{Kind: "model", Name: d.Name, Digest: d.Digest}
		case d.Tool != nil:
			r.plan.Tools[d.Name] = d.Tool
			body.Tools = append(body.Tools, events.Ref{Kind: "tool", Name: d.Name, Digest: d.Digest})
		}
	}
	r.take(Decide(r.s, r.plan, Input{Cause: "start", Start: &Start{Body: body}}, "w", testTime))
	r.proposes("refund", `{"order": 1234567890123456789, "amount": 5e2}`)
	return r
}

func (r *refunds) take(d Decision, err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
	r.s, r.rows = d.State, append(r.rows, d.Facts...)
	for _, f := range d.Facts {
		out, err := Outgoing(r.s, r.plan, f)
		if err != nil {
			r.t.Fatal(err)
		}
		r.sent = append(r.sent, out...)
	}
}

func (r *refunds) proposes(tool, args string) *Call {
	r.t.Helper()
	r.take(DecideAnswer(r.s, r.plan, Answer{StopReason: StopTools, Raw: `{}`, Calls: []ModelCall{
		{ProviderID: "p", Tool: tool, Args: json.RawMessage(args)}}}, Claimed{Worker: "w", Epoch: 1}, testTime))
	return r.last()
}

func (r *refunds) last() *Call { return r.s.CallsInOrder(len(r.s.Turns) - 1)[0] }

func (r *refunds) bind(args string) events.Digest {
	return events.BindDigest("refund", r.s.toolDigest("refund"), events.DigestOf([]byte(args)), "when args.amount > 100")
}

// says is a person's yes to other arguments.
func (r *refunds) says(args string, digest events.Digest) {
	r.t.Helper()
	c := r.last()
	d := &events.ApprovalDecision{ApprovalID: c.ApprovalID, Kind: events.ApprovalAction, RunID: testRun, CallID: c.CallID, Decision: events.Approve, Digest: digest,
		Args: json.RawMessage(args), By: "ada", Comment: "half a euro", DecidedAt: testTime, ValidUntil: testTime.Add(time.Hour), Told: "believe me"}
	r.take(Decide(r.s, r.plan, Input{Cause: "decision:" + string(c.ApprovalID), Type: events.TypeApprovalDecided, Decided: d, Original: d}, "w", testTime))
}

func (r *refunds) calls() (out []events.CallTool) {
	r.t.Helper()
	for _, m := range r.sent {
		if m.Type == events.TypeCallTool {
			var c events.CallTool
			if err := json.Unmarshal(m.Data, &c); err != nil {
				r.t.Fatal(err)
			}
			out = append(out, c)
		}
	}
	return out
}

// 500 becomes 50: the call that goes out has what was confirmed, under the call's
// own key; the model reads that a person changed it; a state folded from the rows
// sends the same again.
func TestCaseE05_WhatWasConfirmedIsSent(t *testing.T) {
	t.Parallel()
	r := newRefunds(t)
	c := r.last()
	if c.State != callAsked || string(c.Args) != asked500 {
		t.Fatalf("the call is %s with %s", c.State, c.Args)
	}
	const fifty = `{"amount":50,"order":1234567890123456789}`
	r.says(`{"order":1234567890123456789,"amount":50.0}`, r.bind(fifty))
	sent := r.calls()
	if len(sent) != 1 || string(sent[0].Args) != fifty || sent[0].ArgsDigest != events.DigestOf([]byte(fifty)) || sent[0].Approval == nil ||
		sent[0].Approval.Digest != r.bind(fifty) || sent[0].CallID != c.CallID || sent[0].Key != callKey(testRun, c.AskedCall) {
		t.Fatalf("sent %+v", sent)
	}
	if row := r.rows[len(r.rows)-1]; row.Reader != 3 {
		t.Errorf("the row may be read by a release of reader %d, which would send 500", row.Reader)
	}
	again := NewState(testRun, "default")
	for _, f := range r.rows {
		if err := again.Apply(f); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(r.s, again, sameState...); diff != "" {
		t.Errorf("deciding and folding differ:\n%s", diff)
	}
	m, ok := Nudge(again, r.plan, "call/"+string(c.CallID), 1)
	var repeat events.CallTool
	if err := json.Unmarshal(m.Data, &repeat); err != nil || !ok || string(repeat.Args) != fifty || repeat.Approval.Digest != r.bind(fifty) {
		t.Errorf("after a crash the call is sent again with %s (%v)", m.Data, err)
	}
	done := &events.ToolCompleted{CallID: c.CallID, RunID: testRun, Tool: "refund", Status: events.CallSucceeded, Result: json.RawMessage(`{"ok":true}`)}
	r.take(Decide(r.s, r.plan, Input{Cause: "tool", Type: events.TypeToolCompleted, Tool: done, Original: done}, "w", testTime))
	text, err := r.s.Transcript("go")
	if err != nil {
		t.Fatal(err)
	}
	got := text[len(text)-1].Results[0]
	for _, want := range []string{"A person (ada) changed this call", fifty, "$.amount from 500 to 50", "half a euro", `{"ok":true}`} {
		if !strings.Contains(got.Text, want) || got.ProviderID != "p" || got.Error {
			t.Errorf("the model reads %+v, it has no %q", got, want)
		}
	}
	if strings.Contains(got.Text, "believe me") {
		t.Error("what the model reads came from a message")
	}

	// The model wants 500 all the same, then 60: the first is asked about though it was once, the second by no rule.
	next := r.proposes("refund", asked500)
	var ask events.AskApproval
	for _, m := range r.sent {
		if m.ID == "ask:"+string(next.ApprovalID) {
			if err := json.Unmarshal(m.Data, &ask); err != nil {
				t.Fatal(err)
			}
		}
	}
	if next.State != callAsked || ask.Summary != "a wants to call refund just as it was before ada changed it" || len(r.calls()) != 1 {
		t.Errorf("500 again is %s, asked as %q; %d calls were sent", next.State, ask.Summary, len(r.calls()))
	}
}

// What a person changed is asked about again, also when the rule alone would let
// it pass.
func TestCaseE05_NoRuleLetsTheOldCallPass(t *testing.T) {
	t.Parallel()
	r := newRefunds(t)
	r.says(`{"amount":50,"order":1234567890123456789}`, r.bind(`{"amount":50,"order":1234567890123456789}`))
	c := r.last()
	done := &events.ToolCompleted{CallID: c.CallID, RunID: testRun, Tool: "refund", Status: events.CallSucceeded, Result: json.RawMessage(`1`)}
	r.take(Decide(r.s, r.plan, Input{Cause: "tool", Type: events.TypeToolCompleted, Tool: done, Original: done}, "w", testTime))
	lax, err := spec.Parse("t.yaml", []byte(strings.Replace(refundDocuments, "args.amount > 100", "args.amount > 9000", 1)))
	if err != nil {
		t.Fatal(err)
	}
	r.plan.Tools["refund"] = lax[1].Tool
	if c := r.proposes("refund", `{"amount":499,"order":1}`); c.State != callSent {
		t.Fatalf("another call is %s", c.State)
	}
	done = &events.ToolCompleted{CallID: r.last().CallID, RunID: testRun, Tool: "refund", Status: events.CallSucceeded, Result: json.RawMessage(`1`)}
	r.take(Decide(r.s, r.plan, Input{Cause: "tool2", Type: events.TypeToolCompleted, Tool: done, Original: done}, "w", testTime))
	if c := r.proposes("refund", asked500); c.State != callAsked {
		t.Errorf("the call that a person changed is %s", c.State)
	}
}

// Whatever arrives as a decision: nothing is sent but what fits the tool and what
// was confirmed, and never the call as it was.
func TestCaseE05_WhatDoesNotFitIsNotSent(t *testing.T) {
	t.Parallel()
	const fifty = `{"amount":50,"order":1234567890123456789}`
	for name, tc := range map[string]struct {
		args, confirmed, want string
	}{
		"another type":             {`{"amount":"50","order":1}`, `{"amount":"50","order":1}`, "$.amount"},
		"an unknown field":         {`{"amount":50,"order":1,"tool":"wipe"}`, `{"amount":50,"order":1,"tool":"wipe"}`, "$.tool is not a field of the tool"},
		"a field less":             {`{"amount":50}`, `{"amount":50}`, "order"},
		"no object":                {`[50]`, `[50]`, "must be a JSON object"},
		"no JSON":                  {`{"amount":`, fifty, "cannot be sent"},
		"not what was confirmed":   {`{"amount":51,"order":1234567890123456789}`, fifty, "they are not what was confirmed"},
		"one digit of 19 is wrong": {`{"amount":50,"order":1234567890123456780}`, fifty, "they are not what was confirmed"},
	} {
		r := newRefunds(t)
		r.says(tc.args, r.bind(tc.confirmed))
		c := r.last()
		if len(r.calls()) != 0 || c.State != callDone || c.Done.Error == nil || c.Done.Error.Code != "rejected" || !strings.Contains(c.Done.Error.Message, tc.want) {
			t.Errorf("%s: %d calls were sent; the call is %s with %+v", name, len(r.calls()), c.State, c.Done)
		}
	}
	// Bound to another tool.
	r := newRefunds(t)
	r.says(fifty, events.BindDigest("wipe", r.s.toolDigest("wipe"), events.DigestOf([]byte(fifty)), "always"))
	if len(r.calls()) != 0 {
		t.Errorf("sent %+v", r.calls())
	}
}

// A fork that makes the turn again does not take what was changed for what it
// proposes: nothing stands for it, and a person is asked.
func TestFork_AnEditedCallStandsForWhatItBecame(t *testing.T) {
	t.Parallel()
	r := newRefunds(t)
	const fifty = `{"amount":50,"order":1234567890123456789}`
	r.says(fifty, r.bind(fifty))
	effects := Past{Namespace: "default", Rows: r.rows}.effects(r.plan)
	if len(effects) != 1 || effects[0].ArgsDigest != events.DigestOf([]byte(fifty)) || !slices.ContainsFunc(r.rows, func(f Fact) bool { return f.Kind == events.FactApprovalDecided }) {
		t.Errorf("the fork knows of %+v", effects)
	}
}
