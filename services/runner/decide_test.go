package runner

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

const pureDocuments = `
apiVersion: holdfast/v1
kind: Model
metadata: {name: m}
spec: {provider: anthropic, model: x, apiKey: {env: KEY}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: look}
spec: {description: looks, effect: read, input: {type: object}, http: {method: GET, url: "http://h/l"}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: change}
spec: {description: changes, effect: write, approval: always, input: {type: object}, http: {method: POST, url: "http://h/c", body: "${args}"}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: await}
spec: {description: waits, effect: read, input: {type: object}, signal: {name: s, key: "${args.a}", timeout: 1h}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: plan}
spec: {builtin: plan}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: note}
spec: {builtin: facts, input: {type: object}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: a}
spec: {model: m, instructions: i, tools: [look, change, await, plan, note], budget: {toolCalls: 6, modelCalls: 8}}
`

var (
	testRun  = events.RunID("01a22811-0f6d-7d1a-83a5-87278d08f24f")
	testTime = time.Date(2026, 11, 29, 2, 0, 0, 0, time.UTC)
)

func purePlan(t interface{ Fatal(...any) }) (*Plan, events.RunStarted) {
	docs, err := spec.Parse("t.yaml", []byte(pureDocuments))
	if err != nil {
		t.Fatal(err)
	}
	p := &Plan{Tools: map[string]*spec.Tool{}}
	body := events.RunStarted{Input: json.RawMessage(`{"k":1}`)}
	for _, d := range docs {
		switch {
		case d.Agent != nil:
			p.Agent = d.Agent
			body.Ref = events.Ref{Kind: events.KindAgent, Name: d.Name, Digest: d.Digest}
		case d.Model != nil:
			p.Model = d.Model
			body.Model = &events.Ref{Kind: "model", Name: d.Name, Digest: d.Digest}
		case d.Tool != nil:
			p.Tools[d.Name] = d.Tool
			body.Tools = append(body.Tools, events.Ref{Kind: "tool", Name: d.Name, Digest: d.Digest})
		}
	}
	return p, body
}

// world plays everything around one run, in any order, with repeats.
type world struct {
	t       *rapid.T
	plan    *Plan
	state   *State
	journal []Fact
	sent    []events.Message // everything that ever went out
	inbox   []Input          // what may arrive, again and again
	epoch   int64
	claimed bool // a model call is in flight
	waited  map[events.CallID]bool

	tools, args []string // of the calls that the model makes
}

func (w *world) take(d Decision, err error) {
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range d.Facts {
		out, err := Outgoing(d.State, w.plan, f)
		if err != nil {
			w.t.Fatal(err)
		}
		w.sent = append(w.sent, out...)
		w.journal = append(w.journal, f)
		for _, m := range out {
			w.answerLater(m)
		}
	}
	w.state = d.State
	for _, c := range d.State.waits() {
		w.signalLater(c)
	}
	w.wakeLater()
}

// signalLater queues how a wait may end: its signal, its time-out, and a signal
// to this very wait, which may come when it has ended.
func (w *world) signalLater(c *Call) {
	if w.waited[c.CallID] {
		return
	}
	w.waited[c.CallID] = true
	fired := &events.TimerFired{RunID: testRun, Timer: waitTimer(c), Due: c.Wait.Until}
	w.inbox = append(w.inbox, Input{Cause: "timer:" + fired.Timer, Type: events.TypeTimerFired, Timer: fired, Original: fired})
	for _, sig := range []events.Signal{
		{Name: c.Wait.Name, Key: c.Wait.Key, CallID: c.CallID}, {Name: c.Wait.Name, Key: c.Wait.Key}, {Name: c.Wait.Name, Key: "other"},
	} {
		sig.ID, sig.RunID, sig.Data = fmt.Sprintf("%s-%d", c.CallID, len(w.inbox)), testRun, json.RawMessage(`{"n":9007199254740993}`)
		w.inbox = append(w.inbox, Input{Cause: "signal:" + sig.ID, Type: events.TypeSignalRun, Signal: &sig, Original: &sig})
	}
}

// answerLater queues what another service would reply.
func (w *world) answerLater(m events.Message) {
	switch m.Type {
	case events.TypeCallTool:
		var c events.CallTool
		w.decode(m, &c)
		status := rapid.SampledFrom([]string{events.CallSucceeded, events.CallFailed, events.CallUnknown}).Draw(w.t, "status")
		w.reply(fmt.Sprintf("tool:%s:%s:1", c.CallID, status), &events.ToolCompleted{CallID: c.CallID, RunID: c.RunID, Tool: c.Tool, Status: status, InDoubt: "ask", Epoch: 1, Result: json.RawMessage(`1`)})
	case events.TypeControlTool:
		var c events.ControlTool
		w.decode(m, &c)
		w.reply(fmt.Sprintf("tool:%s:succeeded:2", c.CallID), &events.ToolCompleted{CallID: c.CallID, RunID: c.RunID, Status: events.CallSucceeded, Settled: "p", Epoch: 2, Result: json.RawMessage(`2`)})
	case events.TypeStartRun:
		w.childLater(m)
	case events.TypeAskApproval:
		var a events.AskApproval
		w.decode(m, &a)
		choices := []string{events.Approve, events.Reject, events.Expired}
		if a.Kind == events.ApprovalDoubt {
			choices = []string{events.Happened, events.NotHappened, events.GiveUp, events.Expired}
		}
		if a.Kind == events.ApprovalQuestion {
			choices = []string{events.Answered, events.Expired}
		}
		d := events.ApprovalDecision{ApprovalID: a.ApprovalID, Kind: a.Kind, RunID: a.RunID, CallID: a.CallID, Digest: a.Digest, By: "p", Decision: rapid.SampledFrom(choices).Draw(w.t, "decision")}
		if a.Kind == events.ApprovalAction && d.Decision == events.Approve && rapid.Bool().Draw(w.t, "edited") {
			d.Args = json.RawMessage(`{"a":7}`)
			d.Digest = events.BindDigest(a.Tool, a.ToolDigest, events.DigestOf(d.Args), "always")
		}
		w.inbox = append(w.inbox, Input{Cause: "decision:" + string(a.ApprovalID), Type: m.Type, Decided: &d, Original: &d})
	}
}

// bodyOf is what went out under an id.
func (w *world) bodyOf(id string) json.RawMessage {
	for _, m := range w.sent {
		if m.ID == id {
			return m.Data
		}
	}
	return nil
}

func (w *world) decode(m events.Message, v any) {
	if err := json.Unmarshal(m.Data, v); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) reply(cause string, t *events.ToolCompleted) {
	w.inbox = append(w.inbox, Input{Cause: cause, Type: events.TypeToolCompleted, Tool: t, Original: t})
}

// answer is any answer a model may give.
func (w *world) answer() Answer {
	n := len(w.state.Turns)
	a := Answer{StopReason: StopEnd, Text: "done", Raw: fmt.Sprintf(`{"n":%d}`, n), Usage: events.Usage{InputTokens: 3, OutputTokens: 2}}
	calls := rapid.IntRange(0, 3).Draw(w.t, "calls")
	for i := range calls {
		a.StopReason, a.Text = StopTools, ""
		a.Calls = append(a.Calls, ModelCall{ProviderID: fmt.Sprintf("p%d", i), Tool: rapid.SampledFrom(w.tools).Draw(w.t, "tool"),
			Args: json.RawMessage(rapid.SampledFrom(w.args).Draw(w.t, "args"))})
	}
	return a
}

// Whatever arrives, in any order and any number of times: every prefix of the
// journal rebuilds into a conversation that a provider accepts, a result is
// given once per call, budgets hold, an end is final, folding equals deciding.
func TestDecide_EveryPrefixOfEveryJournalIsSound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		plan, body := purePlan(t)
		if rapid.Bool().Draw(t, "callback") {
			body.Callback = &events.Callback{URL: "https://example.com/in"}
		}
		w := &world{t: t, plan: plan, state: NewState(testRun, "default"), waited: map[events.CallID]bool{},
			tools: []string{"look", "change", "await", "plan", "note", "nope"},
			args: []string{`{}`, `{"a":1}`, `{"a":`, `[1]`, `{"items":[{"id":"1","title":"t"}]}`,
				`{"update":[{"id":"1","state":"done"}]}`, `{"set":{"n":9007199254740993},"get":["n","m"]}`, `{"delete":["n"]}`}}
		if rapid.Bool().Draw(t, "deadline") { // its timer may come at any time
			body.Deadline = &events.Deadline{At: testTime.Add(time.Hour), From: events.DeadlineOfStart}
			w.inbox = append(w.inbox, timerInput(deadlineTimer))
		}
		w.take(Decide(w.state, plan, Input{Cause: "start:" + string(testRun), Type: events.TypeStartRun, Start: &Start{Body: body}, Original: &events.StartRun{}}, "w", testTime))
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			w.step(step)
			w.check()
		}
		w.checkJournal(plan)
	})
}

func (w *world) step(n int) {
	by := Claimed{Cause: "c", Worker: "w", Epoch: w.epoch}
	switch kind := rapid.SampledFrom([]string{"model", "model", "message", "message", "message", "command"}).Draw(w.t, "kind"); {
	case kind == "model" && w.claimed:
		w.claimed = false
		if rapid.IntRange(0, 9).Draw(w.t, "fails") == 0 {
			w.take(DecideFailure(w.state, w.plan, &ModelError{Code: "overloaded", Retry: true, Err: fmt.Errorf("529")}, by, testTime))
			if r := w.state.Retry; r != nil {
				fired := &events.TimerFired{RunID: testRun, Timer: r.Timer, Due: r.At}
				w.inbox = append(w.inbox, Input{Cause: "timer:" + r.Timer, Type: events.TypeTimerFired, Timer: fired, Original: fired})
			}
			return
		}
		w.take(DecideAnswer(w.state, w.plan, w.answer(), by, testTime))
	case kind == "model" && w.state.OwesModelCall():
		w.epoch++
		w.claimed = true
	case kind == "message" && len(w.inbox) > 0:
		in := rapid.SampledFrom(w.inbox).Draw(w.t, "message") // stays: it may come again
		w.take(Decide(w.state, w.plan, in, "w", testTime))
	case kind == "command":
		what := rapid.SampledFrom([]string{events.RunPause, events.RunResume, events.RunResume, events.RunRaiseBudget, events.RunSignal, events.RunCancel}).Draw(w.t, "what")
		if what == events.RunCancel && rapid.IntRange(0, 3).Draw(w.t, "really") > 0 {
			return
		}
		if what == events.RunSignal {
			sig := &events.Signal{ID: fmt.Sprint(n), RunID: testRun, Name: "s"}
			w.take(Decide(w.state, w.plan, Input{Cause: fmt.Sprintf("signal:%d", n), Type: events.TypeSignalRun, Signal: sig, Original: sig}, "w", testTime))
			return
		}
		cmd := &events.Command{ID: fmt.Sprint(n), RunID: testRun, Principal: "op", Budget: "modelCalls", To: int64(8 + n)}
		w.take(Decide(w.state, w.plan, Input{Cause: fmt.Sprintf("command:%d", n), Type: events.TypeCommandRun, What: what, Command: cmd, Original: cmd}, "w", testTime))
	}
}

func (w *world) check() {
	s := w.state
	if owed := s.End != "" && s.Started.Callback != nil && s.Posted == nil; owed != (s.End != "" && s.blocked()) {
		w.t.Fatalf("an ended run has the pending items %v, its callback is owed: %t", s.PendingItems(), owed)
	} else if m, ok := Nudge(s, w.plan, pendingCallback, 1); ok != owed || owed && string(m.Data) != string(w.bodyOf("call:"+string(s.callbackID()))) {
		w.t.Fatalf("the callback, owed: %t, is asked about with %s", owed, m.Data)
	}
	if s.ToolCalls > w.plan.Agent.Budget.ToolCalls {
		w.t.Fatalf("%d tool calls begun, the budget is %d", s.ToolCalls, w.plan.Agent.Budget.ToolCalls)
	}
	if s.End == "" && s.OwesModelCall() {
		if _, err := toldTwice(w.t, s, "hello"); err != nil {
			w.t.Fatalf("a model call is owed and the conversation has a hole: %v", err)
		}
	}
	waits := s.blocked() || s.Cancel != nil && len(s.PendingItems()) > 0 // a cancel waits for what calls left alone, too
	if s.End == "" && s.Pause == nil && s.Attention == nil && s.Retry == nil && !waits && !w.claimed {
		w.t.Fatalf("the run waits for nothing and has not ended: %+v", s)
	}
}

func (w *world) checkJournal(plan *Plan) {
	t := w.t
	s := NewState(testRun, "default")
	ended, posted := "", 0
	for _, f := range w.journal {
		if err := s.Apply(f); err != nil {
			t.Fatal(err)
		}
		if got := s.Status(); got != f.Status {
			t.Fatalf("row %d says %s, folding says %s", f.Seq, f.Status, got)
		}
		if f.Kind == events.FactCallback {
			posted++
		}
		if ended != "" && f.Kind != events.FactLateResult && !w.leftAlone(f) && (f.Kind != events.FactCallback || posted > 1 || s.Started.Callback == nil) {
			t.Fatalf("row %d %s after the end", f.Seq, f.Kind)
		}
		ended = s.End
		first := "hello"
		if s.OwesModelCall() {
			entries, err := toldTwice(t, s, first)
			if err != nil {
				t.Fatal(err)
			}
			providerAccepts(t, s, entries)
		}
	}
	if diff := cmp.Diff(w.state, s, sameState...); diff != "" {
		t.Fatalf("deciding and folding differ (-decided +folded):\n%s", diff)
	}
	w.checkSignals()
	w.checkChildren()
	sent := map[string]string{}
	for _, m := range w.sent {
		if m.Type == events.TypeCallTool {
			if was, twice := sent[m.ID]; twice && was != string(m.Data) {
				t.Fatalf("call %s was sent with two bodies", m.ID)
			}
			sent[m.ID] = string(m.Data)
			var c events.CallTool
			w.decode(m, &c)
			if c.Tool == "plan" || c.Tool == "note" {
				t.Fatalf("a call of %s was sent", c.Tool)
			}
			if c.Tool == "change" && c.Approval == nil {
				t.Fatalf("a gated call was sent without a yes")
			}
			if c.Approval != nil && c.Approval.Digest != events.BindDigest(c.Tool, c.ToolDigest, c.ArgsDigest, "always") {
				t.Fatalf("the yes is bound to something else")
			}
		}
	}
	_ = plan
}

// checkSignals: a signal is taken once, by a call of its name and key; a call has
// one; one for a certain wait is taken by the row that records it, or is late.
func (w *world) checkSignals() {
	received, taken, calls := map[string]events.Signal{}, map[string]bool{}, map[events.CallID]bool{}
	for i, f := range w.journal {
		switch f.Kind {
		case events.FactSignalReceived:
			var sig events.Signal
			if err := json.Unmarshal(f.Data, &sig); err != nil {
				w.t.Fatal(err)
			}
			received[sig.ID] = sig
			if sig.CallID != "" && (i+1 == len(w.journal) || w.journal[i+1].Kind != events.FactSignalTaken || w.journal[i+1].Cause != f.Cause) {
				w.t.Fatalf("row %d records a signal for %s that it did not take", f.Seq, sig.CallID)
			}
		case events.FactSignalTaken:
			var t events.SignalTaken
			if err := json.Unmarshal(f.Data, &t); err != nil {
				w.t.Fatal(err)
			}
			sig, known := received[t.SignalID]
			c, _ := w.state.call(t.CallID)
			switch {
			case !known || taken[t.SignalID] || calls[t.CallID]:
				w.t.Fatalf("row %d takes signal %s for %s, known %v, taken %v, the call has one %v", f.Seq, t.SignalID, t.CallID, known, taken[t.SignalID], calls[t.CallID])
			case sig.Name != c.Wait.Name || sig.Key != "" && sig.Key != c.Wait.Key || sig.CallID != "" && sig.CallID != c.CallID:
				w.t.Fatalf("row %d: signal %+v went to a wait for %+v", f.Seq, sig, c.Wait)
			case string(c.Done.Result) != string(sig.Data):
				w.t.Fatalf("row %d: the result is %s, the signal has %s", f.Seq, c.Done.Result, sig.Data)
			}
			taken[t.SignalID], calls[t.CallID] = true, true
		}
	}
	for _, sig := range w.state.Signals {
		if taken[sig.ID] || sig.CallID != "" {
			w.t.Fatalf("signal %s is kept and taken, or for another's wait", sig.ID)
		}
	}
}

// providerAccepts is the rule book: roles alternate, each call has exactly one
// result in the next message, in order.
func providerAccepts(t *rapid.T, s *State, entries []Entry) {
	for i, e := range entries {
		wantUser := i%2 == 0
		if isUser := e.Assistant == ""; isUser != wantUser {
			t.Fatalf("entry %d has the wrong role", i)
		}
	}
	turn := 0
	for i := 1; i < len(entries); i += 2 {
		calls := s.Turns[turn].Answer.Calls
		turn++
		if i+1 == len(entries) {
			break
		}
		var want, got []string
		for _, c := range calls {
			want = append(want, c.ProviderID)
		}
		for _, r := range entries[i+1].Results {
			got = append(got, r.ProviderID)
			if r.Text == "" {
				t.Fatal("an empty result")
			}
		}
		if !slices.Equal(want, got) {
			t.Fatalf("results %v for calls %v", got, want)
		}
	}
}

func TestDecide_AYesForAnotherCallRunsNothing(t *testing.T) {
	t.Parallel()
	plan, body := purePlan(t)
	s := NewState(testRun, "default")
	d, err := Decide(s, plan, Input{Cause: "start", Start: &Start{Body: body}}, "w", testTime)
	if err != nil {
		t.Fatal(err)
	}
	d, err = DecideAnswer(d.State, plan, Answer{StopReason: StopTools, Raw: `{}`, Calls: []ModelCall{{ProviderID: "p", Tool: "change", Args: json.RawMessage(`{"amount":50}`)}}}, Claimed{Epoch: 1}, testTime)
	if err != nil {
		t.Fatal(err)
	}
	c := slices.Collect(maps.Values(d.State.Calls))[0]
	yes := events.ApprovalDecision{ApprovalID: c.ApprovalID, Kind: events.ApprovalAction, CallID: c.CallID, Decision: events.Approve, Digest: events.DigestOf([]byte("another"))}
	d, err = Decide(d.State, plan, Input{Cause: "d", Decided: &yes}, "w", testTime)
	if err != nil {
		t.Fatal(err)
	}
	out, err := Outgoing(d.State, plan, d.Facts[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range out {
		if m.Type == events.TypeCallTool {
			t.Errorf("the call was sent on a yes with digest %s", yes.Digest)
		}
	}
}

func TestState_RefusesGapsAndUnknownKinds(t *testing.T) {
	t.Parallel()
	s := NewState(testRun, "default")
	if err := s.Apply(Fact{Seq: 2, Kind: events.FactStarted, Data: json.RawMessage(`{}`)}); err == nil {
		t.Error("a gap was accepted")
	}
	if err := s.Apply(Fact{Seq: 1, Kind: "from_the_future", Data: json.RawMessage(`{}`)}); err == nil {
		t.Error("an unknown kind was accepted")
	}
	if err := s.Apply(Fact{Seq: 1, Kind: events.FactStarted, Data: json.RawMessage(`{"input":`)}); err == nil {
		t.Error("a damaged body was accepted")
	}
	if s.Seq != 0 {
		t.Error("a refused row moved the state")
	}
}
