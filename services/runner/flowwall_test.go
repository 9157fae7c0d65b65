package runner

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

const walled = `
  budget: {wallTime: 1h, steps: 3}
  steps: [{name: a, agent: x, forEach: "${input}", limit: 2}]
`

func (f *flow) starts() (out []events.StartRun) {
	f.Helper()
	for _, m := range f.sent(events.TypeStartRun) {
		var start events.StartRun
		if err := json.Unmarshal(m.Data, &start); err != nil {
			f.Fatal(err)
		}
		out = append(out, start)
	}
	return out
}

// The wall time of a flow is its own and that of the runs under it: each pauses at
// its end, waits hold nobody up, and one raise lets all of them go on.
func TestCaseH01_WallTimeOfAFlowStopsAllUnderIt(t *testing.T) {
	t.Parallel()
	f := newFlow(t, walled, `[1,2,3]`, nil)
	if f.facts[0].Reader != 3 {
		t.Errorf("an older runner would take the flow: reader %d", f.facts[0].Reader)
	}
	pool := "flow-" + string(testRun) + "-walltime"
	starts := f.starts()
	bounds := starts[0].Parent.Bounds
	if len(starts) != 2 || len(bounds) != 2 || bounds[0].Unit != unitSteps || bounds[0].Limit != 3_000_000 || bounds[1].Pool != pool || bounds[1].Limit != 3600e6 || !bounds[1].Since.Equal(testTime) {
		t.Fatalf("%d starts with the bounds %+v", len(starts), bounds)
	}

	// An agent's run under the flow, with a call in flight, and a flow's.
	agent, plan := capped(t, spec.AgentBudget{ModelCalls: 100})
	body := agent.Started
	body.Parent = starts[0].Parent
	d, err := Decide(NewState(testRun, "default"), plan, Input{Cause: "start", Start: &Start{Body: body}}, "w", testTime)
	if err != nil || d.Facts[0].Reader != 3 {
		t.Fatalf("reader %d (%v)", d.Facts[0].Reader, err)
	}
	agent = must(t)(DecideAnswer(d.State, plan, asked("look {}"), Claimed{}, testTime))
	inner := newFlow(t, "\n  steps: [{name: b, agent: x}]\n", `{}`, starts[0].Parent)
	if got := inner.starts()[0].Parent.Bounds; len(got) != 2 || got[1].Pool != pool {
		t.Errorf("two levels down the bounds are %+v", got)
	}

	end := testTime.Add(time.Hour)
	wallTimers := func(s *State, due time.Time) string {
		t.Helper()
		timers := s.Timers(time.Time{})
		if len(timers) != 1 || !timers[0].Due.Equal(due) {
			t.Fatalf("timers %v, want one at %s", timers, due)
		}
		return timers[0].Name
	}
	agent = must(t)(Decide(agent, plan, Input{Cause: "wall", Timer: &events.TimerFired{Timer: wallTimers(agent, end)}}, "w", end))
	if agent.Pause == nil || agent.Pause.Pool != "pool:"+pool || !strings.Contains(agent.Pause.Reason, "wallTime of flow run "+string(testRun)) || len(agent.Timers(time.Time{})) != 0 {
		t.Fatalf("the run under the flow: pause %+v, timers %v", agent.Pause, agent.Timers(time.Time{}))
	}
	inner.fire(wallTimers(inner.s, end))
	f.fire(wallTimers(f.s, end))
	if inner.s.Pause == nil || f.s.Pause == nil || f.s.Pause.Pool != ceilWallTime {
		t.Fatalf("pauses of the flows: inner %+v, outer %+v", inner.s.Pause, f.s.Pause)
	}
	// A result that comes meanwhile starts nothing.
	f.child("a/0", events.StatusCompleted, `1`)
	if n := len(f.starts()); n != 0 {
		t.Errorf("%d runs were started behind the end", n)
	}

	// The raise goes down as commands, once for each open run.
	raise := Input{Cause: "raise", What: events.RunRaiseBudget, Command: &events.Command{ID: "r", Budget: ceilWallTime, To: 7200, Principal: "op"}}
	f.take(raise)
	commands := f.sent(events.TypeCommandRun)
	var down events.Command
	if len(commands) != 1 || json.Unmarshal(commands[0].Data, &down) != nil || down.Budget != "pool:"+pool || down.To != 7200 || !strings.HasSuffix(commands[0].Subject, "."+events.RunRaiseBudget) {
		t.Fatalf("commands to the open runs: %+v", commands)
	}
	if next := f.starts(); len(next) != 1 || next[0].Parent.Bounds[1].Limit != 7200e6 {
		t.Errorf("what is started behind the raise has %+v", next)
	}
	passed := Input{Cause: "command:down", What: events.RunRaiseBudget, Command: &down}
	agent = must(t)(Decide(agent, plan, passed, "w", end))
	if wallTimers(agent, testTime.Add(2*time.Hour)); agent.Pause != nil {
		t.Errorf("the run under the flow is still paused: %+v", agent.Pause)
	}
	inner.take(passed)
	if more := inner.sent(events.TypeCommandRun); inner.s.Pause != nil || len(more) != 1 {
		t.Errorf("the flow under the flow: pause %+v, passes on %d", inner.s.Pause, len(more))
	}
}

// A flow that is to fail ends at its wall time and takes back what is open; the
// runs under it know nothing of it.
func TestCaseH01_WallTimeOfAFlowThatFails(t *testing.T) {
	t.Parallel()
	f := newFlow(t, strings.Replace(walled, "wallTime: 1h", "wallTime: 1h, onExceeded: fail", 1), `[1,2,3]`, nil)
	if bounds := f.starts()[0].Parent.Bounds; len(bounds) != 1 || bounds[0].OnExceeded != spec.OnExceededFail {
		t.Errorf("bounds %+v", bounds)
	}
	f.fire("wall-3600000")
	f.ended(events.StatusFailed, "budget", "wallTime: 1h0m0s of 1h0m0s used")
	if n := len(f.sent(events.TypeCommandRun)); n != 2 {
		t.Errorf("%d of 2 runs are cancelled", n)
	}
}

// Of a flow's wall time one alert is told at each threshold.
func TestOwnAlerts_OfAFlow(t *testing.T) {
	t.Parallel()
	f := newFlow(t, walled, `[1,2,3]`, nil)
	var got []int
	for i, at := range []time.Duration{10 * time.Minute, 50 * time.Minute} {
		f.now = testTime.Add(at)
		before := f.s
		f.child([]string{"a/0", "a/1"}[i], events.StatusCompleted, `1`)
		for _, a := range ownAlerts(before, f.s, f.plan, f.now) {
			got = append(got, a.Percent)
		}
	}
	before := f.s
	f.fire("wall-3600000")
	for _, a := range ownAlerts(before, f.s, f.plan, f.now) {
		if a.Percent == 100 && a.Name == ceilWallTime && a.Unit == unitSeconds && a.Used == 3600 {
			got = append(got, a.Percent)
		}
	}
	if !slices.Equal(got, []int{80, 100}) {
		t.Errorf("alerts at %v percent, want 80 and 100", got)
	}
}
