package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// lookThenChange asks for a read, then for a gated write, then ends.
func lookThenChange(_ context.Context, r runner.Request, n int) (runner.Answer, error) {
	switch len(r.Entries) {
	case 1:
		return asks(runner.ModelCall{Tool: "look", Args: json.RawMessage(`{"n": 9007199254740993}`)}), nil
	case 3:
		return asks(runner.ModelCall{Tool: "change", Args: json.RawMessage(`{"n":1.0}`)}), nil
	}
	return said("done"), nil
}

func TestRun_ReadWriteApprovalEnd(t *testing.T) {
	r := newRig(t)
	m := &script{answer: lookThenChange}
	w := r.worker(m)
	calls := r.tools(`{"ok":true}`)
	asked := r.approvals(events.Approve)
	id := r.start(events.KindAgent, "clerk", `{"task":"price"}`)
	r.reaches(id, events.StatusCompleted)

	want := []string{events.FactStarted, events.FactModelAnswered, events.FactToolCompleted, events.FactModelAnswered,
		events.FactApprovalDecided, events.FactToolCompleted, events.FactModelAnswered, events.FactCompleted}
	if diff := cmp.Diff(want, r.kinds(id)); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
	if n := m.count(id); n != 3 {
		t.Errorf("model was asked %d times, want 3", n)
	}
	got := calls.all()
	if len(got) != 2 || len(asked.all()) != 1 {
		t.Fatalf("%d calls and %d questions, want 2 and 1", len(got), len(asked.all()))
	}
	if string(got[0].Args) != `{"n":9007199254740993}` || string(got[1].Args) != `{"n":1}` {
		t.Errorf("arguments %s and %s lost their digits or their canonical form", got[0].Args, got[1].Args)
	}
	if got[0].Approval != nil || got[1].Approval == nil || got[1].Approval.By != "maria" {
		t.Errorf("the yes is on the wrong call: %+v, %+v", got[0].Approval, got[1].Approval)
	}
	if got[1].Key != fmt.Sprintf("%s/4/0/change", id) {
		t.Errorf("key %q does not come from run, row, index and tool", got[1].Key)
	}
	r.eventually("all events are out", func() bool { return len(r.eventSeqs(id)[id]) == len(want) }, func() string { return fmt.Sprint(r.eventSeqs(id)) })
	for _, row := range r.journal(id) {
		if row.Kind == events.FactModelAnswered && row.Worker != w.name {
			t.Errorf("row %d names worker %q", row.Seq, row.Worker)
		}
	}
}

func TestRun_RejectedCallIsToldToTheModel(t *testing.T) {
	r := newRig(t)
	var told string
	m := &script{answer: func(ctx context.Context, q runner.Request, n int) (runner.Answer, error) {
		if len(q.Entries) == 1 {
			return asks(runner.ModelCall{Tool: "change"}), nil
		}
		told = q.Entries[2].Results[0].Text
		return said("understood"), nil
	}}
	r.worker(m)
	calls := r.tools(`1`)
	r.approvals(events.Reject)
	id := r.start(events.KindAgent, "clerk", `{}`)
	r.reaches(id, events.StatusCompleted)
	if len(calls.all()) != 0 {
		t.Errorf("a rejected call was sent: %+v", calls.all())
	}
	if told != "rejected: a person rejected this call; it was not made" {
		t.Errorf("the model read %q", told)
	}
}

func TestRun_TwelveOfFourteenCallsFitTheBudget(t *testing.T) {
	r := newRig(t)
	m := &script{answer: func(_ context.Context, q runner.Request, n int) (runner.Answer, error) {
		if len(q.Entries) == 1 {
			var calls []runner.ModelCall
			for i := range 14 {
				calls = append(calls, runner.ModelCall{Tool: "look", Args: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))})
			}
			return asks(calls...), nil
		}
		refused := 0
		for _, res := range q.Entries[2].Results {
			if res.Error {
				refused++
			}
		}
		return said(fmt.Sprintf("%d results, %d refused", len(q.Entries[2].Results), refused)), nil
	}}
	r.worker(m)
	calls := r.tools(`"page"`)
	id := r.start(events.KindAgent, "clerk", `{}`)
	r.reaches(id, events.StatusCompleted)
	if n := len(calls.all()); n != 12 {
		t.Errorf("%d calls were sent, want 12", n)
	}
	var out string
	if err := r.sql.QueryRow(t.Context(), `SELECT output #>> '{}' FROM runner.v_runs WHERE run_id = $1`, string(id)).Scan(&out); err != nil || out != "14 results, 2 refused" {
		t.Errorf("the model saw %q (%v)", out, err)
	}
}

func TestRun_BadCallsAreAnsweredWithoutActing(t *testing.T) {
	r := newRig(t)
	var told []runner.Result
	m := &script{answer: func(_ context.Context, q runner.Request, n int) (runner.Answer, error) {
		if len(q.Entries) == 1 {
			return asks(
				runner.ModelCall{Tool: "lok"},
				runner.ModelCall{Tool: "look", Args: json.RawMessage(`{"n":`)},
				runner.ModelCall{Tool: "look", Args: json.RawMessage(`{"n":"x"}`)},
				runner.ModelCall{Tool: "change", Args: json.RawMessage(`{"n":1,"extra":true}`)},
				runner.ModelCall{Tool: "look", Args: json.RawMessage(`{"n":3}`)},
			), nil
		}
		told = q.Entries[2].Results
		return said("ok"), nil
	}}
	r.worker(m)
	calls := r.tools(`"page"`)
	asked := r.approvals(events.Approve)
	id := r.start(events.KindAgent, "clerk", `{}`)
	r.reaches(id, events.StatusCompleted)
	if len(calls.all()) != 1 || len(asked.all()) != 0 {
		t.Errorf("%d calls and %d questions, want 1 and 0", len(calls.all()), len(asked.all()))
	}
	var codes []string
	for _, res := range told {
		code, _, _ := cutText(res.Text)
		codes = append(codes, code)
	}
	want := []string{"unknown_tool", "malformed_arguments", "invalid_arguments", "invalid_arguments", "page"}
	if diff := cmp.Diff(want, codes); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

func cutText(s string) (before, after string, ok bool) {
	for i := range s {
		if s[i] == ':' {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

func TestRun_DoubtIsAskedAndSettled(t *testing.T) {
	r := newRig(t)
	r.worker(&script{answer: lookThenChange})
	receive(r, events.StreamTools, events.ToolConsumer("default"), func(c events.CallTool) {
		if c.Tool == "look" {
			r.finish(c, events.CallSucceeded, `1`)
			return
		}
		r.finish(c, events.CallUnknown, "")
	})
	settled := receive(r, events.StreamTools, events.ConsumerToolCtl, func(c events.ControlTool) {
		done := events.ToolCompleted{CallID: c.CallID, RunID: c.RunID, Tool: "change", Status: events.CallSucceeded, Result: c.Result, Settled: c.By, Epoch: 1}
		r.publish(events.RunSubject(c.RunID, events.RunToolCompleted), fmt.Sprintf("tool:%s:succeeded:1", c.CallID), events.TypeToolCompleted, done)
	})
	questions := receive(r, events.StreamApprovals, events.ConsumerApprovals, func(a events.AskApproval) {
		switch a.Kind {
		case events.ApprovalAction:
			r.decide(a, events.Approve)
		case events.ApprovalDoubt:
			r.decide(a, events.Happened)
		}
	})
	id := r.start(events.KindAgent, "clerk", `{}`)
	r.reaches(id, events.StatusCompleted)
	doubts := 0
	for _, q := range questions.all() {
		if q.Kind == events.ApprovalDoubt {
			doubts++
		}
	}
	if doubts != 1 || len(settled.all()) != 1 || settled.all()[0].Verdict != events.Happened {
		t.Errorf("%d doubts, settlements %+v; want one of each", doubts, settled.all())
	}
}

func TestRun_ChangedDefinitionsDoNotTouchARunningRun(t *testing.T) {
	r := newRig(t)
	release := make(chan struct{})
	m := &script{answer: func(ctx context.Context, q runner.Request, n int) (runner.Answer, error) {
		if len(q.Entries) == 1 {
			<-release
			return asks(runner.ModelCall{Tool: "look"}), nil
		}
		return said(q.System), nil
	}}
	r.worker(m)
	r.tools(`1`)
	id := r.start(events.KindAgent, "clerk", `{}`)
	r.reaches(id, events.StatusRunning)
	r.defs.apply(t, "apiVersion: holdfast/v1\nkind: Agent\nmetadata: {name: clerk}\nspec: {model: scripted, instructions: changed, tools: []}\n")
	close(release)
	r.reaches(id, events.StatusCompleted)
	next := r.start(events.KindAgent, "clerk", `{}`)
	_ = next
	var out string
	if err := r.sql.QueryRow(t.Context(), `SELECT output #>> '{}' FROM runner.v_runs WHERE run_id = $1`, string(id)).Scan(&out); err != nil || out != "work" {
		t.Errorf("the run ended on instructions %q (%v), want those it started with", out, err)
	}
}

func TestFlow_FansOutInWindowsAndJoins(t *testing.T) {
	r := newRig(t)
	m := &script{answer: func(_ context.Context, q runner.Request, n int) (runner.Answer, error) {
		if q.Entries[0].User == `{"n":4}` {
			return runner.Answer{StopReason: "refusal", Raw: `{"content":[]}`}, nil
		}
		return said(q.Entries[0].User), nil
	}}
	r.worker(m)
	r.worker(m)
	id := r.start(events.KindFlow, "round", `{"items":[{"n":0},{"n":1},{"n":2},{"n":3},{"n":4},{"n":5},{"n":6}]}`)
	r.reaches(id, events.StatusCompleted)
	var out json.RawMessage
	if err := r.sql.QueryRow(t.Context(), `SELECT output FROM runner.v_runs WHERE run_id = $1`, string(id)).Scan(&out); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Each []*string
		Sum  string
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Each) != 7 || got.Each[4] != nil || got.Each[6] == nil || *got.Each[6] != `{"n":6}` {
		t.Errorf("outputs are not in item order with null for the failed one: %s", out)
	}
	if want := `{"seen":["{\"n\":0}","{\"n\":1}","{\"n\":2}","{\"n\":3}",null,"{\"n\":5}","{\"n\":6}"]}`; got.Sum != want {
		t.Errorf("the joining step saw %s", got.Sum)
	}
	open, started, ended := 0, 0, 0
	for _, row := range r.journal(id) {
		switch row.Kind {
		case events.FactChildrenStarted:
			var c events.ChildrenStarted
			if err := json.Unmarshal(row.Data, &c); err != nil {
				t.Fatal(err)
			}
			started += len(c.Children)
		case events.FactChildCompleted:
			ended++
		}
		if open = started - ended; open > 3 {
			t.Errorf("row %d: %d children at once, want at most 3", row.Seq, open)
		}
	}
	if started != 8 || ended != 8 {
		t.Errorf("%d children started and %d ended, want 8", started, ended)
	}
}

const promptDocuments = `
apiVersion: holdfast/v1
kind: Agent
metadata: {name: mapper}
spec: {model: scripted, instructions: work, prompt: "about ${input.shop.name}"}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: mapsaver}
spec: {model: scripted, instructions: work, prompt: "about ${input.shop.name}", maxTokens: 100, budget: {pools: [night]}}
`

// An accepted start whose prompt cannot be made ends with the reason instead
// of standing still.
func TestRun_PromptThatCannotBeMade(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, promptDocuments)
	m := &script{answer: func(context.Context, runner.Request, int) (runner.Answer, error) { return said("x"), nil }}
	r.worker(m)
	for _, agent := range []string{"mapper", "mapsaver"} {
		id := r.start(events.KindAgent, agent, `{}`)
		r.reaches(id, events.StatusFailed)
		var code string
		if err := r.sql.QueryRow(t.Context(), `SELECT error->>'code' FROM runner.v_runs WHERE run_id = $1`, string(id)).Scan(&code); err != nil || code != "prompt" {
			t.Errorf("%s failed with %q (%v), want prompt", agent, code, err)
		}
	}
	r.drained()
}

// A run that makes a handler panic is parked for a person; the worker and the
// other runs go on.
func TestRun_PanicParksTheRun(t *testing.T) {
	r := newRig(t)
	poison := make(chan struct{})
	m := &script{answer: func(_ context.Context, q runner.Request, n int) (runner.Answer, error) {
		select {
		case <-poison:
		default:
			if q.Entries[0].User == `{"poison":true}` {
				panic("impossible")
			}
		}
		return said("fine"), nil
	}}
	w := r.worker(m, func(c *runner.Config) { c.ModelSlots = 2 })
	var parked []events.RunID
	for range 4 { // more than there are slots
		id := r.start(events.KindAgent, "clerk", `{"poison":true}`)
		r.reaches(id, events.StatusAttention)
		parked = append(parked, id)
	}
	healthy := r.start(events.KindAgent, "clerk", `{}`)
	r.reaches(healthy, events.StatusCompleted)
	close(poison)
	r.command(parked[0], events.RunResume, events.Command{})
	r.reaches(parked[0], events.StatusCompleted)
	r.drained()
	for range 2 {
		if !w.Slots().TryAcquire() {
			t.Error("a panic kept a model slot")
		}
	}
}

// A result for a call that the run never made is kept aside; the run goes on.
func TestRun_StrangersResultIsRejected(t *testing.T) {
	r := newRig(t)
	r.worker(&script{answer: lookThenChange})
	r.approvals(events.Approve)
	calls := r.tools("")
	id := r.start(events.KindAgent, "clerk", `{}`)
	r.eventually("the call is out", func() bool { return len(calls.all()) == 1 }, func() string { return r.journalText(id) })
	stranger := calls.all()[0]
	stranger.CallID = events.NewCallID(id, 99, 0)
	r.finish(stranger, events.CallSucceeded, `1`)
	var code string
	r.eventually("it is kept", func() bool {
		return r.sql.QueryRow(t.Context(), `SELECT code FROM runner.rejected`).Scan(&code) == nil
	}, func() string { return "nothing rejected" })
	if got := r.status(id); got != events.StatusWaiting || code != "decide" {
		t.Errorf("the run is %s, the code %s", got, code)
	}
}
