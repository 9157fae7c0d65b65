package runner

import (
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// An agent's policy sends calls to a person that their tools would send at once, and
// the ask carries who may decide and who started the run; the yes is bound to both.
func TestAsk_CarriesTheRule(t *testing.T) {
	t.Parallel()
	s, plan := capped(t, spec.AgentBudget{ModelCalls: 100})
	s.Started.Principal = "ines"
	plan.Agent.Approvals = &spec.Approvals{Policy: &spec.Approval{Mode: spec.ApprovalAlways,
		Rule: &spec.Rule{Deciders: &spec.Deciders{Groups: []string{"finance"}}, Requester: spec.RequesterDenied}}}
	d, err := DecideAnswer(s, plan, asked("look {}"), Claimed{}, testTime)
	if err != nil {
		t.Fatal(err)
	}
	var ask events.AskApproval
	for _, f := range d.Facts {
		out, err := Outgoing(d.State, plan, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range out {
			switch m.Type {
			case events.TypeCallTool:
				t.Errorf("%s was sent without a yes", m.ID)
			case events.TypeAskApproval:
				if err := events.Decode(m, &ask); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if ask.Requester != "ines" || ask.Rule == nil || ask.Rule.String() != "group finance, but not by who started the run" {
		t.Fatalf("asked by %q, %v", ask.Requester, ask.Rule)
	}
	tool := plan.Tools["look"]
	want := tool.Gate(plan.asking(), spec.GateCase{Args: ask.Args, Now: time.Time{}})
	if ask.Digest != events.BindDigest("look", ask.ToolDigest, events.DigestOf(ask.Args), want.Policy) {
		t.Errorf("bound to %s, not to %q", ask.Digest, want.Policy)
	}
}
