package approvals_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// A program and a room get what a request is about when those who stand behind them may
// decide it, and else that it waits and for whom.
func TestRule_ChannelsTellWhatTheirPeopleMayRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := newOutside(t)
	const finance, other = "{name: ann, slack: U0ANN, groups: [finance]}", "{name: ben, slack: U0BEN}"
	b.book.apply(t, "reviewers", "  slack: {token: {env: BOT}, channel: C0123456789, signingSecret: {env: SIGN}}\n", map[string]string{"BOT": "xoxb-very-secret", "SIGN": slackSecret, "HOOK": "whsec_" + hookSecret})
	apply := func(name, kind, people string) {
		b.book.apply(t, name, fmt.Sprintf(kind, o.URL+"/"+name)+"  people: ["+people+"]\n", nil)
	}
	const hook, room = "  webhook: {url: %q, secrets: [{env: HOOK}]}\n", "  slack: {token: {env: BOT}, channel: C0123456789, signingSecret: {env: SIGN}, baseURL: %q}\n"
	rule := ruled(events.DecisionRule{Deciders: []events.Deciders{{Groups: []string{"finance"}}}})
	for _, tc := range []struct {
		name, kind, people string
		told               bool
	}{
		{"program", hook, "", false},
		{"program-of-ann", hook, finance, true},
		{"program-of-both", hook, finance + ", " + other, false},
		{"room", room, "", false},
		{"room-of-ben", room, other, false},
		{"room-of-both", room, finance + ", " + other, true},
	} {
		apply(tc.name, tc.kind, tc.people)
		path := "/" + tc.name
		if tc.kind == room {
			path += chatPost
		}
		a := b.ask(in(tc.name), rule)
		eventually(t, tc.name+" is told", func() bool { return len(o.at(path)) == 1 })
		text := string(o.at(path)[0].body)
		for _, detail := range []string{"9007199254740993", "Shop A", string(a.Digest), a.Key, `"shop"`} {
			if strings.Contains(text, detail) != tc.told && !(tc.kind == room && detail == `"shop"`) {
				t.Errorf("%s is told %s: %t\n%s", tc.name, detail, !tc.told, text)
			}
		}
		if !tc.told && (!strings.Contains(text, "pricing asks about propose_price") || !strings.Contains(text, string(a.ApprovalID)) || strings.Contains(text, "action_id")) {
			t.Errorf("%s is told %s", tc.name, text)
		}
		if !tc.told && tc.kind == room && !strings.Contains(text, "group finance") {
			t.Errorf("%s is not told who decides: %s", tc.name, text)
		}
		// A rule that names nobody hides nothing.
		b.ask(in(tc.name), ruled(events.DecisionRule{Quorum: 2}))
		eventually(t, tc.name+" is told again", func() bool { return len(o.at(path)) == 2 })
		if text := string(o.at(path)[1].body); !strings.Contains(text, "9007199254740993") {
			t.Errorf("%s is told %s", tc.name, text)
		}
	}
}

// Lists and groups record whom they gave details of what, once, and nothing of what they
// hide.
func TestAudit_ListsSayWhatTheyShowed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	open := b.ask()
	ruled := b.ask(ruled(events.DecisionRule{Deciders: []events.Deciders{{Groups: []string{"finance"}}}}), toolOf("send_mail"))
	shown := func(a events.AskApproval, who string) int {
		return b.count("SELECT count(*) FROM approvals.audit WHERE kind = 'shown' AND approval_id = $1 AND actor = $2 AND door = 'api'", string(a.ApprovalID), who)
	}
	for range 2 {
		for _, who := range []string{"ben", "max"} {
			if list, err := b.as(who).Approvals(t.Context(), client.ApprovalFilter{}, client.PageRequest{}); err != nil || len(list.Items) != 2 {
				t.Fatalf("%v, %v", list, err)
			}
		}
	}
	for range 2 {
		if groups, err := b.as("fin").ApprovalGroups(t.Context(), "tool", "", client.PageRequest{}); err != nil || len(groups.Items) != 2 {
			t.Fatalf("%v, %v", groups, err)
		}
	}
	for who, want := range map[string][2]int{"ben": {1, 0}, "max": {1, 1}, "fin": {1, 1}, "opa": {0, 0}} {
		if got := [2]int{shown(open, who), shown(ruled, who)}; got != want {
			t.Errorf("the record says that %s saw %v, want %v", who, got, want)
		}
	}
	rows, head := b.audited("adm", client.AuditFilter{})
	if bad := verified(rows, &head); len(bad) > 0 {
		t.Errorf("the chain: %v", bad)
	}
}
