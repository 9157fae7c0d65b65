package approvals_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

// browse opens or posts a page as who is signed in.
func (b *bench) browse(who, method, path string, form url.Values) (int, string) {
	b.t.Helper()
	status, _, page := b.page(method, b.url+path, form, func(r *http.Request) {
		r.Header.Set("Cookie", "holdfast_session="+who)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	})
	return status, html.UnescapeString(page)
}

func ticks(page string) (out []string) {
	for _, m := range regexp.MustCompile(`name="item" value="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		out = append(out, m[1])
	}
	return out
}

// The inbox shows previews in groups, hides in words what others decide, and decides
// what was ticked each by itself, with the digest that was shown.
func TestPages_TheInboxDecidesWhatWasTicked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	evil := `<script>alert(1)</script>` + "\u202e"
	plain := b.ask(func(a *events.AskApproval) {
		a.Preview, a.Labels = "Shop A: 24.90 → 22.90 "+evil, map[string]string{evil: evil}
	})
	second, deferred := b.ask(), b.ask()
	wanted := b.ask(ruled(events.DecisionRule{CommentRequired: true, Quorum: 2}))
	secret := b.ask(toolOf("send_mail"), ruled(events.DecisionRule{Deciders: []events.Deciders{{Groups: []string{"finance"}}}}))
	unclear := b.ask(doubt)
	for _, by := range []string{"", "?by=agent", "?by=tool", "?by=similarity", "?group=tool:propose_price"} {
		status, page := b.browse("ben", http.MethodGet, "/ui/approvals"+by, nil)
		if status != 200 || !strings.Contains(page, "Shop A: 24.90 → 22.90") || strings.Contains(page, "\u202e") || !strings.Contains(page, "0 of 2") {
			t.Errorf("%s: %d\n%s", by, status, page)
		}
		if by == "?group=tool:propose_price" {
			continue
		}
		_, rest, _ := strings.Cut(page, "pricing asks about send_mail")
		if rest, _, _ = strings.Cut(rest, "</li>"); !strings.Contains(rest, "Others decide this: you see that it waits, not what is in it") || !strings.Contains(rest, "group finance") ||
			strings.Contains(rest, "9007199254740993") || strings.Contains(page, string(secret.Digest)) {
			t.Errorf("%s: ben sees of what others decide: %s", by, rest)
		}
	}
	if status, raw, _ := b.page(http.MethodGet, b.url+"/ui/approvals", nil); status != 401 {
		t.Errorf("nobody: %d %s", status, raw)
	}
	if _, _, raw := b.page(http.MethodGet, b.url+"/ui/approvals", nil, func(r *http.Request) { r.Header.Set("Authorization", "Bearer ann") }); strings.Count(raw, "<script") != 1 {
		t.Error("a script that is not the page's own, or none: text is markup")
	}
	if _, page := b.browse("max", http.MethodGet, "/ui/approvals?by=tool", nil); !strings.Contains(page, string(secret.ApprovalID)+" "+string(secret.Digest)) {
		t.Error("who may decide it sees no more than others")
	}
	if _, page := b.browse("vic", http.MethodGet, "/ui/approvals?by=tool", nil); len(ticks(page)) != 0 || strings.Contains(page, "<button") {
		t.Error("who may only read is offered a decision")
	}

	_, page := b.browse("ben", http.MethodGet, "/ui/approvals?by=tool", nil)
	if got := ticks(page); len(got) != 4 {
		t.Fatalf("ben may tick %v, want the four actions that he may decide", got)
	}
	for name, bad := range map[string]url.Values{"nothing ticked": {"do": {"approved"}}, "nothing to do": {"item": ticks(page)}, "no form of the page": {"do": {"wipe"}, "item": ticks(page)}} {
		if status, out := b.browse("ben", http.MethodPost, "/ui/approvals?by=tool", bad); status != 422 || !strings.Contains(out, "nothing was done") {
			t.Errorf("%s: %d", name, status)
		}
	}
	yes := url.Values{"do": {"approved"}, "comment": {""}, "item": {
		string(plain.ApprovalID) + " " + string(plain.Digest), string(second.ApprovalID) + " sha256:else", string(wanted.ApprovalID) + " " + string(wanted.Digest),
		string(secret.ApprovalID) + " " + string(secret.Digest), string(unclear.ApprovalID) + " " + string(unclear.Digest)}}
	if status, _, _ := b.page(http.MethodPost, b.url+"/ui/approvals", yes, func(r *http.Request) {
		r.Header.Set("Cookie", "holdfast_session=ben")
		r.Header.Set("Sec-Fetch-Site", "cross-site")
	}); status != 403 || b.show(plain.ApprovalID).State != approvals.StatePending {
		t.Fatalf("another site decides: %d", status)
	}
	status, out := b.browse("ben", http.MethodPost, "/ui/approvals?by=tool", yes)
	for _, want := range []string{"Stored: approved by ben at ", "through console", "not about the digest you confirmed", "needs a comment", "you may not decide approval", "is of kind doubt"} {
		if status != 200 || !strings.Contains(out, want) {
			t.Errorf("%d, without %q", status, want)
		}
	}
	if n := strings.Count(out, "Not done: "); n != 4 {
		t.Errorf("%d were not done, want 4", n)
	}
	if got := b.show(plain.ApprovalID); got.DecidedBy != "ben" || got.Door != approvals.DoorPage || b.decision(plain.ApprovalID).By != "ben" {
		t.Errorf("%+v", got)
	}
	for _, a := range []events.AskApproval{second, wanted, secret, unclear} {
		if got := b.show(a.ApprovalID); got.State != approvals.StatePending || len(got.Votes) != 0 {
			t.Errorf("%+v", got)
		}
	}
	if _, out := b.browse("ann", http.MethodPost, "/ui/approvals", yes); !strings.Contains(out, "decided so before: approved by ben") {
		t.Error("who is second is not told who was first")
	}
	// Together they are put off, out of the inbox.
	if _, out := b.browse("ben", http.MethodPost, "/ui/approvals?by=tool", url.Values{"do": {"defer"}, "span": {"defer-4h"}, "item": {string(deferred.ApprovalID) + " x"}}); !strings.Contains(out, "It is put off until ") {
		t.Error("it was not put off")
	}
	if _, in := b.browse("ben", http.MethodGet, "/ui/approvals?by=tool", nil); strings.Contains(in, string(deferred.ApprovalID)) {
		t.Error("what was put off is in the inbox")
	}
	if _, off := b.browse("ben", http.MethodGet, "/ui/approvals?deferred=only", nil); !strings.Contains(off, string(deferred.ApprovalID)) || !strings.Contains(off, " by ben") {
		t.Error("what was put off is nowhere")
	}
	if n := b.count("SELECT count(*) FROM approvals.audit WHERE kind = 'shown' AND door = 'console' AND actor = 'ben' AND approval_id IN ($1, $2)", string(plain.ApprovalID), string(secret.ApprovalID)); n != 1 {
		t.Errorf("the record has %d showings to ben of one that he saw and one that he did not", n)
	}
}

// The page of one request shows what a change comes to before it counts, who has said
// yes, and how it ended.
func TestPages_OneIsChangedPutOffAndDecided(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.ask(refund, ruled(events.DecisionRule{Deciders: []events.Deciders{{Users: []string{"ann", "max"}}}, Quorum: 2}))
	path := "/ui/approvals/" + string(a.ApprovalID)
	if status, page := b.browse("ben", http.MethodGet, path, nil); status != 200 || !strings.Contains(page, "Others decide this") || strings.Contains(page, "1234567890123456789") || strings.Contains(page, "<form") {
		t.Errorf("ben sees %d\n%s", status, page)
	}
	for _, f := range []url.Values{{"decision": {"edit"}, "args": {makes50}}, {"decision": {"approved"}, "shown": {string(a.Digest)}}, {"decision": {"defer-1h"}}} {
		if status, page := b.browse("ben", http.MethodPost, path, f); status != 403 || strings.Contains(page, "1234567890123456789") {
			t.Errorf("%v by ben: %d", f, status)
		}
	}
	_, page := b.browse("ann", http.MethodGet, path, nil)
	for _, want := range []string{"1234567890123456789", "ann or max", "0 of 2", `name="decision" value="edit"`, `value="defer-1h"`, `value="rejected"`} {
		if !strings.Contains(page, want) {
			t.Errorf("ann's page has no %q\n%s", want, page)
		}
	}
	if status, out := b.browse("ann", http.MethodPost, path, url.Values{"decision": {"edit"}, "args": {`{"amount":"50","order":1}`}}); status != 422 || !strings.Contains(out, "$.amount") {
		t.Errorf("what the tool would not take: %d", status)
	}
	_, shown := b.browse("ann", http.MethodPost, path, url.Values{"decision": {"edit"}, "args": {makes50}})
	for _, want := range []string{"refund 50 of order 1234567890123456789", "$.amount", "Approve with this change", `name="shown" value="` + string(bindRefund(makes50)) + `"`} {
		if !strings.Contains(shown, want) {
			t.Errorf("the preview has no %q", want)
		}
	}
	confirm := url.Values{"decision": {"approved"}, "args": {makes50}, "shown": {string(bindRefund(makes50))}}
	if status, _ := b.browse("ann", http.MethodPost, path, url.Values{"decision": {"approved"}, "args": {makes50}, "shown": {string(a.Digest)}}); status != 409 {
		t.Errorf("a change with the digest of what was asked: %d", status)
	}
	if status, _ := b.browse("ann", http.MethodPost, path, url.Values{"decision": {"defer-1h"}, "comment": {"later"}}); status != 200 { // behind its redirect
		t.Errorf("put off: %d", status)
	}
	if _, page := b.browse("ann", http.MethodGet, path, nil); !strings.Contains(page, "put off until ") || !strings.Contains(page, "defer-end") {
		t.Error("the page does not say that it is put off")
	}
	if status, _ := b.browse("ann", http.MethodPost, path, confirm); status != 200 { // behind its redirect
		t.Errorf("the first yes: %d", status)
	}
	if _, page := b.browse("max", http.MethodGet, path, nil); !strings.Contains(page, "1 of 2: ann (with other arguments)") {
		t.Error("max does not see who has said yes")
	}
	if status, _ := b.browse("max", http.MethodPost, path, confirm); status != 200 { // behind its redirect
		t.Errorf("the second yes: %d", status)
	}
	if d := b.decision(a.ApprovalID); string(d.Args) != makes50 || d.By != "max" || d.Digest != bindRefund(makes50) {
		t.Errorf("the run is told %+v", d)
	}
	_, page = b.browse("ann", http.MethodGet, path, nil)
	for _, want := range []string{"approved by max at ", "through console", "What was changed", "$.amount"} {
		if !strings.Contains(page, want) {
			t.Errorf("how it ended has no %q", want)
		}
	}
	if status, out := b.browse("ann", http.MethodPost, path, url.Values{"decision": {"rejected"}, "shown": {string(a.Digest)}}); status != 409 || !strings.Contains(out, "by max") {
		t.Errorf("too late: %d", status)
	}
	if status, _ := b.browse("ann", http.MethodGet, "/ui/approvals/nothing-like-it", nil); status != 404 {
		t.Errorf("what is not there: %d", status)
	}
	if status, _ := b.browse("zoe", http.MethodGet, path, nil); status != 404 {
		t.Errorf("another namespace's: %d", status)
	}
}

// What a form wants is filled in on the page, and a change that fills it in is confirmed
// as it was shown.
func TestPages_FormsAreFilledIn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	yes := func(a events.AskApproval, f url.Values) int {
		f.Set("decision", "approved")
		status, _ := b.browse("ann", http.MethodPost, "/ui/approvals/"+string(a.ApprovalID), f)
		return status
	}
	a := b.ask(filledRefund)
	if _, page := b.browse("ann", http.MethodGet, "/ui/approvals/"+string(a.ApprovalID), nil); !strings.Contains(page, `name="field.reason"`) || !strings.Contains(page, "needed for a yes") {
		t.Errorf("the page does not ask for it\n%s", page)
	}
	if status := yes(a, url.Values{"shown": {string(a.Digest)}}); status != 422 {
		t.Errorf("nothing filled in: %d", status)
	}
	if status := yes(a, url.Values{"shown": {string(a.Digest)}, "field.reason": {"late"}}); status != 200 || string(b.decision(a.ApprovalID).Args) != late {
		t.Errorf("filled in: %d", status)
	}
	a = b.ask(filledRefund)
	if status := yes(a, url.Values{"shown": {string(bindFilled(late))}, "args": {late}}); status != 200 || string(b.decision(a.ApprovalID).Args) != late {
		t.Errorf("a change that fills it in: %d", status)
	}
}
