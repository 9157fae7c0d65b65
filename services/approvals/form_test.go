package approvals_test

import (
	"encoding/json"
	"html"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/approvals"
)

var formDoc = sync.OnceValue(func() spec.Document {
	docs, err := spec.Parse("t.yaml", []byte(`
apiVersion: holdfast/v1
kind: Tool
metadata: {name: refund}
spec:
  description: gives money back
  effect: write
  approval: {requester: allowed, form: [{name: reason, title: "Why <b>is</b> it?"}, {name: copies}, {name: urgent}, {name: note}]}
  preview: "refund ${args.amount}"
  input:
    type: object
    required: [order, amount, reason]
    properties: {order: {type: integer}, amount: {type: integer}, reason: {enum: [damaged, late]}, copies: {type: integer}, urgent: {type: boolean}, note: {type: string, description: "for the shop", maxLength: 500}}
  http: {method: POST, url: "http://h/refund", body: "${args}"}
`))
	if err != nil {
		panic(err)
	}
	return docs[0]
})

func bindFilled(args string) events.Digest {
	return events.BindDigest("refund", formDoc().Digest, events.DigestOf([]byte(args)), spec.Asking{}.PolicyText(formDoc().Tool, false))
}

// filledRefund is an ask for giving 500 back, whose reason a person fills in.
func filledRefund(a *events.AskApproval) {
	a.Tool, a.ToolDigest, a.Args, a.Digest, a.Rule = "refund", formDoc().Digest, json.RawMessage(asked500), bindFilled(asked500), spec.Asking{}.RuleFor(formDoc().Tool)
}

const late = `{"amount":500,"order":1234567890123456789,"reason":"late"}`

func fields(json string, digest events.Digest) client.Decision {
	return client.Decision{Decision: "approve", Fields: []byte(json), Digest: digest}
}

// A yes brings what it fills in, judged by the tool's schema; the run is told the whole
// under its own digest, and the audit has both.
func TestForm_IsFilledInWithTheYes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.ask(filledRefund)
	ann := b.as("ann")
	if got := b.show(a.ApprovalID); len(got.Rule.Form) != 4 || !got.Rule.Form[0].Required || string(got.Rule.Form[0].Schema) != `{"enum":["damaged","late"]}` {
		t.Errorf("people are asked for %+v", got.Rule.Form)
	}
	for name, tc := range map[string]struct {
		d    client.Decision
		code string
	}{
		"a bare yes":               {client.Decision{Decision: "approve", Digest: a.Digest}, "unfit_answer"},
		"nothing filled in":        {fields(`{}`, a.Digest), "unfit_answer"},
		"only what is not needed":  {fields(`{"copies":2}`, a.Digest), "unfit_answer"},
		"another reason":           {fields(`{"reason":"because"}`, a.Digest), "unfit_answer"},
		"another type":             {fields(`{"reason":"late","copies":"2"}`, a.Digest), "unfit_answer"},
		"no such field":            {fields(`{"reason":"late","amount":5}`, a.Digest), "invalid_input"},
		"no object":                {fields(`["late"]`, a.Digest), "invalid_input"},
		"the digest of what comes": {fields(`{"reason":"late"}`, bindFilled(asked500+" ")), "digest_mismatch"},
		"without a digest":         {fields(`{"reason":"late"}`, ""), "invalid_input"},
		"a rejection that fills":   {client.Decision{Decision: "reject", Fields: []byte(`{"reason":"late"}`)}, "invalid_input"},
	} {
		if _, err := ann.Decide(t.Context(), a.ApprovalID, tc.d); codeOf(err) != tc.code {
			t.Errorf("%s: %v, want %s", name, err, tc.code)
		}
	}
	if got := b.show(a.ApprovalID); got.State != approvals.StatePending {
		t.Fatalf("it is %s", got.State)
	}
	done, err := ann.Decide(t.Context(), a.ApprovalID, fields(`{"reason": "late"}`, a.Digest))
	if err != nil || done.State != events.Approve || done.Edited == nil || string(done.Edited.Args) != late || done.Edited.Digest != bindFilled(late) || string(done.Args) != asked500 {
		t.Fatalf("%+v, %v", done, err)
	}
	if told := b.decision(a.ApprovalID); string(told.Args) != late || told.Digest != bindFilled(late) {
		t.Errorf("the run is told %+v", told)
	}
	if again, err := ann.Decide(t.Context(), a.ApprovalID, fields(`{"reason":"late"}`, a.Digest)); err != nil || !again.Repeated {
		t.Errorf("the same again: %v", err)
	}
	if _, err := ann.Decide(t.Context(), a.ApprovalID, fields(`{"reason":"damaged"}`, a.Digest)); codeOf(err) != "already_decided" {
		t.Errorf("filled in otherwise: %v", err)
	}
	rows, _ := b.audited("adm", client.AuditFilter{Approval: a.ApprovalID})
	last := rows[len(rows)-1]
	for _, r := range rows {
		if r.Kind == "decided" {
			last = r
		}
	}
	if last.Kind != "decided" || !strings.Contains(last.Detail, string(bindFilled(late))) || !strings.Contains(last.Detail, string(a.Digest)) || strings.Contains(last.Detail, "reason") {
		t.Errorf("the audit says %s: %s", last.Kind, last.Detail)
	}
	// Of many each has its own; with other arguments beside it both are previewed.
	many, other := b.ask(filledRefund), b.ask(filledRefund)
	p, err := ann.PreviewFilled(t.Context(), other.ApprovalID, json.RawMessage(makes50), json.RawMessage(`{"reason":"damaged"}`))
	if err != nil || len(p.Problems) != 0 || string(p.Args) != `{"amount":50,"order":1234567890123456789,"reason":"damaged"}` {
		t.Fatalf("%+v, %v", p, err)
	}
	res, err := ann.DecideMany(t.Context(), client.ManyDecisions{Decision: "approve", Items: []client.ItemDecision{
		{ID: many.ApprovalID, Digest: many.Digest, Fields: []byte(`{"reason":"late"}`)},
		{ID: other.ApprovalID, Digest: p.Digest, Args: json.RawMessage(makes50), Fields: []byte(`{"reason":"damaged"}`)},
		{ID: b.ask(filledRefund).ApprovalID, Digest: a.Digest}}})
	if err != nil || res.Decided != 2 || res.Results[2].Code != "unfit_answer" {
		t.Errorf("%+v, %v", res, err)
	}
}

// Two who agree count together when they filled in the same.
func TestForm_AQuorumAgreesOnWhatIsFilledIn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.ask(filledRefund, func(a *events.AskApproval) {
		rule := *a.Rule
		rule.Quorum = 2
		a.Rule = &rule
	})
	for _, tc := range []struct{ who, fields, state string }{
		{"ann", `{"reason":"late"}`, approvals.StatePending}, {"ben", `{"reason":"damaged"}`, approvals.StatePending}, {"ben", `{"reason":"late"}`, events.Approve}} {
		got, err := b.as(tc.who).Decide(t.Context(), a.ApprovalID, fields(tc.fields, a.Digest))
		if err != nil || got.State != tc.state {
			t.Errorf("%s fills in %s: it is %s (%v), want %s", tc.who, tc.fields, got.State, err, tc.state)
		}
	}
	if told := b.decision(a.ApprovalID); string(told.Args) != late {
		t.Errorf("the run is told %s", told.Args)
	}
}

// The page of a link has an input for each field, keeps what was typed when it does not
// fit, and confirms what it showed. In Slack one says no, or opens the page.
func TestForm_BehindALink(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.reviewers(newOutside(t))
	a := b.ask(in("reviewers"), filledRefund)
	link := b.link(a, "ann")
	_, _, page := b.page(http.MethodGet, link, nil)
	for _, want := range []string{`<select name="field.reason">`, "<option>late</option>", `<input name="field.copies" value="" inputmode="decimal">`, "<option>true</option>", `<textarea name="field.note"`, "for the shop", "Why &lt;b&gt;is&lt;/b&gt; it?", "Needed for a yes."} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if strings.Contains(page, `value="edit"`) {
		t.Error("the page offers other arguments beside the form")
	}
	empty := form(page, "approved")
	if status, _, page := b.page(http.MethodPost, link, empty); status != 422 || !strings.Contains(page, "reason") {
		t.Errorf("nothing filled in: %d", status)
	}
	typed := form(page, "approved")
	typed.Set("field.reason", "late")
	typed.Set("field.copies", "two")
	typed.Set("field.note", "7")
	status, _, page := b.page(http.MethodPost, link, typed)
	if status != 422 || !strings.Contains(page, "<option selected>late</option>") || !strings.Contains(page, `value="two"`) || !strings.Contains(html.UnescapeString(page), "$.copies") {
		t.Errorf("copies that are no number: %d %s", status, page)
	}
	typed.Set("field.copies", "2")
	typed.Set("field.urgent", "true")
	if status, _, page := b.page(http.MethodPost, link, typed); status != 200 {
		t.Errorf("filled in: %d %s", status, page)
	}
	if told := b.decision(a.ApprovalID); string(told.Args) != `{"amount":500,"copies":2,"note":"7","order":1234567890123456789,"reason":"late","urgent":true}` || told.By != "ann" {
		t.Errorf("the run is told %s by %s", told.Args, told.By)
	}
	m := approvals.TellAsked(approvals.Request{Kind: events.ApprovalAction, Args: a.Args, Rule: a.Rule})
	if m.Ask == nil || len(m.Ask.Choices) != 1 || m.Ask.Choices[0].Action != events.Reject || m.Facts[len(m.Facts)-1].Name != "to fill in" {
		t.Errorf("in a channel it is asked %+v with %+v", m.Ask, m.Facts)
	}
	g := approvals.Grant{Tool: "refund", Maker: approvals.Maker{Name: "ann"}}
	if _, ok := g.Allows(approvals.Request{Kind: events.ApprovalAction, Tool: "refund", Args: a.Args, Rule: a.Rule}); ok {
		t.Error("a grant fills in nothing and allows it")
	}
}
