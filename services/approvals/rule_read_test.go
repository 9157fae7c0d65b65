package approvals_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// Groups, the preview of a change and mail give what a request is about to nobody who
// may not decide it.
func TestRule_GroupsChangesAndMailAreForWhoMayDecide(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.book.apply(t, "mail", `  email: {server: "127.0.0.1:1", from: a@example.com, to: [all@example.com]}
  people: [{name: ann, email: ann@example.com, groups: [finance]}, {name: ben, email: ben@example.com}]
`, nil)
	a := b.ask(in("mail"), ruled(events.DecisionRule{Deciders: []events.Deciders{{Groups: []string{"finance"}}}}))
	for who, hidden := range map[string]bool{"ben": true, "vic": true, "max": false} {
		groups, err := b.as(who).ApprovalGroups(t.Context(), "tool", "", client.PageRequest{})
		if err != nil || len(groups.Items) != 1 {
			t.Fatalf("%s: %+v, %v", who, groups.Items, err)
		}
		s := groups.Items[0].Sample
		if s.Hidden != hidden || strings.Contains(string(s.Args), "9007199254740993") == hidden {
			t.Errorf("%s sees the group's %s, hidden %t", who, s.Args, s.Hidden)
		}
	}
	edit := func(who string) *client.Error {
		_, err := b.as(who).PreviewEdit(t.Context(), a.ApprovalID, json.RawMessage(`{"id":1}`))
		e, _ := errors.AsType[*client.Error](err)
		return e
	}
	if e := edit("ben"); e == nil || e.Status != 403 || e.Code != "not_allowed" || strings.Contains(e.Detail, "9007199254740993") {
		t.Errorf("ben previews a change: %+v", e)
	}
	if e := edit("max"); e != nil && e.Code == "not_allowed" {
		t.Errorf("max may not preview a change: %v", e)
	}
	eventually(t, "ann has a message", func() bool {
		return b.count(`SELECT count(*) FROM approvals.notices WHERE approval_id = $1 AND person = 'ann' AND attempts > 0`, string(a.ApprovalID)) == 1
	})
	if n := b.count(`SELECT count(*) FROM approvals.notices WHERE approval_id = $1 AND person NOT IN ('', 'ann')`, string(a.ApprovalID)); n != 0 {
		t.Errorf("%d messages to somebody who may not decide", n)
	}
}
