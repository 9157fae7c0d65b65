package runner

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// moveTo is an order to move the waiting tests' agent to a version that change
// makes of it.
func moveTo(t *testing.T, p *Plan, st *State, n int, change func(*spec.Agent, *Plan)) *Move {
	t.Helper()
	agent, model, next := *p.Agent, *p.Model, *p
	agent.Instructions = fmt.Sprint("version ", n)
	next.Agent, next.Model, next.Next = &agent, &model, nil
	if change != nil {
		change(&agent, &next)
	}
	m := &Move{Plan: &next}
	m.MigrateRun = events.MigrateRun{ID: fmt.Sprintf("order-%d", n), RunID: st.RunID, To: events.DigestOf(mustJSON(n)), Principal: "ada"}
	m.Pins = pinsOf(st.Started)
	m.Ref.Digest = m.To
	return m
}

func (m *Move) input() Input {
	return Input{Cause: "command:" + m.ID, Type: events.TypeMigrateRun, Move: m, Original: m.MigrateRun}
}

// ordered decides an order and returns the plan that a load would give then.
func ordered(t *testing.T, st *State, p *Plan, m *Move) (*State, *Plan, []string) {
	t.Helper()
	d, err := Decide(st, p, m.input(), "w", testTime)
	if err != nil {
		t.Fatal(err)
	}
	after := *d.after(p)
	if d.State.Moving != nil {
		after.Next = m.Plan
	}
	return d.State, &after, kindsOf(d.Facts)
}

func refusedWith(t *testing.T, d Decision) (code string) {
	t.Helper()
	for _, f := range d.Facts {
		if f.Kind == events.FactMigrationRefused {
			var r events.MigrationRefused
			if err := json.Unmarshal(f.Data, &r); err != nil || r.ID == "" {
				t.Fatalf("%v %s", err, f.Data)
			}
			code = r.Problem.Code
		}
	}
	return code
}

// An order waits for whatever the run waits for, and is carried out by the commit
// that brings the last of it.
func TestMigrate_WaitsForEveryKindOfCall(t *testing.T) {
	at := testTime.Add(time.Hour).Format(time.RFC3339)
	for name, tc := range map[string]struct {
		call ModelCall
		then func(*State, *Call) []Input
	}{
		"a sleep": {ModelCall{Tool: "sleep", Args: json.RawMessage(`{"until":"` + at + `"}`)}, func(s *State, c *Call) []Input {
			return []Input{{Cause: "timer", Timer: &events.TimerFired{RunID: s.RunID, Timer: sleepTimer(c)}}}
		}},
		"a child": {ModelCall{Tool: "start", Args: json.RawMessage(`{"agent":"child","input":{"n":1}}`)}, func(s *State, c *Call) []Input {
			for item, it := range s.Items {
				return []Input{{Cause: "child", Child: &events.ChildCompleted{RunID: s.RunID, Item: item, Child: it.RunID, Status: events.StatusCompleted, Output: json.RawMessage(`1`)}}}
			}
			return nil
		}},
		"a yes, and then the child": {ModelCall{Tool: "gated", Args: json.RawMessage(`{"input":{"n":1}}`)}, func(s *State, c *Call) []Input {
			return []Input{{Cause: "no", Decided: &events.ApprovalDecision{ApprovalID: c.ApprovalID, Kind: events.ApprovalAction, RunID: s.RunID, CallID: c.CallID, Decision: events.Reject}}}
		}},
		"a person": {ModelCall{Tool: "ask", Args: json.RawMessage(`{"question":"which?"}`)}, func(s *State, c *Call) []Input {
			return []Input{{Cause: "answer", Decided: &events.ApprovalDecision{ApprovalID: c.Asked.ApprovalID, Kind: events.ApprovalQuestion, RunID: s.RunID, CallID: c.CallID, Decision: events.Answered, Result: json.RawMessage(`{}`)}}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			st, p := waiter(t, nil)
			tc.call.ProviderID = "p1"
			if tc.call.Args == nil {
				tc.call.Args = json.RawMessage(`{}`)
			}
			d, err := DecideAnswer(st, p, Answer{StopReason: StopTools, Calls: []ModelCall{tc.call}, Raw: `{}`}, Claimed{Worker: "w", Epoch: 1}, testTime)
			if err != nil {
				t.Fatal(err)
			}
			st = d.State
			call := st.CallsInOrder(0)[0]
			if call.State == callDone {
				t.Fatalf("the call is over: %+v", call.Done)
			}
			st, p, kinds := ordered(t, st, p, moveTo(t, p, st, 1, nil))
			if want := []string{events.FactMigrationOrdered}; !cmp.Equal(kinds, want) || st.Moving == nil {
				t.Fatalf("the order made %v", kinds)
			}
			// A pause holds neither the order nor what it waits for.
			st = must(t)(Decide(st, p, Input{Cause: "pause", What: events.RunPause, Command: &events.Command{ID: "p"}}, "w", testTime))
			for _, in := range tc.then(st, call) {
				if d, err = Decide(st, p, in, "w", testTime.Add(2*time.Hour)); err != nil {
					t.Fatal(err)
				}
				st = d.State
			}
			if st.Moved == 0 || st.Moving != nil || st.Status() != events.StatusPaused || d.after(p).Agent.Instructions != "version 1" {
				t.Fatalf("after its result: moved at %d, %s, %v", st.Moved, st.Status(), kindsOf(d.Facts))
			}
			d, err = Decide(st, d.after(p), Input{Cause: "resume", What: events.RunResume, Command: &events.Command{ID: "r"}}, "w", testTime.Add(2*time.Hour))
			if err != nil || !d.State.OwesModelCall() {
				t.Fatalf("resumed: %v %s", err, d.State.Status())
			}
			for _, f := range append(d.Facts, Fact{Seq: 2, Kind: events.FactModelAnswered, Data: mustJSON(st.Turns[0].Answer)}) {
				out, err := Outgoing(st, p, f)
				if err != nil || len(out) != 1 {
					t.Errorf("row %d %s sends %d messages (%v), want its event alone", f.Seq, f.Kind, len(out), err)
				}
			}
		})
	}
}

// The answer in flight is its version's: its calls are made under it, and a last
// answer ends the run under it, with the order told why it came to nothing.
func TestMigrate_TheAnswerInFlightIsItsVersions(t *testing.T) {
	st, p := waiter(t, nil)
	m := moveTo(t, p, st, 1, func(a *spec.Agent, next *Plan) { next.Tools = map[string]*spec.Tool{"other": p.Tools["sleep"]} })
	in := m.input()
	in.Busy = true
	st = must(t)(Decide(st, p, in, "w", testTime))
	if st.Moving == nil || st.Moved != 0 {
		t.Fatalf("moved at row %d beside a model call", st.Moved)
	}
	with := *p
	with.Next = m.Plan
	d, err := DecideAnswer(st, &with, Answer{StopReason: StopEnd, Text: "done", Raw: `{}`}, Claimed{Worker: "w", Epoch: 1}, testTime)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{events.FactModelAnswered, events.FactMigrationRefused, events.FactCompleted}; !cmp.Equal(kindsOf(d.Facts), want) || refusedWith(t, d) != events.MigrateEnded || d.Plan != nil {
		t.Errorf("a last answer made %v", kindsOf(d.Facts))
	}
	d, err = DecideAnswer(st, &with, Answer{StopReason: StopTools, Calls: []ModelCall{{Tool: "sleep", ProviderID: "p", Args: json.RawMessage(`{}`)}}, Raw: `{}`}, Claimed{Worker: "w", Epoch: 1}, testTime)
	if err != nil {
		t.Fatal(err)
	}
	var a events.ModelAnswered
	if err := json.Unmarshal(d.Facts[0].Data, &a); err != nil || a.Calls[0].Problem != nil && a.Calls[0].Problem.Code == "unknown_tool" {
		t.Errorf("the old version's tool is not known to its own answer: %+v", a.Calls)
	}
	// A failed call ends nothing: the new version asks at once.
	d, err = DecideFailure(st, &with, &ModelError{Code: "invalid_request_error", Err: fmt.Errorf("no")}, Claimed{Worker: "w", Epoch: 1}, testTime)
	if want := []string{events.FactModelFailed, events.FactMigrated}; err != nil || !cmp.Equal(kindsOf(d.Facts), want) || !d.State.OwesModelCall() || d.after(&with) != m.Plan {
		t.Errorf("a failed call made %v (%v)", kindsOf(d.Facts), err)
	}
}

// nightly is an agent whose input needs a member that the tests' inputs do not have.
func nightly(t *testing.T) *spec.Agent {
	t.Helper()
	docs, err := spec.Parse("t.yaml", []byte("apiVersion: holdfast/v1\nkind: Agent\nmetadata: {name: a}\nspec: {model: m, instructions: i, input: {type: object, required: [night]}}"))
	if err != nil {
		t.Fatal(err)
	}
	return docs[0].Agent
}

// Every reason to refuse is a row with its code, and the run goes on as it was.
func TestMigrate_IsRefused(t *testing.T) {
	asked := func(st *State, p *Plan, bound bool) *State {
		d, err := DecideAnswer(st, p, Answer{StopReason: StopTools, Bound: bound, Raw: `{}`, Calls: []ModelCall{{Tool: "nothing", ProviderID: "p", Args: json.RawMessage(`{}`)}}}, Claimed{Worker: "w", Epoch: 1}, testTime)
		if err != nil {
			t.Fatal(err)
		}
		return d.State
	}
	for name, tc := range map[string]struct {
		state  func(*State, *Plan) *State
		change func(*spec.Agent, *Plan)
		move   func(*Move)
		want   string
	}{
		"nothing changes":            {move: func(m *Move) { m.Ref.Digest = "" }, want: events.MigrateUnchanged},
		"a definition is gone":       {move: func(m *Move) { m.Broken = &events.Problem{Code: events.MigrateDefinition} }, want: events.MigrateDefinition},
		"another agent":              {move: func(m *Move) { m.Broken = &events.Problem{Code: events.MigrateOther} }, want: events.MigrateOther},
		"the input fits no more":     {change: func(a *spec.Agent, _ *Plan) { a.Input = nightly(t).Input }, want: events.MigrateInput},
		"calls and no tools":         {state: func(s *State, p *Plan) *State { return asked(s, p, false) }, change: func(_ *spec.Agent, n *Plan) { n.Tools = nil }, want: events.MigrateNoTools},
		"another API":                {state: func(s *State, p *Plan) *State { return asked(s, p, false) }, change: func(_ *spec.Agent, n *Plan) { n.Model.Provider = spec.ProviderOpenAIChat }, want: events.MigrateModel},
		"reasoning of another model": {state: func(s *State, p *Plan) *State { return asked(s, p, true) }, change: func(_ *spec.Agent, n *Plan) { n.Model.Model = "y" }, want: events.MigrateModel},
		"a budget that ends it": {state: func(s *State, p *Plan) *State { return asked(s, p, false) }, change: func(a *spec.Agent, _ *Plan) {
			a.Budget = spec.AgentBudget{ModelCalls: 1, OnExceeded: spec.OnExceededFail}
		}, want: events.MigrateBudget},
		"a run that is cancelled": {state: func(s *State, p *Plan) *State {
			d, err := DecideAnswer(s, p, Answer{StopReason: StopTools, Raw: `{}`, Calls: []ModelCall{{Tool: "start", ProviderID: "p", Args: json.RawMessage(`{"agent":"child","input":{"n":1}}`)}}}, Claimed{Worker: "w", Epoch: 1}, testTime)
			if err != nil {
				t.Fatal(err)
			}
			return must(t)(Decide(d.State, p, Input{Cause: "c", What: events.RunCancel, Command: &events.Command{ID: "c"}}, "w", testTime))
		}, want: events.MigrateCancelling},
		"a run that has ended": {state: func(s *State, p *Plan) *State {
			return must(t)(Decide(s, p, Input{Cause: "c", What: events.RunCancel, Command: &events.Command{ID: "c"}}, "w", testTime))
		}, want: events.MigrateEnded},
		"a flow": {state: func(s *State, _ *Plan) *State {
			f := NewState(testRun, "default")
			f.Seq, f.Started.Ref.Kind, f.Pause = 1, events.KindFlow, &events.Paused{}
			return f
		}, want: events.MigrateFlow},
	} {
		t.Run(name, func(t *testing.T) {
			st, p := waiter(t, nil)
			p.ModelName = "m"
			if tc.state != nil {
				st = tc.state(st, p)
			}
			m := moveTo(t, p, st, 1, tc.change)
			if tc.move != nil {
				tc.move(m)
			}
			if name == "nothing changes" {
				m.Pins = pinsOf(st.Started)
			}
			d, err := Decide(st, p, m.input(), "w", testTime)
			if err != nil {
				t.Fatal(err)
			}
			if got := refusedWith(t, d); got != tc.want || d.State.Moved != 0 || d.State.Moving != nil || d.State.End != st.End || d.Plan != nil {
				t.Errorf("refused with %q, want %q; %v", got, tc.want, kindsOf(d.Facts))
			}
		})
	}
}

// What is used up under the new version pauses the run, as budgets do; and models
// with the same reasoning, and answers that no request has, are in nobody's way.
func TestMigrate_IsCarriedOut(t *testing.T) {
	st, p := waiter(t, nil)
	p.ModelName = "m"
	d, err := DecideAnswer(st, p, Answer{StopReason: StopTools, Bound: true, Raw: `{}`, Calls: []ModelCall{{Tool: "nothing", ProviderID: "p", Args: json.RawMessage(`{}`)}}}, Claimed{Worker: "w", Epoch: 1}, testTime)
	if err != nil {
		t.Fatal(err)
	}
	m := moveTo(t, p, d.State, 1, func(a *spec.Agent, _ *Plan) { a.Budget = spec.AgentBudget{ModelCalls: 1} })
	st, p, kinds := ordered(t, d.State, p, m)
	if want := []string{events.FactMigrationOrdered, events.FactMigrated, events.FactPaused}; !cmp.Equal(kinds, want) || st.Pause.By != pausedByBudget || st.Started.Ref.Digest != m.To {
		t.Fatalf("made %v, %+v", kinds, st.Pause)
	}
	// The history's answer is still known to come from the first version's model,
	// whatever the names mean now.
	p.Model.Provider, p.ModelName = spec.ProviderOpenAIChat, "m"
	if got := st.providerOf(p, 0); got != spec.ProviderAnthropic {
		t.Errorf("the first answer is taken to come from %q", got)
	}
	p.Model.Provider = spec.ProviderAnthropic
	// A second order waits for nothing either, and an older one comes too late.
	m3, m2 := moveTo(t, p, st, 3, nil), moveTo(t, p, st, 2, nil)
	st, p, kinds = ordered(t, st, p, m3)
	if want := []string{events.FactMigrationOrdered, events.FactMigrated}; !cmp.Equal(kinds, want) || st.Status() != events.StatusPaused {
		t.Errorf("the second order made %v (%s)", kinds, st.Status())
	}
	d, err = Decide(st, p, m2.input(), "w", testTime)
	if err != nil || refusedWith(t, d) != events.MigrateSuperseded || d.State.Started.Ref.Digest != m3.To {
		t.Errorf("the older order made %v (%v)", kindsOf(d.Facts), err)
	}
	if d, err = Decide(d.State, p, m3.input(), "w", testTime); err != nil || !d.Recorded {
		t.Errorf("the repeat made %v (%v)", kindsOf(d.Facts), err)
	}
	// The first words stay, also when the new version has others.
	if first, err := st.firstMessage(m3.Plan); err != nil || strings.TrimSpace(first) == "" {
		t.Errorf("the conversation begins with %q (%v)", first, err)
	}
}

// A newer order takes the place of one that waits, and the row says so.
func TestMigrate_TheNewestOrderStands(t *testing.T) {
	st, p := waiter(t, nil)
	one, two := moveTo(t, p, st, 1, nil), moveTo(t, p, st, 2, nil)
	busy := func(m *Move) Input { in := m.input(); in.Busy = true; return in }
	st = must(t)(Decide(st, p, busy(one), "w", testTime))
	d, err := Decide(st, p, busy(two), "w", testTime)
	if want := []string{events.FactMigrationRefused, events.FactMigrationOrdered}; err != nil || !cmp.Equal(kindsOf(d.Facts), want) || d.State.Moving.ID != two.ID || refusedWith(t, d) != events.MigrateSuperseded {
		t.Errorf("made %v (%v)", kindsOf(d.Facts), err)
	}
}
