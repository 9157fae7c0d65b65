package runner

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

const waitingDocuments = `
apiVersion: holdfast/v1
kind: Model
metadata: {name: m}
spec: {provider: anthropic, model: x, apiKey: {env: KEY}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: sleep}
spec: {builtin: sleep_until}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: start}
spec: {builtin: start_run, startRun: {agents: [child], flows: [round], maxChildren: 3}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: launch}
spec: {builtin: start_run, startRun: {agents: [child], wait: false}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: gated}
spec: {builtin: start_run, startRun: {agents: [child]}, approval: always}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: ask}
spec: {builtin: ask_person, approvalExpiresAfter: 1h, askPerson: {to: pricing, answer: {type: object}}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: child}
spec: {model: m, instructions: i, input: {type: object, required: [n], properties: {n: {type: integer}}}}
---
apiVersion: holdfast/v1
kind: Flow
metadata: {name: round}
spec: {steps: [{name: one, agent: child}]}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: a}
spec: {model: m, instructions: i, tools: [sleep, start, launch, gated, ask], budget: {toolCalls: 7, modelCalls: 8}}
`

// waiter is a run of the agent a whose model has not answered yet.
func waiter(t *testing.T, parent *events.Parent) (*State, *Plan) {
	t.Helper()
	p, body := waitingPlan(t)
	body.Parent = parent
	return must(t)(Decide(NewState(testRun, "default"), p, Input{Cause: "start", Start: &Start{Body: body}}, "w", testTime)), p
}

func waitingPlan(t interface{ Fatal(...any) }) (*Plan, events.RunStarted) {
	docs, err := spec.Parse("t.yaml", []byte(waitingDocuments))
	if err != nil {
		t.Fatal(err)
	}
	p := &Plan{Tools: map[string]*spec.Tool{}, Starts: map[string]Startable{}}
	body := events.RunStarted{Input: json.RawMessage(`{}`), Principal: "p", Labels: map[string]string{"l": "v"}}
	for _, d := range docs {
		ref := events.Ref{Kind: strings.ToLower(d.Kind), Name: d.Name, Digest: d.Digest}
		switch {
		case d.Agent != nil && d.Name == "a":
			p.Agent, body.Ref = d.Agent, ref
		case d.Agent != nil || d.Flow != nil:
			p.Starts[startKey(ref.Kind, ref.Name)] = Startable{Ref: ref, Agent: d.Agent, Flow: d.Flow}
			body.Starts = append(body.Starts, ref)
		case d.Model != nil:
			p.Model, body.Model = d.Model, &ref
		case d.Tool != nil:
			p.Tools[d.Name] = d.Tool
			body.Tools = append(body.Tools, ref)
		}
	}
	return p, body
}

// calls is an answer with calls, "tool args" each.
func calls(list ...string) Answer {
	a := Answer{StopReason: StopTools, Raw: `{}`}
	for i, c := range list {
		tool, args, _ := strings.Cut(c, " ")
		a.Calls = append(a.Calls, ModelCall{ProviderID: fmt.Sprintf("p%d", i), Tool: tool, Args: json.RawMessage(args)})
	}
	return a
}

func childInput(c events.ChildCompleted) Input {
	return Input{Cause: "child:" + string(c.Child), Type: events.TypeChildCompleted, Child: &c, Original: &c}
}

func commandInput(what string) Input {
	return Input{Cause: "command:" + what, What: what, Command: &events.Command{ID: what, Principal: "op"}}
}

// published are the messages of a type that rows send.
func published(t testing.TB, s *State, plan *Plan, facts []Fact, typ string) (out []events.Message) {
	t.Helper()
	for _, f := range facts {
		all, err := Outgoing(s, plan, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range all {
			if m.Type == typ {
				out = append(out, m)
			}
		}
	}
	return out
}

func textOf(s *State, i int) string { return s.CallsInOrder(len(s.Turns) - 1)[i].result().Text }

func TestSleep_IsARowAndATimer(t *testing.T) {
	t.Parallel()
	s, plan := waiter(t, nil)
	d, err := DecideAnswer(s, plan, calls(`sleep {"for":"90m"}`, `sleep {"until":"2026-11-30T07:00:00+01:00"}`), Claimed{}, testTime)
	if err != nil {
		t.Fatal(err)
	}
	s = d.State
	if diff := cmp.Diff([]Timer{{Name: "sleep-2-0", Due: testTime.Add(90 * time.Minute)}, {Name: "sleep-2-1", Due: time.Date(2026, 11, 30, 6, 0, 0, 0, time.UTC)}}, s.Timers(testTime)); diff != "" {
		t.Errorf("timers (-want +got):\n%s", diff)
	}
	if got := s.Waiting(); s.Status() != events.StatusWaiting || got != "sleeping until 2026-11-29T03:30:00Z (2 sleep)" {
		t.Errorf("%s for %q", s.Status(), got)
	}
	for _, p := range s.PendingItems() {
		if _, ok := Nudge(s, plan, p.Item, 1); ok {
			t.Errorf("%s is asked about again", p.Item)
		}
	}
	for _, f := range d.Facts {
		if all, _ := Outgoing(s, plan, f); len(all) != 1 {
			t.Errorf("%s sends %d messages besides its event", f.Kind, len(all)-1)
		}
	}
	woke := testTime.Add(90*time.Minute + 12*time.Millisecond)
	s = must(t)(Decide(s, plan, timerInput("sleep-2-0"), "w", woke))
	if s.OwesModelCall() || len(s.Timers(testTime)) != 1 {
		t.Error("one of two sleeps has ended and the run goes on")
	}
	if got, want := textOf(s, 0), `{"until":"2026-11-29T03:30:00Z","woke_at":"2026-11-29T03:30:00.012Z"}`; got != want {
		t.Errorf("the model reads %s, want %s", got, want)
	}
	s = must(t)(Decide(s, plan, timerInput("sleep-2-1"), "w", woke.Add(24*time.Hour)))
	if !s.OwesModelCall() {
		t.Error("both woke and the run does not go on")
	}
}

func TestSleep_Arguments(t *testing.T) {
	t.Parallel()
	s, plan := waiter(t, nil)
	for args, want := range map[string]string{
		`{"for":"0s"}`:                          `{"until":"2026-11-29T02:00:00Z","woke_at":"2026-11-29T02:00:00Z","note":"that time had passed; nothing was waited for"}`,
		`{"for":"-3h"}`:                         `"note":`,
		`{"until":"2026-11-29T03:00:00+01:00"}`: `"note":`,
		`{"until":"1999-01-01T00:00:00Z"}`:      `"note":`,
		`{}`:                                    "exactly one of",
		`{"for":"3d","until":"2026-12-01T00:00:00Z"}`: "exactly one of",
		`{"until":"2026-12-01T00:00:00"}`:             "no time with its offset",
		`{"until":"tomorrow"}`:                        "no time with its offset",
		`{"for":"soon"}`:                              "no length of time",
		`{"for":"367d"}`:                              "more than a year",
		`{"for":"2562047h"}`:                          "more than a year",
		`{"until":"9999-12-31T23:59:59Z"}`:            "more than a year",
		`{"for":3600}`:                                "invalid_arguments",
	} {
		got := must(t)(DecideAnswer(s, plan, calls("sleep "+args), Claimed{}, testTime))
		if !got.OwesModelCall() || len(got.Timers(testTime)) != 0 || !strings.Contains(textOf(got, 0), want) {
			t.Errorf("%s: %s, want %q", args, textOf(got, 0), want)
		}
	}
}

// A paused run keeps its calls back; a pause stops no clock that runs.
func TestWaits_PauseAndCancel(t *testing.T) {
	t.Parallel()
	s, plan := waiter(t, nil)
	list := calls(`sleep {"for":"1h"}`, `start {"agent":"child","input":{"n":1}}`, `ask {"question":"?"}`, `launch {"input":{"n":2}}`)
	paused := must(t)(Decide(s, plan, commandInput(events.RunPause), "w", testTime))
	held := must(t)(DecideAnswer(paused, plan, list, Claimed{}, testTime))
	if n := len(held.PendingItems()) + len(held.Timers(testTime)); n != 0 {
		t.Errorf("a paused run began %d waits", n)
	}
	later := testTime.Add(48 * time.Hour)
	d, err := Decide(held, plan, commandInput(events.RunResume), "w", later)
	if err != nil {
		t.Fatal(err)
	}
	s = d.State
	if diff := cmp.Diff([]Timer{{Name: "sleep-3-0", Due: later.Add(time.Hour)}}, s.Timers(testTime)); diff != "" {
		t.Errorf("timers after the resume (-want +got):\n%s", diff)
	}
	if n := len(published(t, s, plan, d.Facts, events.TypeStartRun)); n != 2 {
		t.Errorf("%d starts after the resume, want 2", n)
	}
	again := must(t)(Decide(must(t)(Decide(s, plan, Input{Cause: "p2", What: events.RunPause, Command: &events.Command{ID: "p2"}}, "w", later)), plan, timerInput("sleep-3-0"), "w", later.Add(time.Hour)))
	if again.sleeping("sleep-3-0") != nil || again.Status() != events.StatusPaused {
		t.Errorf("a pause stopped the clock: %s", again.Status())
	}
	d, err = Decide(s, plan, commandInput(events.RunCancel), "w", later)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(published(t, s, plan, d.Facts, events.TypeWithdraw)); n != 1 {
		t.Errorf("%d questions are withdrawn, want 1", n)
	}
	if n := len(published(t, s, plan, d.Facts, events.TypeCommandRun)); n != 2 {
		t.Errorf("%d children are cancelled, want both", n)
	}
	s = d.State
	for _, item := range s.openItems() {
		if s.End != "" {
			t.Fatal("it ended before its children")
		}
		s = must(t)(Decide(s, plan, childInput(events.ChildCompleted{Item: item.Item, Child: item.RunID, Status: events.StatusCancelled}), "w", later))
	}
	if s.End != events.StatusCancelled || len(s.PendingItems())+len(s.Timers(testTime)) != 0 {
		t.Errorf("end %q, pending %v, timers %v", s.End, s.PendingItems(), s.Timers(testTime))
	}
}

func TestStartRun_TheChildsEndIsTheResult(t *testing.T) {
	t.Parallel()
	root, plan := waiter(t, nil)
	for name, tc := range map[string]struct {
		end  events.ChildCompleted
		want string
		bad  bool
	}{
		"its output":          {events.ChildCompleted{Status: events.StatusCompleted, Output: json.RawMessage(`{"n":90071992547409931.50}`)}, `{"n":90071992547409931.50}`, false},
		"its text":            {events.ChildCompleted{Status: events.StatusCompleted, Output: json.RawMessage(`"done"`)}, "done", false},
		"its error":           {events.ChildCompleted{Status: events.StatusFailed, Error: &events.Problem{Code: "refusal", Message: "no"}}, "(refusal: no)", true},
		"that it was stopped": {events.ChildCompleted{Status: events.StatusCancelled}, "child_cancelled", true},
		"the beginning of it": {events.ChildCompleted{Status: events.StatusCompleted, Output: mustJSON(strings.Repeat("é", maxShown))}, "[cut: 65536 of 131072 bytes are shown", false},
	} {
		d, err := DecideAnswer(root, plan, calls(`start {"agent":"child","input":{"n":9007199254740993}}`), Claimed{}, testTime)
		if err != nil {
			t.Fatal(err)
		}
		s := d.State
		starts := published(t, s, plan, d.Facts, events.TypeStartRun)
		if len(starts) != 1 || s.Status() != events.StatusWaiting || s.Waiting() != "1 child runs" {
			t.Fatalf("%d starts, %s for %q", len(starts), s.Status(), s.Waiting())
		}
		var body events.StartRun
		if err := events.Decode(starts[0], &body); err != nil {
			t.Fatal(err)
		}
		want := events.StartRun{RunID: events.ChildRunID(testRun, 3, 0), Namespace: "default", Ref: plan.Starts["agent/child"].Ref, Input: json.RawMessage(`{"n":9007199254740993}`),
			Labels: map[string]string{"l": "v"}, Principal: "p", Trigger: events.Trigger{Kind: "child", Name: "a", ID: "call/2-0"},
			Parent: &events.Parent{RunID: testRun, Item: "call/2-0", Depth: 1}, AcceptedAt: testTime}
		if diff := cmp.Diff(want, body); diff != "" {
			t.Fatalf("start (-want +got):\n%s", diff)
		}
		m, ok := Nudge(s, plan, "child/call/2-0", 7)
		if !ok || m.ID != starts[0].ID || m.MsgID == starts[0].MsgID {
			t.Errorf("asked again with %v %s", ok, m.ID)
		}
		tc.end.Item, tc.end.Child = "call/2-0", body.RunID
		s = must(t)(Decide(s, plan, childInput(tc.end), "w", testTime))
		r := s.CallsInOrder(0)[0].result()
		if !strings.Contains(r.Text, tc.want) || r.Error != tc.bad || !s.OwesModelCall() || len(r.Text) > maxShown+200 {
			t.Errorf("the model reads %s: %.200q, want %q", name, r.Text, tc.want)
		}
	}
}

func TestStartRun_Refusals(t *testing.T) {
	t.Parallel()
	root, plan := waiter(t, nil)
	deep, _ := waiter(t, &events.Parent{RunID: testRun, Item: "x/0", Depth: spec.MaxRunDepth})
	for name, tc := range map[string]struct {
		s    *State
		call string
		want string
	}{
		"an input that breaks the schema": {root, `start {"agent":"child","input":{"n":"1"}}`, "invalid_input"},
		"no input where one is needed":    {root, `start {"agent":"child"}`, "invalid_input"},
		"none of two":                     {root, `start {"input":{"n":1}}`, "invalid_arguments"},
		"both of two":                     {root, `start {"agent":"child","flow":"round","input":{"n":1}}`, "one of agent and flow"},
		"what the tool does not list":     {root, `launch {"agent":"a","input":{"n":1}}`, "invalid_arguments"},
		"a run too deep":                  {deep, `start {"agent":"child","input":{"n":1}}`, "too_deep"},
	} {
		s := must(t)(DecideAnswer(tc.s, plan, calls(tc.call), Claimed{}, testTime))
		if !strings.Contains(textOf(s, 0), tc.want) || len(s.Items) != 0 || !s.OwesModelCall() {
			t.Errorf("%s: %q, want %q; %d children", name, textOf(s, 0), tc.want, len(s.Items))
		}
	}
	const one = `start {"agent":"child","input":{"n":1}}`
	s := must(t)(DecideAnswer(root, plan, calls(one, one, `launch {"input":{"n":1}}`, one, one), Claimed{}, testTime))
	if got := lastOf(s, 4); len(s.Items) != 4 || !strings.Contains(got, "too_many_runs") {
		t.Errorf("%d children of 3 and 1 allowed; the last reads %q", len(s.Items), got)
	}
	ids := map[events.RunID]bool{}
	for _, item := range s.Items {
		ids[item.RunID] = true
	}
	if len(ids) != 4 {
		t.Errorf("children share ids: %v", ids)
	}
}

// lastOf reads a result while others are open.
func lastOf(s *State, i int) string {
	c := s.CallsInOrder(len(s.Turns) - 1)[i]
	if c.Done == nil {
		return "open"
	}
	return c.result().Text
}

// A yes that comes when it is no longer valid starts nothing.
func TestStartRun_Gated(t *testing.T) {
	t.Parallel()
	root, plan := waiter(t, nil)
	s := must(t)(DecideAnswer(root, plan, calls(`gated {"input":{"n":1}}`), Claimed{}, testTime))
	c := s.CallsInOrder(0)[0]
	if c.State != callAsked || len(s.Items) != 0 {
		t.Fatalf("the call is %s", c.State)
	}
	yes := &events.ApprovalDecision{ApprovalID: c.ApprovalID, Kind: events.ApprovalAction, RunID: testRun, CallID: c.CallID, Decision: events.Approve, Digest: c.Bind, ValidUntil: testTime.Add(time.Minute)}
	for late, want := range map[time.Duration]int{0: 1, time.Minute: 0} {
		d, err := Decide(s, plan, Input{Cause: "decision", Decided: yes, Original: yes}, "w", testTime.Add(late))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(published(t, d.State, plan, d.Facts, events.TypeStartRun)); n != want || len(published(t, d.State, plan, d.Facts, events.TypeCallTool)) != 0 {
			t.Errorf("%d starts after %s, want %d", n, late, want)
		}
		if want == 0 && !strings.Contains(textOf(d.State, 0), "approval_expired") {
			t.Errorf("the model reads %q", textOf(d.State, 0))
		}
	}
}

// A child that no call waits for neither holds its parent back nor ends with
// it; a lost start of it is sent again until it has ended, and then no more.
func TestStartRun_Detached(t *testing.T) {
	t.Parallel()
	root, plan := waiter(t, nil)
	s := must(t)(DecideAnswer(root, plan, calls(`launch {"input":{"n":1}}`), Claimed{}, testTime))
	id := events.ChildRunID(testRun, 3, 0)
	if got := textOf(s, 0); got != `{"run_id":"`+string(id)+`"}` || !s.OwesModelCall() || s.Status() != events.StatusRunning || s.Waiting() != "" {
		t.Fatalf("the model reads %s; %s %q", got, s.Status(), s.Waiting())
	}
	d, err := DecideAnswer(s, plan, Answer{StopReason: StopEnd, Raw: `{}`, Text: "bye"}, Claimed{}, testTime)
	if err != nil || d.State.End != events.StatusCompleted {
		t.Fatalf("%v, end %q", err, d.State.End)
	}
	s = d.State
	if n := len(published(t, s, plan, d.Facts, events.TypeCommandRun)); n != 0 {
		t.Error("the child is cancelled with its parent's good end")
	}
	if diff := cmp.Diff([]Pending{{Item: "child/call/2-0", Kind: pendingStarted, Detail: string(id)}}, s.PendingItems()); diff != "" {
		t.Errorf("pending after the end (-want +got):\n%s", diff)
	}
	if m, ok := Nudge(s, plan, "child/call/2-0", 1); !ok || m.ID != "start:"+string(id) {
		t.Errorf("asked again: %v %s", ok, m.ID)
	}
	ended, err := Decide(s, plan, childInput(events.ChildCompleted{Item: "call/2-0", Child: id, Status: events.StatusCompleted}), "w", testTime)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{events.FactChildCompleted}, kindsOf(ended.Facts)); diff != "" || ended.State.End != events.StatusCompleted || len(ended.State.PendingItems()) != 0 {
		t.Errorf("the child's end (-want +got):\n%s; end %q, pending %v", diff, ended.State.End, ended.State.PendingItems())
	}
}

func TestAskPerson_TheAnswerIsTheResult(t *testing.T) {
	t.Parallel()
	root, plan := waiter(t, nil)
	d, err := DecideAnswer(root, plan, calls(`ask {"question":"Which price?","choices":["a","b"]}`), Claimed{}, testTime)
	if err != nil {
		t.Fatal(err)
	}
	asks := published(t, d.State, plan, d.Facts, events.TypeAskApproval)
	if len(asks) != 1 {
		t.Fatalf("%d asks", len(asks))
	}
	var ask events.AskApproval
	if err := events.Decode(asks[0], &ask); err != nil {
		t.Fatal(err)
	}
	want := &events.Question{Text: "Which price?", Choices: []string{"a", "b"}, To: "pricing", Schema: json.RawMessage(`{"type":"object"}`)}
	if diff := cmp.Diff(want, ask.Question); diff != "" || ask.Kind != events.ApprovalQuestion || ask.ExpiresAfterMs != time.Hour.Milliseconds() || ask.Summary != "Which price?" {
		t.Errorf("asked %+v (-want +got):\n%s", ask, diff)
	}
	if got, want := d.State.Waiting(), "a person's answer to ask (1 open)"; got != want {
		t.Errorf("waiting for %q, want %q", got, want)
	}
	if m, ok := Nudge(d.State, plan, "approval/"+string(ask.ApprovalID), 3); !ok || m.ID != asks[0].ID || string(m.Data) != string(asks[0].Data) {
		t.Errorf("asked again %v: %s", ok, m.Data)
	}
	for decision, want := range map[string]string{events.Answered: `{"price":90071992547409931.50}`, events.Expired: "expired: nobody", events.Withdrawn: "withdrawn: "} {
		said := events.ApprovalDecision{ApprovalID: ask.ApprovalID, Kind: ask.Kind, RunID: testRun, CallID: ask.CallID, Decision: decision, Digest: ask.Digest, By: "maria"}
		if decision == events.Answered {
			said.Result = json.RawMessage(want)
		}
		in := Input{Cause: "decision:q", Type: events.TypeApprovalDecided, Decided: &said, Original: &said}
		got, err := Decide(d.State, plan, in, "w", testTime)
		if err != nil {
			t.Fatal(err)
		}
		r := got.State.CallsInOrder(0)[0].result()
		if !strings.HasPrefix(r.Text, want) || r.Error == (decision == events.Answered) || !got.State.OwesModelCall() {
			t.Errorf("%s: the model reads %q", decision, r.Text)
		}
		if n := len(published(t, got.State, plan, got.Facts, events.TypeCallTool)); n != 0 {
			t.Errorf("%s: %d calls are sent", decision, n)
		}
		in.Cause = "decision:other"
		if late, err := Decide(got.State, plan, in, "w", testTime); err != nil || late.Facts[0].Kind != events.FactLateResult {
			t.Errorf("a second decision: %v %v", err, kindsOf(late.Facts))
		}
	}
}

func TestAskPerson_Refusals(t *testing.T) {
	t.Parallel()
	root, plan := waiter(t, nil)
	for _, args := range []string{`{}`, `{"question":" "}`, `{"question":"?","choices":["a"]}`, `{"question":"?","choices":["a","a"]}`, `{"question":"?","to":"me"}`, `{"question":"` + longText(4001) + `"}`} {
		s := must(t)(DecideAnswer(root, plan, calls("ask "+args), Claimed{}, testTime))
		if !strings.HasPrefix(textOf(s, 0), "invalid_arguments: ") || len(s.PendingItems()) != 1 || !s.OwesModelCall() {
			t.Errorf("%.60s: the model reads %q", args, textOf(s, 0))
		}
	}
}

// What these calls wait for follows from the rows alone: the same rows give the
// same state, whether it was kept or read again.
func TestWaits_FoldAgainIsTheSame(t *testing.T) {
	t.Parallel()
	s, plan := waiter(t, nil)
	var rows []Fact
	add := func(d Decision, err error) {
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range d.Facts {
			f.At = f.At.Add(time.Second) // what the database writes is not what was decided by
			rows = append(rows, f)
		}
		s = d.State
	}
	start := s.Started
	s = NewState(testRun, "default")
	add(Decide(s, plan, Input{Cause: "start", Start: &Start{Body: start}}, "w", testTime))
	add(DecideAnswer(s, plan, calls(`sleep {"for":"1m"}`, `start {"agent":"child","input":{"n":1}}`, `ask {"question":"?"}`, `sleep {"for":"-1m"}`, `launch {"input":{"n":1}}`), Claimed{}, testTime))
	add(Decide(s, plan, timerInput("sleep-2-0"), "w", testTime.Add(time.Hour)))
	add(Decide(s, plan, childInput(events.ChildCompleted{Item: "call/2-1", Child: "x", Status: events.StatusCompleted, Output: json.RawMessage(`1`)}), "w", testTime))
	again := NewState(testRun, "default")
	for _, f := range rows {
		if err := again.Apply(f); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(s, again, sameState...); diff != "" {
		t.Errorf("read again (-kept +read):\n%s", diff)
	}
}

// Whatever arrives, in any order and any number of times, what holds for every
// run holds for those whose calls sleep, start runs and ask people.
func TestDecide_EveryJournalOfWaitsIsSound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		plan, body := waitingPlan(t)
		w := &world{t: t, plan: plan, state: NewState(testRun, "default"), waited: map[events.CallID]bool{},
			tools: []string{"sleep", "start", "launch", "gated", "ask"},
			args: []string{`{}`, `{"for":"1h"}`, `{"for":"0s"}`, `{"input":{"n":1}}`, `{"agent":"child","input":{"n":1}}`, `{"flow":"round","input":7}`,
				`{"question":"?"}`, `{"question":"?","choices":["a","b"]}`}}
		w.take(Decide(w.state, plan, Input{Cause: "start:" + string(testRun), Type: events.TypeStartRun, Start: &Start{Body: body}, Original: &events.StartRun{}}, "w", testTime))
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			w.step(step)
			w.check()
		}
		w.checkJournal(plan)
	})
}

// wakeLater queues the timers of the calls that sleep.
func (w *world) wakeLater() {
	if len(w.state.Turns) == 0 {
		return
	}
	for _, c := range w.state.CallsInOrder(len(w.state.Turns) - 1) {
		if c.State == callSleep && !w.waited[c.CallID] {
			w.waited[c.CallID] = true
			w.inbox = append(w.inbox, timerInput(sleepTimer(c)))
		}
	}
}

// childLater queues how a child run may end.
func (w *world) childLater(m events.Message) {
	var start events.StartRun
	w.decode(m, &start)
	if start.Parent == nil || start.Parent.RunID != testRun || start.Parent.Depth != 1 {
		w.t.Fatalf("child %s has the parent %+v", start.RunID, start.Parent)
	}
	end := events.ChildCompleted{RunID: testRun, Item: start.Parent.Item, Child: start.RunID, Output: json.RawMessage(`9007199254740993`),
		Status: rapid.SampledFrom([]string{events.StatusCompleted, events.StatusFailed, events.StatusCancelled}).Draw(w.t, "end")}
	w.inbox = append(w.inbox, childInput(end))
}

// leftAlone reports whether a row is the end of a child that no call waits for.
func (w *world) leftAlone(f Fact) bool {
	var c events.ChildCompleted
	return f.Kind == events.FactChildCompleted && json.Unmarshal(f.Data, &c) == nil && w.state.Items[c.Item].Detached
}

// checkChildren: every child is started by one row and under one body, and
// ends once; each question is asked under one body.
func (w *world) checkChildren() {
	sent, rows, ends := map[string]string{}, map[events.RunID]int{}, map[string]int{}
	for _, m := range w.sent {
		if m.Type != events.TypeStartRun && m.Type != events.TypeAskApproval {
			continue
		}
		if was, twice := sent[m.ID]; twice && was != string(m.Data) {
			w.t.Fatalf("%s went out with two bodies", m.ID)
		}
		sent[m.ID] = string(m.Data)
	}
	for _, f := range w.journal {
		switch f.Kind {
		case events.FactChildStarted:
			var c events.ChildStarted
			if err := json.Unmarshal(f.Data, &c); err != nil {
				w.t.Fatal(err)
			}
			if rows[c.RunID]++; rows[c.RunID] > 1 || sent["start:"+string(c.RunID)] == "" {
				w.t.Fatalf("row %d starts child %s again, or sent no start", f.Seq, c.RunID)
			}
		case events.FactChildCompleted:
			var c events.ChildCompleted
			if err := json.Unmarshal(f.Data, &c); err != nil {
				w.t.Fatal(err)
			}
			if ends[c.Item]++; ends[c.Item] > 1 {
				w.t.Fatalf("row %d ends child %s again", f.Seq, c.Item)
			}
		}
	}
	for tool, most := range map[string]int64{"start": 3, "launch": spec.DefaultMaxChildren, "gated": spec.DefaultMaxChildren} {
		if n := w.state.startedBy(tool); n > most {
			w.t.Fatalf("%s started %d runs, at most %d", tool, n, most)
		}
	}
}
