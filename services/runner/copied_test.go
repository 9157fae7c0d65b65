package runner

import (
	"encoding/json"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// What another run said is not said again: of a row that a fork took over nothing
// goes out but its event, whatever it sent when it was new.
func TestFork_CopiedRowsSendNothing(t *testing.T) {
	t.Parallel()
	plan, body := purePlan(t)
	s := NewState(testRun, "default")
	var rows []Fact
	sent := 0
	take := func(d Decision, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		s, rows = d.State, append(rows, d.Facts...)
		for _, f := range d.Facts {
			out, err := Outgoing(s, plan, f)
			if err != nil {
				t.Fatal(err)
			}
			sent += len(out) - 1
		}
	}
	done := func(c *Call, status string) {
		t.Helper()
		r := &events.ToolCompleted{CallID: c.CallID, RunID: testRun, Tool: c.Tool, Status: status, InDoubt: "ask", Result: json.RawMessage(`1`)}
		take(Decide(s, plan, Input{Cause: "tool:" + string(c.CallID) + status, Type: events.TypeToolCompleted, Tool: r, Original: r}, "w", testTime))
	}
	decide := func(c *Call, kind, decision string, id events.ApprovalID) {
		t.Helper()
		d := &events.ApprovalDecision{ApprovalID: id, Kind: kind, RunID: testRun, CallID: c.CallID, Decision: decision, Digest: c.Bind, Result: json.RawMessage(`1`)}
		take(Decide(s, plan, Input{Cause: "decision:" + string(id), Type: events.TypeApprovalDecided, Decided: d, Original: d}, "w", testTime))
	}
	take(Decide(s, plan, Input{Cause: "start", Start: &Start{Body: body}}, "w", testTime))
	take(DecideAnswer(s, plan, Answer{StopReason: StopTools, Raw: `{}`, Calls: []ModelCall{
		{ProviderID: "p", Tool: "look", Args: json.RawMessage(`{}`)}, {ProviderID: "q", Tool: "change", Args: json.RawMessage(`{}`)}}}, Claimed{Worker: "w", Epoch: 1}, testTime))
	look, change := s.CallsInOrder(0)[0], s.CallsInOrder(0)[1]
	done(look, events.CallSucceeded)
	decide(change, events.ApprovalAction, events.Approve, change.ApprovalID)
	done(change, events.CallUnknown) // a person is asked
	decide(change, events.ApprovalDoubt, events.Happened, s.Calls[change.CallID].Doubt)
	done(change, events.CallSucceeded)
	if sent < 5 { // call, question, call, doubt, settlement, withdrawal
		t.Fatalf("the run itself sent only %d messages", sent)
	}

	fork := &decision{state: NewState(events.NewRunID(), "default"), cause: "command:f", worker: "w", now: testTime}
	if err := fork.fork(events.ForkRun{ID: "f", From: testRun, AcceptedAt: testTime}, Past{Namespace: "default", Rows: rows}, plan); err != nil {
		t.Fatal(err)
	}
	if got := fork.state.Started.Origin.Row; got != int64(len(rows)) {
		t.Fatalf("the fork took %d rows of %d", got, len(rows))
	}
	// And nobody is told again of what people were told of the other run.
	for _, tc := range []struct {
		seq  int64
		want int
	}{{int64(len(rows)), 0}, {int64(len(rows)) + 2, 1}} {
		if told := dueNotices(fork.state, []Fact{{Seq: tc.seq, Kind: events.FactAttention, Data: json.RawMessage(`{}`)}}); len(told) != tc.want {
			t.Errorf("of row %d people are told %d times, want %d", tc.seq, len(told), tc.want)
		}
	}
	for _, f := range fork.facts {
		out, err := Outgoing(fork.state, plan, f)
		if err != nil || len(out) != 1 || out[0].Type != events.TypeRunEvent {
			t.Errorf("row %d %s of the fork sends %d messages (%v): %+v", f.Seq, f.Kind, len(out), err, out)
		}
	}
}
