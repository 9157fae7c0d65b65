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

const flowTools = `
apiVersion: holdfast/v1
kind: Tool
metadata: {name: post}
spec:
  description: posts
  effect: write
  input: {type: object, required: [n], properties: {n: {type: integer}}}
  http: {method: POST, url: "http://h/p", body: "${args}"}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: gated}
spec: {description: changes, effect: write, approval: {when: args.n > 5}, input: {type: object}, http: {method: POST, url: "http://h/c", body: "${args}"}}
---
apiVersion: holdfast/v1
kind: Flow
metadata: {name: f}
spec:
`

// flow is a run of a flow with these steps, indented by two.
type flow struct {
	testing.TB
	s     *State
	plan  *Plan
	facts []Fact // of the last decision
	all   []Fact
	now   time.Time
	n     int
}

func newFlow(t testing.TB, steps, input string, parent *events.Parent) *flow {
	t.Helper()
	docs, err := spec.Parse("t.yaml", []byte(flowTools+steps))
	if err != nil {
		t.Fatal(err)
	}
	f := &flow{TB: t, plan: &Plan{Tools: map[string]*spec.Tool{}}, now: testTime}
	body := events.RunStarted{Input: json.RawMessage(input), Parent: parent, Principal: "p", AcceptedAt: testTime}
	for _, d := range docs {
		ref := events.Ref{Kind: d.Kind, Name: d.Name, Digest: d.Digest}
		if d.Tool != nil {
			f.plan.Tools[d.Name] = d.Tool
			body.Tools = append(body.Tools, ref)
		} else {
			f.plan.Flow, body.Ref = d.Flow, ref
		}
	}
	if b := f.plan.Flow.Budget; b != nil {
		body.WallTimeMs = b.WallTime.Std().Milliseconds()
	}
	for i := range f.plan.Flow.Steps {
		st := &f.plan.Flow.Steps[i]
		body.Steps = append(body.Steps, events.Ref{Kind: st.Kind(), Name: st.Starts(), Digest: "sha256:x"})
	}
	f.s = NewState(testRun, "default")
	start := &Start{Body: body}
	if f.plan.Flow.Deadline > 0 {
		start.Body.AcceptedAt = testTime
		start.setDeadline(f.plan)
	}
	f.take(Input{Cause: "start", Start: start})
	return f
}

// take brings in a message, and checks that folding the journal gives what the
// decisions made.
func (f *flow) take(in Input) {
	f.Helper()
	d, err := Decide(f.s, f.plan, in, "w", f.now)
	if err != nil {
		f.Fatal(err)
	}
	f.s, f.facts = d.State, d.Facts
	f.all = append(f.all, d.Facts...)
	folded := NewState(f.s.RunID, "default")
	for _, fact := range f.all {
		if err := folded.Apply(fact); err != nil {
			f.Fatal(err)
		}
	}
	if diff := cmp.Diff(f.s, folded, sameState...); diff != "" {
		f.Fatalf("deciding and folding differ (-decided +folded):\n%s", diff)
	}
}

// open lists what the flow waits for.
func (f *flow) open() string {
	var out []string
	for _, p := range f.s.PendingItems() {
		out = append(out, strings.Replace(p.Item, string(testRun), "run", 1))
	}
	return strings.Join(out, " ")
}

func (f *flow) want(open string) {
	f.Helper()
	if got := f.open(); got != open {
		f.Fatalf("the flow waits for %q, want %q; it is %s, %v", got, open, f.s.Status(), f.s.Ending.Error)
	}
}

func (f *flow) ended(status, code, text string) {
	f.Helper()
	e := f.s.Ending.Error
	if f.s.End != status || (code != "") != (e != nil) || e != nil && (e.Code != code || !strings.Contains(e.Message, text)) {
		f.Fatalf("the flow is %s, %+v; want %s, %s %q; it waits for %q", f.s.Status(), e, status, code, text, f.open())
	}
}

func (f *flow) child(item, status, output string) {
	f.Helper()
	it := f.s.Items[item]
	if it == nil {
		f.Fatalf("no child %s is open: %s", item, f.open())
	}
	end := events.ChildCompleted{RunID: testRun, Item: item, Child: it.RunID, Status: status}
	if output != "" {
		end.Output = json.RawMessage(output)
	}
	if status == events.StatusFailed {
		end.Error = &events.Problem{Code: "refusal", Message: "no"}
	}
	f.take(childInput(end))
}

// tool reports the outcome of the call that is open for an item.
func (f *flow) tool(step string, index int, status, result string) {
	f.Helper()
	for id, c := range f.s.Calls {
		if c.Step.Step == step && c.Step.Index == index {
			f.n++
			t := &events.ToolCompleted{CallID: id, RunID: testRun, Tool: c.Tool, Status: status}
			if result != "" {
				t.Result = json.RawMessage(result)
			}
			if status == events.CallUnknown {
				t.InDoubt = "ask"
			}
			f.take(Input{Cause: fmt.Sprintf("tool:%s:%d", id, f.n), Type: events.TypeToolCompleted, Tool: t, Original: t})
			return
		}
	}
	f.Fatalf("no call of %s %d is open: %s", step, index, f.open())
}

func (f *flow) decide(decision, comment string) {
	f.Helper()
	for id, c := range f.s.Calls {
		if c.State == callAsked {
			a := &events.ApprovalDecision{ApprovalID: c.ApprovalID, Kind: events.ApprovalAction, RunID: testRun, CallID: id, Decision: decision,
				Digest: c.Bind, By: "maria", Comment: comment, DecidedAt: testTime, ValidUntil: testTime.Add(time.Hour)}
			f.take(Input{Cause: "decision:" + string(a.ApprovalID), Type: events.TypeApprovalDecided, Decided: a, Original: a})
			return
		}
	}
	f.Fatalf("nobody is asked: %s", f.open())
}

func (f *flow) fire(timer string) {
	f.Helper()
	for _, t := range f.s.Timers(f.now) {
		if t.Name == timer {
			f.now = t.Due
			f.take(timerInput(timer))
			return
		}
	}
	f.Fatalf("there is no timer %s: %v", timer, f.s.Timers(f.now))
}

func (f *flow) sent(typ string) []events.Message {
	f.Helper()
	return published(f.TB, f.s, f.plan, f.facts, typ)
}

func TestFlow_EveryKindOfStep(t *testing.T) {
	t.Parallel()
	f := newFlow(t, `
  steps:
    - {name: read, tool: post, input: {n: "${input.n}"}}
    - {name: sure, approval: {text: "Post ${steps.read.output.shown}?", expiresAfter: 2h}, needs: [read], input: {read: "${steps.read.output}"}}
    - {name: quiet, sleep: {for: "${input.wait}"}, needs: [sure]}
    - {name: rest, flow: inner, needs: [quiet], input: {by: "${steps.sure.output.by}"}}
    - {name: write, agent: clerk, needs: [rest]}
`, `{"n":12345678901234567890,"wait":"90m"}`, nil)
	f.want("call/run-2-0")
	var call events.CallTool
	decodeBody(t, f.sent(events.TypeCallTool)[0], &call)
	if string(call.Args) != `{"n":12345678901234567890}` || call.Key != string(testRun)+"/2/0/post" || call.ToolDigest == "" {
		t.Errorf("sent %+v", call)
	}
	f.tool("read", 0, events.CallSucceeded, `{"shown":"12 prices"}`)
	f.want("approval/run-4-0-a4")
	var ask events.AskApproval
	decodeBody(t, f.sent(events.TypeAskApproval)[0], &ask)
	if ask.Summary != "Post 12 prices?" || string(ask.Args) != `{"read":{"shown":"12 prices"}}` || ask.ExpiresAfterMs != 7200_000 || ask.Digest == "" || ask.Kind != events.ApprovalAction {
		t.Errorf("asked %+v", ask)
	}
	f.decide(events.Approve, "fine")
	if n := len(f.sent(events.TypeCallTool)); n != 0 {
		t.Errorf("a yes to a question sent %d calls", n)
	}
	f.want("timer/sleep-quiet-0")
	if got := f.s.Waiting(); got != "sleeping until 2026-11-29T03:30:00Z" {
		t.Errorf("it waits for %q", got)
	}
	if _, ok := Nudge(f.s, f.plan, "timer/sleep-quiet-0", 1); ok {
		t.Error("a sleep is asked about again")
	}
	f.fire("sleep-quiet-0")
	f.want("child/rest/0")
	var start events.StartRun
	decodeBody(t, f.sent(events.TypeStartRun)[0], &start)
	if start.Ref.Kind != events.KindFlow || string(start.Input) != `{"by":"maria"}` || start.Parent.Depth != 1 {
		t.Errorf("started %+v", start)
	}
	f.child("rest/0", events.StatusCompleted, `{"x":1}`)
	f.child("write/0", events.StatusCompleted, `"done"`)
	f.ended(events.StatusCompleted, "", "")
	want := `{"quiet":{"until":"2026-11-29T03:30:00Z"},"read":{"shown":"12 prices"},"rest":{"x":1},` +
		`"sure":{"approved":true,"by":"maria","at":"2026-11-29T02:00:00Z","comment":"fine"},"write":"done"}`
	if got := string(f.s.Ending.Output); got != want {
		t.Errorf("output %s\nwant   %s", got, want)
	}
	if f.s.ToolCalls != 1 {
		t.Errorf("%d tool calls are counted, want 1", f.s.ToolCalls)
	}
}

func TestFlow_ToolItems(t *testing.T) {
	t.Parallel()
	f := newFlow(t, `
  steps:
    - {name: all, tool: gated, forEach: "${input.list}", limit: 2, onFailure: continue}
    - {name: strict, tool: post, forEach: "${input.list}", needs: [all], onFailure: continue}
`, `{"list":[{"n":1},{"n":9},{"n":"x"},{"n":2}]}`, nil)
	f.want("approval/run-2-1-a2 call/run-2-0")
	f.decide(events.Approve, "")
	if n := len(f.sent(events.TypeCallTool)); n != 1 {
		t.Fatalf("a yes sent %d calls", n)
	}
	f.want("call/run-2-0 call/run-2-1")
	f.tool("all", 1, events.CallUnknown, "") // a person is asked
	f.want("approval/run-2-1-d4 call/run-2-0")
	f.tool("all", 0, events.CallSucceeded, `"a"`)
	f.want("approval/run-2-1-d4 approval/run-6-0-a6") // x > 5 cannot be decided: a person is asked
	f.tool("all", 1, events.CallSucceeded, `"b"`)     // the late truth settles it
	if n := len(f.sent(events.TypeWithdraw)); n != 1 {
		t.Errorf("%d questions withdrawn, want the doubt", n)
	}
	f.decide(events.Reject, "not x")
	f.tool("all", 3, events.CallFailed, "")
	// Arguments that break the schema are a failed item and nothing is sent.
	f.want(fmt.Sprintf("call/run-%d-0 call/run-%d-1 call/run-%d-3", f.s.Seq, f.s.Seq, f.s.Seq))
	late := f.s.Seq
	f.tool("strict", 0, events.CallSucceeded, `1`)
	f.take(Input{Cause: "tool:again", Type: events.TypeToolCompleted, Tool: &events.ToolCompleted{CallID: events.NewCallID(testRun, late, 0), RunID: testRun, Status: events.CallFailed}})
	if kinds := kindsOf(f.facts); fmt.Sprint(kinds) != "[late_result]" {
		t.Errorf("a second outcome of an item that is over is %v", kinds)
	}
	f.tool("strict", 1, events.CallSucceeded, `2`)
	f.tool("strict", 3, events.CallSucceeded, `3`)
	f.ended(events.StatusCompleted, "", "")
	if got := string(f.s.Ending.Output); got != `{"all":["a","b",null,null],"strict":[1,2,null,3]}` {
		t.Errorf("output %s", got)
	}
}

func TestFlow_AQuestionIsBoundToWhatWasShown(t *testing.T) {
	t.Parallel()
	const steps = `
  steps: [{name: sure, approval: {text: "Go?"}}]
`
	for name, tc := range map[string]struct {
		decision, digest, code, text string
	}{
		"no":                {decision: events.Reject, text: "a person said no. too much"},
		"nobody":            {decision: events.Expired, text: "nobody decided in time"},
		"yes to other data": {decision: events.Approve, digest: "sha256:other", text: "bound to another call"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t, steps, `{"n":1}`, nil)
			if tc.digest != "" {
				for _, c := range f.s.Calls {
					c.Bind = events.Digest(tc.digest)
				}
				a := &events.ApprovalDecision{Kind: events.ApprovalAction, RunID: testRun, Decision: tc.decision, Digest: "sha256:shown", By: "maria"}
				for id, c := range f.s.Calls {
					a.CallID, a.ApprovalID = id, c.ApprovalID
				}
				d, err := Decide(f.s, f.plan, Input{Cause: "decision", Type: events.TypeApprovalDecided, Decided: a, Original: a}, "w", f.now)
				if err != nil {
					t.Fatal(err)
				}
				f.s = d.State
			} else {
				f.decide(tc.decision, "too much")
			}
			f.ended(events.StatusFailed, "step_failed", tc.text)
		})
	}
}

func decodeBody(t *testing.T, m events.Message, into any) {
	t.Helper()
	if err := json.Unmarshal(m.Data, into); err != nil {
		t.Fatal(err)
	}
}

func TestFlow_When(t *testing.T) {
	t.Parallel()
	const steps = `
  steps:
    - {name: check, agent: a, forEach: "${input.list}", onFailure: continue}
    - {name: alarm, tool: post, needs: [check], when: "steps.check.failures.size() > 0 && input.loud", input: {n: 1}}
    - {name: each, agent: a, needs: [check], forEach: "${input.list}", when: "false"}
    - {name: last, agent: a, needs: [alarm, each], input: {a: "${steps.alarm.output}", e: "${steps.each.outputs}", s: "${steps.alarm.skipped}"}}
`
	for name, tc := range map[string]struct {
		input, fail string
		want        string // pending, once check is over
		code, text  string
	}{
		"holds":        {input: `{"list":[1],"loud":true}`, fail: events.StatusFailed, want: "call/run-4-0"},
		"does not":     {input: `{"list":[1],"loud":true}`, fail: events.StatusCompleted, want: "child/last/0"},
		"an error":     {input: `{"list":[1]}`, fail: events.StatusFailed, code: "when", text: "step alarm: condition"},
		"is no yes/no": {input: `{"list":[1],"loud":"yes"}`, fail: events.StatusFailed, code: "when", text: "step alarm"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t, steps, tc.input, nil)
			f.child("check/0", tc.fail, `"x"`)
			if tc.code != "" {
				f.ended(events.StatusFailed, tc.code, tc.text)
				return
			}
			f.want(tc.want)
			if name != "does not" {
				return
			}
			if kinds := fmt.Sprint(kindsOf(f.facts)); kinds != "[child_completed step_skipped step_skipped children_started]" {
				t.Errorf("rows %s", kinds)
			}
			if got := string(f.s.Items["last/0"].Input); got != `{"a":null,"e":[],"s":true}` {
				t.Errorf("the step behind reads %s", got)
			}
			f.child("last/0", events.StatusCompleted, `"end"`)
			if got := string(f.s.Ending.Output); got != `{"alarm":null,"check":["x"],"each":[],"last":"end"}` {
				t.Errorf("output %s", got)
			}
		})
	}
}

func TestFlow_RetryStartsAFailedItemAgain(t *testing.T) {
	t.Parallel()
	f := newFlow(t, `
  steps:
    - {name: check, agent: a, forEach: "${input.list}", limit: 2, onFailure: continue, retry: {attempts: 3, backoff: 10s}, input: {of: "${item}"}}
`, `{"list":["x","y","z"]}`, nil)
	first := f.s.Items["check/0"].RunID
	f.child("check/0", events.StatusFailed, "")
	// The item keeps its place in the window while it waits.
	f.want("child/check/1 timer/again-check-0-2")
	f.now = f.now.Add(time.Minute) // the timer is late: nothing moves before it
	f.child("check/1", events.StatusCompleted, `"y"`)
	f.want("child/check/2 timer/again-check-0-2")
	f.fire("again-check-0-2")
	f.want("child/check/0/2 child/check/2")
	again := f.s.Items["check/0/2"]
	if again.RunID == first || string(again.Input) != `{"of":"x"}` || len(f.sent(events.TypeStartRun)) != 1 {
		t.Errorf("the second attempt is %+v", again)
	}
	f.take(childInput(events.ChildCompleted{RunID: testRun, Item: "check/0", Child: first, Status: events.StatusFailed}))
	f.take(childInput(events.ChildCompleted{RunID: testRun, Item: "check/0", Child: "another", Status: events.StatusCompleted}))
	if kinds := fmt.Sprint(kindsOf(f.facts)); kinds != "[late_result]" {
		t.Errorf("the end of an attempt that is over is %s", kinds)
	}
	f.child("check/0/2", events.StatusExpired, "")
	f.want("child/check/2 timer/again-check-0-3")
	if due := f.s.Timers(f.now)[0].Due; !due.Equal(f.now.Add(20 * time.Second)) {
		t.Errorf("the third attempt is due %s after the second failed", due.Sub(f.now))
	}
	f.child("check/2", events.StatusCancelled, "") // an operator's cancel is not undone
	f.fire("again-check-0-3")
	f.child("check/0/3", events.StatusFailed, "")
	f.ended(events.StatusCompleted, "", "")
	if got := string(f.s.Ending.Output); got != `{"check":[null,"y",null]}` {
		t.Errorf("output %s", got)
	}
}

// What may have happened, and what a person refused, is not done again.
func TestFlow_RetryIsForWhatSurelyDidNotHappen(t *testing.T) {
	t.Parallel()
	f := newFlow(t, `
  steps:
    - {name: all, tool: gated, forEach: "${input.list}", onFailure: continue, retry: {attempts: 2}}
`, `{"list":[{"n":1},{"n":2},{"n":9},{"n":3}]}`, nil)
	f.decide(events.Reject, "")
	f.tool("all", 1, events.CallMismatch, "")
	f.tool("all", 0, events.CallUnknown, "")
	for id, c := range f.s.Calls {
		if c.State == callDoubt {
			a := &events.ApprovalDecision{ApprovalID: c.Doubt, Kind: events.ApprovalDoubt, RunID: testRun, CallID: id, Decision: events.Expired}
			f.take(Input{Cause: "decision:doubt", Type: events.TypeApprovalDecided, Decided: a, Original: a})
		}
	}
	f.take(Input{Cause: "tool:late", Type: events.TypeToolCompleted, Tool: &events.ToolCompleted{CallID: events.NewCallID(testRun, 2, 0), RunID: testRun, Status: events.CallSucceeded}})
	if kinds := fmt.Sprint(kindsOf(f.facts)); kinds != "[late_result]" {
		t.Errorf("an outcome after the item was over is %s", kinds)
	}
	f.want("call/run-2-3")
	key := f.s.Calls[events.NewCallID(testRun, 2, 3)].CallID
	f.tool("all", 3, events.CallFailed, "")
	f.want("timer/again-all-3-2")
	f.fire("again-all-3-2")
	for id := range f.s.Calls {
		if id == key || callKey(testRun, f.s.Calls[id].AskedCall) == callKey(testRun, events.AskedCall{CallID: key, Tool: "gated"}) {
			t.Errorf("the second attempt has the key of the first")
		}
	}
	f.tool("all", 3, events.CallSucceeded, `1`)
	f.ended(events.StatusCompleted, "", "")
}

func TestFlow_FailTakesBackWhatIsOpen(t *testing.T) {
	t.Parallel()
	f := newFlow(t, `
  steps:
    - {name: ok, agent: a}
    - {name: sure, approval: {text: "Go?"}}
    - {name: nap, sleep: {until: "2026-12-01T00:00:00Z"}}
    - {name: call, tool: post, input: {n: 1}}
    - {name: check, agent: a, forEach: "${input.list}", limit: 2, needs: [ok]}
`, `{"list":[1,2,3,4]}`, nil)
	f.child("ok/0", events.StatusCompleted, `"kept"`)
	f.child("check/0", events.StatusFailed, "")
	f.ended(events.StatusFailed, "step_failed", "step check: 1 of 4 items failed; item 0: refusal: no")
	if started := len(f.sent(events.TypeStartRun)); started != 0 {
		t.Errorf("%d runs are started after the failure", started)
	}
	got := [3]int{len(f.sent(events.TypeCommandRun)), len(f.sent(events.TypeWithdraw)), len(f.sent(events.TypeControlTool))}
	if want := [3]int{1, 1, 1}; got != want {
		t.Errorf("cancels, withdrawals and revocations %v, want %v", got, want)
	}
	if len(f.s.Timers(f.now)) != 0 || f.open() != "" {
		t.Errorf("an ended flow waits for %s", f.open())
	}
	if out := string(f.s.Ending.Output); !strings.Contains(out, `"ok":"kept"`) {
		t.Errorf("what was finished is lost: %s", out)
	}
}

func TestFlow_CancelTakesBackEveryKind(t *testing.T) {
	t.Parallel()
	f := newFlow(t, `
  steps:
    - {name: run, agent: a}
    - {name: sure, approval: {text: "Go?"}}
    - {name: nap, sleep: {for: 1h}}
    - {name: call, tool: post, input: {n: 1}}
`, `{}`, nil)
	f.take(commandInput(events.RunCancel))
	f.want("call/run-5-0 child/run/0")
	if got := len(f.sent(events.TypeCommandRun)) + len(f.sent(events.TypeWithdraw)) + len(f.sent(events.TypeControlTool)); got != 3 {
		t.Errorf("%d of 3 are taken back", got)
	}
	f.tool("call", 0, events.CallSucceeded, `1`) // it had begun: the truth is awaited
	f.child("run/0", events.StatusCancelled, "")
	f.ended(events.StatusCancelled, "cancelled", "")
}

func TestFlow_DepthIsLimited(t *testing.T) {
	t.Parallel()
	const steps = `
  steps: [{name: in, flow: f}]
`
	newFlow(t, steps, `{}`, &events.Parent{RunID: testRun, Item: "in/0", Depth: spec.MaxRunDepth - 1}).want("child/in/0")
	newFlow(t, steps, `{}`, &events.Parent{RunID: testRun, Item: "in/0", Depth: spec.MaxRunDepth}).
		ended(events.StatusFailed, "too_deep", "step in: it would start a run with 6 runs above it")
}

func TestFlow_APausedFlowStartsNothing(t *testing.T) {
	t.Parallel()
	f := newFlow(t, `
  steps: [{name: a, agent: x, forEach: "${input}", limit: 1, retry: {attempts: 2}}, {name: b, sleep: {for: 1h}}]
`, `[1,2]`, nil)
	f.take(commandInput(events.RunPause))
	f.child("a/0", events.StatusFailed, "")
	f.fire("sleep-b-0")
	f.want("")
	f.take(commandInput(events.RunResume))
	f.want("timer/again-a-0-2")
}
