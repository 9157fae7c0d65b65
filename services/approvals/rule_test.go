package approvals_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

// financed defines a Slack channel whose ann is in the group finance and whose ben
// is not.
func (b *bench) financed(o *outside) {
	b.t.Helper()
	b.book.apply(b.t, "reviewers", fmt.Sprintf("  slack: {token: {env: BOT}, channel: C0123456789, signingSecret: {env: SIGN}, baseURL: %q}\n"+
		"  people: [{name: ann, slack: U0ANN, groups: [finance]}, {name: ben, slack: U0BEN}]\n", o.URL), map[string]string{"BOT": "xoxb-very-secret", "SIGN": slackSecret})
}

func ruled(r events.DecisionRule) func(*events.AskApproval) {
	return func(a *events.AskApproval) { a.Rule = &r }
}

// shownForm is the form of a link's page that shows a.
func shownForm(link string, a events.AskApproval, decision string) url.Values {
	m := hmac.New(sha256.New, []byte(link[strings.LastIndexByte(link, '/')+1:]))
	m.Write([]byte("holdfast decide\n" + string(a.Digest)))
	return url.Values{"decision": {decision}, "shown": {string(a.Digest)}, "nonce": {hex.EncodeToString(m.Sum(nil))}}
}

// Who may decide holds at every door: what is in a body changes nothing.
func TestRule_HoldsAtEveryDoor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := newOutside(t)
	b.financed(o)
	finance := events.DecisionRule{Deciders: []events.Deciders{{Groups: []string{"finance"}}}, RequesterDenied: true}
	a := b.ask(in("reviewers"), ruled(finance), func(a *events.AskApproval) { a.Requester = "fin" })
	refused := func(door string, err error) {
		t.Helper()
		e, ok := errors.AsType[*client.Error](err)
		if !ok || e.Status != http.StatusForbidden || e.Code != "not_allowed" || !strings.Contains(e.Detail, "you may not decide") {
			t.Errorf("%s: %v", door, err)
		}
	}
	for _, d := range []string{"approve", "reject"} {
		_, err := b.as("ben").Decide(t.Context(), a.ApprovalID, client.Decision{Decision: d, Digest: a.Digest})
		refused("ben at the API", err)
		_, err = b.as("fin").Decide(t.Context(), a.ApprovalID, client.Decision{Decision: d, Digest: a.Digest})
		refused("who started the run", err)
	}
	// Nor do they read what it is about; an admin and who started the run do.
	for who, hidden := range map[string]bool{"ben": true, "vic": true, "fin": false, "max": false, "adm": false} {
		got, err := b.as(who).Approval(t.Context(), a.ApprovalID)
		list, err2 := b.as(who).Approvals(t.Context(), client.ApprovalFilter{}, client.PageRequest{})
		if err != nil || err2 != nil || len(list.Items) != 1 {
			t.Fatalf("%s: %v, %v, %d items", who, err, err2, len(list.Items))
		}
		for _, seen := range []client.Approval{got, list.Items[0]} {
			raw := fmt.Sprintf("%s %s %s %s %v", seen.Args, seen.Summary, seen.Key, seen.Digest, seen.Labels)
			if seen.Hidden != hidden || strings.Contains(raw, "9007199254740993") == hidden || hidden && (strings.Contains(raw, "Shop") || seen.Digest != "" || seen.Key != "" || len(seen.Labels) > 0) {
				t.Errorf("%s, hidden %t, sees %s", who, seen.Hidden, raw)
			}
			if seen.State != approvals.StatePending || seen.Rule.String() != finance.String() {
				t.Errorf("%s does not see that it waits for finance: %+v", who, seen)
			}
		}
	}
	bens := b.link(a, "ben")
	if status, _, page := b.page(http.MethodGet, bens, nil); status != http.StatusForbidden || strings.Contains(page, "9007199254740993") {
		t.Errorf("ben opens %d %s", status, page)
	}
	if status, _, page := b.page(http.MethodPost, bens, shownForm(bens, a, events.Approve)); status != http.StatusForbidden || strings.Contains(page, "9007199254740993") {
		t.Errorf("ben's link: %d %s", status, page)
	}
	if got := b.fromSlack(click(o, a, "U0BEN", events.Approve, ""), time.Now()); got != 200 {
		t.Errorf("ben's click: %d", got)
	}
	eventually(t, "ben is told", func() bool { return len(o.at("/actions/U0BEN")) == 1 })
	if told := string(o.at("/actions/U0BEN")[0].body); !strings.Contains(told, "group finance") {
		t.Errorf("ben is told %s", told)
	}
	if n := b.count(`SELECT count(*) FROM approvals.decisions WHERE approval_id = $1 AND outcome = 'not_allowed'`, string(a.ApprovalID)); n != 5 {
		t.Errorf("the record has %d refused attempts, want 5: what the link's page refuses is no attempt", n)
	}
	// A yes says what was shown, and comes from who may.
	_, err := b.as("max").Decide(t.Context(), a.ApprovalID, client.Decision{Decision: "approve"})
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != "digest_mismatch" {
		t.Errorf("a yes without a digest: %v", err)
	}
	if s := b.show(a.ApprovalID).State; s != approvals.StatePending {
		t.Fatalf("it is %s", s)
	}
	if got := b.fromSlack(click(o, a, "U0ANN", events.Approve, ""), time.Now()); got != 200 {
		t.Errorf("ann's click: %d", got)
	}
	if got, err := b.as("max").Approval(t.Context(), a.ApprovalID); err != nil || got.State != events.Approve || got.DecidedBy != "ann" || got.Rule.String() != finance.String() || got.Requester != "fin" {
		t.Errorf("%+v", got)
	}
	// The groups are the channel's of now.
	a = b.ask(in("reviewers"), ruled(finance))
	b.reviewers(o)
	b.fromSlack(click(o, a, "U0ANN", events.Approve, ""), time.Now())
	eventually(t, "ann is told", func() bool { return len(o.at("/actions/U0ANN")) == 1 })
	if got, err := b.as("max").Decide(t.Context(), a.ApprovalID, client.Decision{Decision: "approve", Digest: a.Digest}); err != nil || got.DecidedBy != "max" {
		t.Errorf("max: %+v, %v", got, err)
	}
}
