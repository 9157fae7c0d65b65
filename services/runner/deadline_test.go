package runner

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// dated is an agent's run that has a deadline in an hour.
func dated(t *testing.T) (*Plan, *State) {
	t.Helper()
	plan, body := purePlan(t)
	body.AcceptedAt = testTime
	body.Deadline = &events.Deadline{At: testTime.Add(time.Hour), From: events.DeadlineOfStart}
	d, err := Decide(NewState(testRun, "default"), plan, Input{Cause: "start", Start: &Start{Body: body}}, "w", testTime)
	if err != nil {
		t.Fatal(err)
	}
	return plan, d.State
}

func rowsOf(d Decision) string { return strings.Join(kindsOf(d.Facts), " ") }

// A deadline takes back what a flow has open of every kind, waits for the truth
// about what has begun, and tells children that theirs has passed, too.
func TestDeadline_TakesBackEveryKind(t *testing.T) {
	t.Parallel()
	f := newFlow(t, `
  deadline: 1h
  steps:
    - {name: run, agent: a}
    - {name: sure, approval: {text: "Go?"}}
    - {name: nap, sleep: {for: 3h}}
    - {name: call, tool: post, input: {n: 1}}
`, `{}`, nil)
	for _, m := range published(t, f.s, f.plan, f.all, events.TypeStartRun) {
		var child events.StartRun
		decodeBody(t, m, &child)
		if child.Deadline != "2026-11-29T03:00:00Z" {
			t.Errorf("a child has the deadline %q", child.Deadline)
		}
	}
	f.take(commandInput(events.RunPause))
	f.fire(deadlineTimer)
	f.want("call/run-5-0 child/run/0")
	if got := len(f.sent(events.TypeCommandRun)) + len(f.sent(events.TypeWithdraw)) + len(f.sent(events.TypeControlTool)); got != 3 || f.s.Status() != events.StatusCancelling {
		t.Errorf("%d of 3 are taken back, the flow is %s", got, f.s.Status())
	}
	f.tool("call", 0, events.CallSucceeded, `1`) // it had begun: the truth is awaited
	f.child("run/0", events.StatusExpired, "")
	f.ended(events.StatusExpired, "deadline", "which the definition gave")
	if len(f.s.Timers(f.now)) != 0 {
		t.Errorf("timers stay: %v", f.s.Timers(f.now))
	}
}

// Whatever comes when the deadline has passed begins nothing, also before the timer
// has fired: an answer's calls, a yes, a resume. A cancel is too late to be one.
func TestDeadline_NothingBeginsBehindIt(t *testing.T) {
	t.Parallel()
	late := testTime.Add(time.Hour)
	plan, s := dated(t)
	change := Answer{StopReason: StopTools, Raw: `{}`, Calls: []ModelCall{{ProviderID: "p", Tool: "look", Args: json.RawMessage(`{}`)}, {ProviderID: "q", Tool: "change", Args: json.RawMessage(`{}`)}}}
	d, err := DecideAnswer(s, plan, change, Claimed{Worker: "w", Epoch: 1}, late)
	if want := "deadline_passed model_answered run_expired"; err != nil || rowsOf(d) != want {
		t.Fatalf("a late answer gave %s (%v), want %s", rowsOf(d), err, want)
	}
	if sent := published(t, d.State, plan, d.Facts, events.TypeCallTool); len(sent) != 0 || d.State.ToolCalls != 0 || d.State.ModelCalls != 1 {
		t.Errorf("%d calls were sent, counted: %d, answers %d", len(sent), d.State.ToolCalls, d.State.ModelCalls)
	}

	d, err = DecideAnswer(s, plan, change, Claimed{Worker: "w", Epoch: 1}, testTime)
	if err != nil {
		t.Fatal(err)
	}
	var ask *Call
	for _, c := range d.State.Calls {
		if c.State == callAsked {
			ask = c
		}
	}
	yes := &events.ApprovalDecision{ApprovalID: ask.ApprovalID, Kind: events.ApprovalAction, RunID: testRun, CallID: ask.CallID, Decision: events.Approve, Digest: ask.Bind}
	yd, err := Decide(d.State, plan, Input{Cause: "yes", Type: events.TypeApprovalDecided, Decided: yes, Original: yes}, "w", late)
	if err != nil || rowsOf(yd) != "deadline_passed late_result" || len(published(t, yd.State, plan, yd.Facts, events.TypeCallTool)) != 0 {
		t.Errorf("a yes behind the deadline gave %s (%v)", rowsOf(yd), err)
	}
	if w := published(t, yd.State, plan, yd.Facts, events.TypeWithdraw); len(w) != 1 || !strings.Contains(string(w[0].Data), "its deadline 2026-11-29T03:00:00Z passed") {
		t.Errorf("withdrawn: %v", w)
	}
	cd, err := Decide(s, plan, commandInput(events.RunCancel), "w", late)
	if err != nil || cd.State.End != events.StatusExpired {
		t.Errorf("a cancel behind the deadline: %s, %s (%v)", rowsOf(cd), cd.State.End, err)
	}
	// The grace ends with a call whose outcome nobody knows.
	td, err := Decide(yd.State, plan, timerInput(cancelTimer(yd.State.CancelSeq)), "w", late.Add(cancelGrace))
	if err != nil || td.State.End != events.StatusExpired || !strings.Contains(td.State.Ending.Error.Message, "some calls had no outcome") {
		t.Errorf("after the grace: %s, %+v (%v)", rowsOf(td), td.State.Ending, err)
	}
	// The clock stood behind when the timer fired: it does not fire twice.
	od, err := Decide(s, plan, timerInput(deadlineTimer), "w", late.Add(-time.Second))
	if err != nil || od.State.End != events.StatusExpired {
		t.Errorf("the timer before its time: %s (%v)", rowsOf(od), err)
	}
	// Cancelled before: the deadline has nothing more to end.
	if cd, err = Decide(d.State, plan, commandInput(events.RunCancel), "w", testTime); err != nil {
		t.Fatal(err)
	}
	if cd, err = Decide(cd.State, plan, timerInput(deadlineTimer), "w", late); err != nil || cd.State.Expiring {
		t.Errorf("the deadline of a run that is being cancelled: %s (%v)", rowsOf(cd), err)
	}
}

// A start that is taken behind its deadline asks no model.
func TestDeadline_StartTakenBehindIt(t *testing.T) {
	t.Parallel()
	plan, body := purePlan(t)
	body.AcceptedAt = testTime
	start := &Start{Body: body, Deadline: "2026-11-29T02:00:00Z"}
	start.setDeadline(plan)
	d, err := Decide(NewState(testRun, "default"), plan, Input{Cause: "start", Start: start}, "w", testTime)
	if err != nil || rowsOf(d) != "run_started deadline_passed run_expired" || d.State.OwesModelCall() {
		t.Errorf("the start gave %s (%v)", rowsOf(d), err)
	}
}

// The earliest holds; a run that goes on from another counts times anew.
func TestDeadline_TheEarliestHolds(t *testing.T) {
	t.Parallel()
	hour := &Plan{Agent: &spec.Agent{Deadline: spec.Duration(time.Hour)}}
	none := &Plan{Agent: &spec.Agent{}}
	parent := &events.Parent{RunID: testRun}
	for name, tc := range map[string]struct {
		text   string
		parent *events.Parent
		plan   *Plan
		want   string
		again  string // of a retry five hours later
	}{
		"nothing says one":              {"", nil, none, "", ""},
		"the definition's":              {"", nil, hour, "03:00 definition", "08:00 definition"},
		"an earlier time of the start":  {"10m", nil, hour, "02:10 start", "07:10 start"},
		"a later time of the start":     {"2h", nil, hour, "03:00 definition", "08:00 definition"},
		"a moment that has passed then": {"2026-11-29T02:30:00Z", nil, none, "02:30 start", ""},
		"a moment ahead then":           {"2026-11-29T09:30:00Z", nil, none, "09:30 start", "09:30 start"},
		"the parent's":                  {"2026-11-29T02:20:00Z", parent, hour, "02:20 parent", "08:00 definition"},
		"earlier than the parent's":     {"2026-11-29T05:20:00Z", parent, hour, "03:00 definition", "08:00 definition"},
	} {
		st := &Start{Body: events.RunStarted{Parent: tc.parent, AcceptedAt: testTime}, Deadline: tc.text}
		st.setDeadline(tc.plan)
		show := func(d *events.Deadline) string {
			if d == nil {
				return ""
			}
			return d.At.Format("15:04 ") + d.From
		}
		if got := show(st.Body.Deadline); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
		if got := show(deadlineAgain(st.Body.Deadline, tc.plan, testTime.Add(5*time.Hour))); got != tc.again {
			t.Errorf("%s, tried again: %q, want %q", name, got, tc.again)
		}
	}
	bad := &Start{Deadline: "soon"}
	if bad.setDeadline(none); bad.Broken == nil {
		t.Error("a deadline that is none is taken")
	}
}

// An item whose run expires is a failed item: the step's policies hold for it.
func TestDeadline_OfAnItem(t *testing.T) {
	t.Parallel()
	f := newFlow(t, "  steps:\n    - {name: run, agent: a, onFailure: continue}\n", `{}`, nil)
	f.child("run/0", events.StatusExpired, "")
	f.ended(events.StatusCompleted, "", "")
	f = newFlow(t, "  steps:\n    - {name: run, agent: a}\n", `{}`, nil)
	f.child("run/0", events.StatusExpired, "")
	f.ended(events.StatusFailed, "step_failed", "item 0 is expired")
}

// A release that does not know deadlines leaves a run that has one alone from its
// first row on, not only when the deadline has passed.
func TestDeadline_AReleaseWithoutDeadlinesLeavesTheRunAlone(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		deadline *events.Deadline
		want     int
	}{{nil, 1}, {&events.Deadline{From: events.DeadlineOfDefinition}, 3}} {
		s := NewState("r", "default")
		s.Started.Deadline = tc.deadline
		if got := s.Reader(); got != tc.want {
			t.Errorf("deadline %v: a reader of %d may go on, want %d", tc.deadline, got, tc.want)
		}
	}
}
