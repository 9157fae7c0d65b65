package runner

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// A notice follows from the row and the run, so a repeat is the same notice; only
// what somebody wants is told.
func TestNotices_FollowFromRows(t *testing.T) {
	t.Parallel()
	s, _ := capped(t, spec.AgentBudget{})
	row := func(kind string, body any) Fact { return Fact{Seq: 9, Kind: kind, Data: mustJSON(body)} }
	problem := &events.Problem{Code: "x", Message: "y"}
	wanted := &spec.Notify{On: []string{events.NoticeFailed, events.NoticeNeedsAttention, events.NoticeApprovalExpired, events.NoticeCompleted, events.NoticeExpired}, Channel: "ops"}
	ref := events.Ref{Kind: events.KindAgent, Name: "clerk"}
	for name, tc := range map[string]struct {
		row    Fact
		reason string
		err    *events.Problem
	}{
		"a failure":               {row(events.FactFailed, events.Ending{Error: problem}), events.NoticeFailed, problem},
		"parked":                  {row(events.FactAttention, events.Ending{Error: problem}), events.NoticeNeedsAttention, problem},
		"out of time":             {row(events.FactExpired, events.Ending{Error: problem}), events.NoticeExpired, problem},
		"a result":                {row(events.FactCompleted, events.Ending{Output: []byte(`1`)}), events.NoticeCompleted, nil},
		"nobody answered":         {row(events.FactApprovalDecided, events.ApprovalDecision{ApprovalID: "a1", Decision: events.Expired}), events.NoticeApprovalExpired, nil},
		"somebody answered":       {row(events.FactApprovalDecided, events.ApprovalDecision{ApprovalID: "a1", Decision: events.Approve}), "", nil},
		"a cancel":                {row(events.FactCancelled, events.Ending{}), "", nil},
		"a late result of failed": {row(events.FactLateResult, events.LateResult{}), "", nil},
	} {
		got := address(dueNotices(s, []Fact{tc.row}), s.RunID, "default", ref, wanted)
		if tc.reason == "" {
			if len(got) != 0 {
				t.Errorf("%s: %+v, want nothing", name, got)
			}
			continue
		}
		want := []events.Notice{{NoticeID: events.RunNotice(s.RunID, tc.reason), Namespace: "default", Channel: "ops", Reason: tc.reason, RunID: s.RunID, Kind: events.KindAgent, Name: "clerk", Error: tc.err}}
		if tc.reason == events.NoticeApprovalExpired {
			want[0].ApprovalID = "a1"
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
		if !events.ValidToken(string(got[0].NoticeID)) {
			t.Errorf("%s is no token of a subject", got[0].NoticeID)
		}
		if none := address(dueNotices(s, []Fact{tc.row}), s.RunID, "default", ref, &spec.Notify{On: []string{"else"}, Channel: "ops"}); len(none) != 0 {
			t.Errorf("%s: told although nobody wants it: %+v", name, none)
		}
	}
}

// Every question of a run says where people are asked, and none when the definition
// names nowhere.
func TestOutgoing_AskNamesItsChannel(t *testing.T) {
	t.Parallel()
	s, plan := capped(t, spec.AgentBudget{})
	call := events.AskedCall{CallID: "c", ApprovalID: "a", Tool: "change", Route: events.RouteAsk}
	for channel, approvals := range map[string]*spec.Approvals{"": nil, "reviewers": {Channel: "reviewers"}} {
		plan.Agent.Approvals = approvals
		o := &outbox{s: s, plan: plan, f: Fact{Seq: 2}}
		o.ask(call)
		o.askDoubt(&Call{AskedCall: call}, "d", events.ToolCompleted{})
		if len(o.out) != 2 {
			t.Fatalf("%d messages, want 2", len(o.out))
		}
		for _, m := range o.out {
			var ask events.AskApproval
			if err := events.Decode(m, &ask); err != nil || ask.Channel != channel {
				t.Errorf("%s: channel %q (%v), want %q", m.ID, ask.Channel, err, channel)
			}
		}
	}
}
