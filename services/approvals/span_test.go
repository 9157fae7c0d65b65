package approvals_test

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/approvals"
)

func TestSpansOf(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 28, 7, 30, 0, 0, time.UTC) // the night that follows has 23 hours in Berlin
	ann := approvals.Person{Name: "ann", Role: "approver"}
	r := approvals.Request{State: approvals.StatePending, ExpiresAt: now.Add(72 * time.Hour)}
	berlin := &spec.Digest{At: "08:00", TimeZone: "Europe/Berlin"}
	deferred, soon, ended, others := r, r, r, r
	deferred.DeferredUntil = now.Add(time.Hour)
	soon.ExpiresAt = now.Add(3 * time.Hour)
	ended.State = events.Reject
	others.Rule = &events.DecisionRule{Deciders: []events.Deciders{{Users: []string{"ben"}}}}
	for name, tc := range map[string]struct {
		r      approvals.Request
		digest *spec.Digest
		want   string
	}{
		"open":          {r, nil, "defer-1h defer-4h Put off to Sat 08:00 UTC"},
		"with a digest": {r, berlin, "defer-1h defer-4h Put off to Sun 08:00 CEST"},
		"put off":       {deferred, nil, "defer-1h defer-4h Put off to Sat 08:00 UTC defer-end"},
		"expires soon":  {soon, berlin, "defer-1h"},
		"ended":         {ended, nil, ""},
		"others decide": {others, nil, ""},
	} {
		var got []string
		for _, s := range approvals.SpansOf(tc.r, ann, tc.digest, now) {
			if s.Action == "defer-morning" {
				s.Action = s.Label
			}
			got = append(got, s.Action)
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	if next := berlin.Next(now); !next.Equal(time.Date(2026, 3, 29, 6, 0, 0, 0, time.UTC)) {
		t.Errorf("the next morning is %s", next)
	}
}

// Behind a link a request is put off without JavaScript, in the name of the link's person.
func TestDefer_BehindALink(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.financed(newOutside(t))
	a := b.ask(in("reviewers"), ruled(events.DecisionRule{Deciders: []events.Deciders{{Groups: []string{"finance"}}}, CommentRequired: true}), expiresIn(2*time.Hour))
	address := b.link(a, "ann")
	_, _, page := b.page(http.MethodGet, address, nil)
	if !strings.Contains(page, `value="defer-1h"`) || strings.Contains(page, `value="defer-4h"`) {
		t.Fatalf("it expires in two hours, and the page offers\n%s", page)
	}
	post := func(address string, f url.Values) (int, string) {
		f.Set("comment", "after lunch")
		status, _, out := b.page(http.MethodPost, address, f)
		return status, html.UnescapeString(out)
	}
	for name, tc := range map[string]struct {
		address string
		form    url.Values
		status  int
	}{
		"beyond its end":     {address, form(page, "defer-4h"), 422},
		"no span":            {address, form(page, "defer-99y"), 422},
		"not from the page":  {address, url.Values{"decision": {"defer-1h"}}, 422},
		"who may not decide": {b.link(a, "ben"), shownForm(b.link(a, "max"), a, "defer-1h"), 403},
	} {
		if status, out := post(tc.address, tc.form); status != tc.status {
			t.Errorf("%s: %d, want %d\n%s", name, status, tc.status, out)
		}
	}
	if got := b.listed("only"); len(got) != 0 {
		t.Fatalf("%v is put off", got)
	}
	status, out := post(address, form(page, "defer-1h"))
	if status != 200 || !strings.Contains(out, "It is put off until ") || !strings.Contains(out, " by ann. You are told again then") || !strings.Contains(out, `value="defer-end"`) || !strings.Contains(out, `value="approved"`) {
		t.Errorf("%d\n%s", status, out)
	}
	if got := b.listed("only"); !slices.Equal(got, []events.ApprovalID{a.ApprovalID}) {
		t.Errorf("%v is put off", got)
	}
	if status, out := post(address, form(out, "defer-end")); status != 200 || !strings.Contains(out, "in the inbox again") {
		t.Errorf("%d\n%s", status, out)
	}
	if n := b.count(`SELECT count(*) FROM approvals.audit WHERE approval_id = $1 AND kind = 'deferred' AND actor = 'ann' AND door = 'link' AND detail LIKE $2`, string(a.ApprovalID), "%"+string(events.DigestOf([]byte("after lunch")))+"%"); n != 2 {
		t.Errorf("the audit has %d deferrals, want 2", n)
	}
	b.withdraw(a, "over")
	b.waitState(a.ApprovalID, events.Withdrawn)
	if status, out := post(address, form(page, "defer-1h")); status != 409 || !strings.Contains(out, "It was not put off") {
		t.Errorf("ended: %d\n%s", status, out)
	}
}

// In Slack a click puts off, or gives who clicked a page of their own; both in the name
// that Slack signed, and by the rule.
func TestSlack_ClicksThatDecideNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := newOutside(t)
	b.financed(o)
	a := b.ask(refund, in("reviewers"), ruled(events.DecisionRule{Deciders: []events.Deciders{{Groups: []string{"finance"}}}}))
	eventually(t, "Slack has it", func() bool { return len(o.at(chatPost)) == 1 })
	if text := string(o.at(chatPost)[0].body); !strings.Contains(text, `"action_id":"defer-4h"`) || !strings.Contains(text, `"action_id":"open"`) || strings.Contains(text, approvals.LinkPath) {
		t.Errorf("told as %s", text)
	}
	more := func(user, action, text string) string {
		t.Helper()
		before := len(o.at("/actions/" + user))
		body := strings.Replace(string(click(o, a, user, action, text)), "holdfast_decide", "holdfast_more", 1)
		if got := b.fromSlack([]byte(body), time.Now()); got != 200 {
			t.Fatalf("%s by %s: %d", action, user, got)
		}
		eventually(t, user+" is answered", func() bool { return len(o.at("/actions/"+user)) == before+1 })
		return string(o.at("/actions/" + user)[before].body)
	}
	for _, action := range []string{"open", "defer-4h"} {
		for user, want := range map[string]string{"U0EVE": "not among the people", "U0BEN": "group finance"} {
			if told := more(user, action, ""); !strings.Contains(told, want) || strings.Contains(told, approvals.LinkPath) {
				t.Errorf("%s by %s: %s", action, user, told)
			}
		}
	}
	if n := b.count("SELECT count(*) FROM approvals.links"); n != 0 || len(b.listed("only")) != 0 {
		t.Fatalf("%d links, put off %v", n, b.listed("only"))
	}
	if told := more("U0ANN", "defer-99y", ""); !strings.Contains(told, "not put off by") {
		t.Errorf("told %s", told)
	}
	if told := more("U0ANN", "defer-4h", "after lunch"); !strings.Contains(told, "It is put off until ") || !strings.Contains(told, " by ann; ") || !strings.Contains(told, `"response_type":"ephemeral"`) {
		t.Errorf("told %s", told)
	}
	if got := b.show(a.ApprovalID); got.DeferredBy != "ann" || got.State != approvals.StatePending {
		t.Errorf("%+v", got)
	}
	if n := b.count(`SELECT count(*) FROM approvals.audit WHERE approval_id = $1 AND kind = 'deferred' AND actor = 'ann' AND door = 'slack'`, string(a.ApprovalID)); n != 1 {
		t.Errorf("the audit has %d deferrals, want 1", n)
	}
	told := more("U0ANN", "open", "")
	link := regexp.MustCompile(`"url":"([^"]+)"`).FindStringSubmatch(told)
	if link == nil || !strings.HasPrefix(link[1], b.url+approvals.LinkPath) || !strings.Contains(told, `"response_type":"ephemeral"`) || !strings.Contains(told, `"replace_original":false`) {
		t.Fatalf("told %s", told)
	}
	// Slack tells of a click that follows the link; it does nothing.
	if got := b.fromSlack([]byte(strings.Replace(string(click(o, a, "U0ANN", "open", "")), "holdfast_decide", "holdfast_open", 1)), time.Now()); got != 200 {
		t.Errorf("following the link: %d", got)
	}
	// The page is ann's: what is changed there is hers.
	_, _, page := b.page(http.MethodGet, link[1], nil)
	f := form(page, "edit")
	f.Set("args", makes50)
	_, _, shown := b.page(http.MethodPost, link[1], f)
	confirm, _, _ := strings.Cut(shown[strings.Index(shown, `name="nonce"`)-len(`<input type="hidden" `):], "</form>")
	f = form(confirm, events.Approve)
	f.Set("args", html.UnescapeString(f.Get("args")))
	if status, _, out := b.page(http.MethodPost, link[1], f); status != 200 {
		t.Fatalf("%d\n%s", status, out)
	}
	if d := b.decision(a.ApprovalID); d.By != "ann" || string(d.Args) != makes50 {
		t.Errorf("the run is told %+v", d)
	}
	if told := more("U0ANN", "defer-1h", ""); !strings.Contains(told, "already decided") {
		t.Errorf("told %s", told)
	}
	if !json.Valid([]byte(told)) || b.count("SELECT count(*) FROM approvals.links") != 1 {
		t.Error(fmt.Sprint("links: ", b.count("SELECT count(*) FROM approvals.links")))
	}
}
