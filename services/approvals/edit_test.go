package approvals_test

import (
	"context"
	"encoding/json"
	"fmt"
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

var refundDoc = sync.OnceValue(func() spec.Document {
	docs, err := spec.Parse("t.yaml", []byte(`
apiVersion: holdfast/v1
kind: Tool
metadata: {name: refund}
spec:
  description: gives money back
  effect: write
  approval: {when: "args.amount > 100"}
  preview: "refund ${args.amount} of order ${args.order}"
  input: {type: object, required: [order, amount], properties: {order: {type: integer}, amount: {type: integer}}}
  http: {method: POST, url: "http://h/refund", body: "${args}"}
`))
	if err != nil {
		panic(err)
	}
	return docs[0]
})

// refundTool is the catalog of tools of a test.
func refundTool(_ context.Context, _ string, digest events.Digest) (*spec.Tool, error) {
	if digest == formDoc().Digest {
		return formDoc().Tool, nil
	}
	if digest != refundDoc().Digest {
		return nil, fmt.Errorf("%w: %s", approvals.ErrNoTool, digest)
	}
	return refundDoc().Tool, nil
}

const (
	asked500 = `{"amount":500,"order":1234567890123456789}`
	makes50  = `{"amount":50,"order":1234567890123456789}`
)

func bindRefund(args string) events.Digest {
	return events.BindDigest("refund", refundDoc().Digest, events.DigestOf([]byte(args)), "when args.amount > 100")
}

// refund is an ask for giving 500 back.
func refund(a *events.AskApproval) {
	a.Tool, a.ToolDigest, a.Args, a.Digest = "refund", refundDoc().Digest, json.RawMessage(asked500), bindRefund(asked500)
	a.Summary = "bot wants to call refund"
}

func edit(args string, digest events.Digest) client.Decision {
	return client.Decision{Decision: "approve", Args: json.RawMessage(args), Digest: digest}
}

// What is previewed is confirmed by its digest, decided once and told to the run
// in the bytes that were shown.
func TestCaseE05_AnEditIsShownConfirmedAndDecidedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.ask(refund)
	ann := b.as("ann")
	shown, err := ann.PreviewEdit(t.Context(), a.ApprovalID, json.RawMessage(`{"order": 1234567890123456789, "amount": 5.0e1}`))
	if err != nil || string(shown.Args) != makes50 || shown.Digest != bindRefund(makes50) || len(shown.Problems) != 0 {
		t.Fatalf("%+v, %v", shown, err)
	}
	if shown.Preview != "refund 50 of order 1234567890123456789" {
		t.Errorf("what would be confirmed reads %q", shown.Preview)
	}
	if len(shown.Changes) != 1 || shown.Changes[0].Path != "$.amount" || string(shown.Changes[0].From) != "500" || string(shown.Changes[0].To) != "50" {
		t.Errorf("changes %+v", shown.Changes)
	}
	if b.show(a.ApprovalID).State != approvals.StatePending {
		t.Fatal("looking at an edit decided")
	}
	// Two edits in a row before anything is confirmed: only the digest of the last confirms the last.
	other, err := ann.PreviewEdit(t.Context(), a.ApprovalID, json.RawMessage(`{"amount":60,"order":1234567890123456789}`))
	if err != nil || other.Digest == shown.Digest {
		t.Fatalf("%+v, %v", other, err)
	}
	for name, tc := range map[string]struct {
		d    client.Decision
		code string
	}{
		"the digest of another edit":  {edit(makes50, other.Digest), "digest_mismatch"},
		"the digest of what was":      {edit(makes50, a.Digest), "digest_mismatch"},
		"none at all":                 {edit(makes50, ""), "invalid_input"},
		"a rejection with arguments":  {client.Decision{Decision: "reject", Args: json.RawMessage(makes50), Digest: shown.Digest}, "invalid_input"},
		"another type":                {edit(`{"amount":"50","order":1}`, shown.Digest), "unfit_answer"},
		"an unknown field":            {edit(`{"amount":50,"order":1,"tool":"wipe"}`, shown.Digest), "unfit_answer"},
		"no object":                   {edit(`[1]`, shown.Digest), "unfit_answer"},
		"a key twice":                 {edit(`{"amount":50,"amount":500,"order":1}`, shown.Digest), "unfit_answer"},
		"the yes to what was, edited": {client.Decision{Decision: "approve", Digest: shown.Digest}, "digest_mismatch"},
	} {
		if _, err := ann.Decide(t.Context(), a.ApprovalID, tc.d); codeOf(err) != tc.code {
			t.Errorf("%s: %v, want %s", name, err, tc.code)
		}
	}
	if got := b.show(a.ApprovalID); got.State != approvals.StatePending {
		t.Fatalf("it is %s", got.State)
	}
	done, err := ann.Decide(t.Context(), a.ApprovalID, edit(`{"order":1234567890123456789,"amount":50}`, shown.Digest))
	if err != nil || done.State != events.Approve || done.Edited == nil || string(done.Edited.Args) != makes50 || string(done.Args) != asked500 || done.Digest != a.Digest {
		t.Fatalf("%+v, %v", done, err)
	}
	told := b.decision(a.ApprovalID)
	if string(told.Args) != makes50 || told.Digest != shown.Digest || told.By != "ann" {
		t.Errorf("the run is told %+v", told)
	}
	if again, err := ann.Decide(t.Context(), a.ApprovalID, edit(makes50, shown.Digest)); err != nil || !again.Repeated {
		t.Errorf("the same again: %+v, %v", again, err)
	}
	for name, d := range map[string]client.Decision{
		"an edit behind the edit": edit(`{"amount":60,"order":1234567890123456789}`, other.Digest),
		"a plain yes":             {Decision: "approve"},
		"a plain yes as shown":    {Decision: "approve", Digest: a.Digest},
		"a no":                    {Decision: "reject"},
	} {
		_, err := b.as("ben").Decide(t.Context(), a.ApprovalID, d)
		if codeOf(err) != "already_decided" || !strings.Contains(err.Error(), "approved by ann") || !strings.Contains(err.Error(), "with other arguments") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// What every other service reads of the decision is the new digest.
	var digest, attempted string
	if err := b.admin.QueryRow(t.Context(), `SELECT r.digest, d.args::text FROM approvals.v_requests r JOIN approvals.decisions d USING (approval_id)
		WHERE approval_id = $1 AND d.outcome = 'decided'`, string(a.ApprovalID)).Scan(&digest, &attempted); err != nil || digest != string(shown.Digest) || attempted != makes50 {
		t.Errorf("the tools service reads %s, the record has %s (%v)", digest, attempted, err)
	}
}

// A yes beside an edit, both by many: one wins, and the run hears what won.
func TestCaseE05_EditsRace(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.ask(refund)
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := map[string]int{}
	for i := range 12 {
		args := fmt.Sprintf(`{"amount":%d,"order":1234567890123456789}`, 50+i%3)
		wg.Go(func() {
			d := edit(args, bindRefund(args))
			if i%3 == 2 {
				args, d = asked500, client.Decision{Decision: "approve", Digest: a.Digest}
			}
			if done, err := b.as("ann").Decide(t.Context(), a.ApprovalID, d); err == nil {
				mu.Lock()
				defer mu.Unlock()
				won[args]++
				if done.Edited != nil && string(done.Edited.Args) != args {
					t.Errorf("%s was answered with %s", args, done.Edited.Args)
				}
			} else if codeOf(err) != "already_decided" {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	told := b.decision(a.ApprovalID)
	ran := asked500
	if told.Args != nil {
		ran = string(told.Args)
	}
	if len(won) != 1 || won[ran] != 4 || told.Digest != bindRefund(ran) {
		t.Errorf("won: %v; told: %s with %s", won, ran, told.Digest)
	}
}

// What is no tool's call has nothing that could be edited.
func TestEdit_OnlyOfATool(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, a := range map[string]events.AskApproval{
		"a question of a flow":         b.ask(),
		"a doubt":                      b.ask(doubt),
		"bound to what nobody can say": b.ask(refund, func(a *events.AskApproval) { a.Digest = "sha256:else" }),
	} {
		_, err := b.as("ann").PreviewEdit(t.Context(), a.ApprovalID, json.RawMessage(makes50))
		_, decided := b.as("ann").Decide(t.Context(), a.ApprovalID, edit(makes50, bindRefund(makes50)))
		if codeOf(err) != "invalid_input" || codeOf(decided) != "invalid_input" || b.show(a.ApprovalID).State != approvals.StatePending {
			t.Errorf("%s: %v, %v", name, err, decided)
		}
	}
	fork := b.ask(refund, func(a *events.AskApproval) {
		a.Digest = events.BindDigest("refund", refundDoc().Digest, events.DigestOf([]byte(asked500)), events.RuleFork)
	})
	want := events.BindDigest("refund", refundDoc().Digest, events.DigestOf([]byte(makes50)), events.RuleFork)
	if p, err := b.as("ann").PreviewEdit(t.Context(), fork.ApprovalID, json.RawMessage(makes50)); err != nil || p.Digest != want {
		t.Errorf("in a fork: %+v, %v", p, err)
	}
	if _, err := b.as("vic").PreviewEdit(t.Context(), fork.ApprovalID, json.RawMessage(makes50)); client.StatusOf(err) != http.StatusForbidden {
		t.Errorf("who may only read: %v", err)
	}
}

// Behind a link, without JavaScript: the page shows what the text changes, and only
// the form that it then offers confirms that.
func TestCaseE05_EditedBehindALink(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.reviewers(newOutside(t))
	a := b.ask(refund, in("reviewers"))
	address := b.link(a, "ann")
	_, _, page := b.page(http.MethodGet, address, nil)
	if !strings.Contains(page, `<textarea name="args"`) || !strings.Contains(page, "1234567890123456789") {
		t.Fatalf("the page has no arguments to change:\n%s", page)
	}
	post := func(page, decision, args string) (int, string) {
		f := form(page, decision)
		f.Set("args", args)
		code, _, out := b.page(http.MethodPost, address, f)
		return code, out
	}
	for args, want := range map[string]string{
		`{"amount":"50","order":1}`:             "$.amount",
		`{"amount":50,"order":1,"tool":"wipe"}`: "$.tool: is not a field of the tool",
		`{"amount":`:                            "Nothing was done",
	} {
		if code, out := post(page, "edit", args); code != http.StatusUnprocessableEntity || !strings.Contains(html.UnescapeString(out), want) {
			t.Errorf("%s: %d, without %q", args, code, want)
		}
	}
	code, shown := post(page, "edit", "{\r\n \"order\": 1234567890123456789,\r\n \"amount\": 50 }")
	if code != http.StatusOK || !strings.Contains(shown, "$.amount: 500 → 50") || !strings.Contains(shown, string(bindRefund(makes50))) || !strings.Contains(shown, "<h1>refund 50 of order 1234567890123456789</h1>") {
		t.Fatalf("%d\n%s", code, shown)
	}
	confirm, _, _ := strings.Cut(shown[strings.Index(shown, `name="nonce"`)-len(`<input type="hidden" `):], "</form>")
	if code, _ := post(page, events.Approve, makes50); code != http.StatusConflict {
		t.Errorf("arguments with the digest of what was asked: %d", code)
	}
	if code, _ := post(confirm, events.Approve, `{"amount":51,"order":1234567890123456789}`); code != http.StatusConflict {
		t.Errorf("other arguments than the digest is of: %d", code)
	}
	if got := b.show(a.ApprovalID).State; got != approvals.StatePending {
		t.Fatalf("it is %s before anything was confirmed", got)
	}
	f := form(confirm, events.Approve)
	f.Set("args", html.UnescapeString(f.Get("args")))
	code, _, done := b.page(http.MethodPost, address, f)
	if code != http.StatusOK || !strings.Contains(done, "$.amount: 500 → 50") {
		t.Errorf("%d\n%s", code, done)
	}
	if told := b.decision(a.ApprovalID); string(told.Args) != makes50 || told.Digest != bindRefund(makes50) || told.By != "ann" {
		t.Errorf("the run is told %+v", told)
	}
}
