package runner

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// capped is a run that owes its first model call, under b, at 3 and 15 dollars
// for a million tokens.
func capped(t *testing.T, b spec.AgentBudget) (*State, *Plan) {
	t.Helper()
	plan, body := purePlan(t)
	agent, model := *plan.Agent, *plan.Model
	agent.Budget, agent.MaxTokens, model.Prices = b, 1000, &spec.Prices{Input: 3_000_000, Output: 15_000_000}
	plan.Agent, plan.Model = &agent, &model
	body.WallTimeMs, body.AcceptedAt = b.WallTime.Std().Milliseconds(), testTime
	return must(t)(Decide(NewState(testRun, "default"), plan, Input{Cause: "start", Start: &Start{Body: body}}, "w", testTime)), plan
}

func (s *State) raise(t *testing.T, plan *Plan, budget string, to int64, at time.Time) *State {
	t.Helper()
	return must(t)(Decide(s, plan, Input{Cause: "raise-" + budget, What: events.RunRaiseBudget, Command: &events.Command{ID: "r", Budget: budget, To: to}}, "w", at))
}

// Eight calls, and two hundred, in one answer under a limit of six: six begin,
// and the model reads of each other that it was not made.
func TestCaseH01_CallsOfOneAnswerStayUnderTheLimit(t *testing.T) {
	t.Parallel()
	for _, n := range []int{8, 200} {
		s, plan := capped(t, spec.AgentBudget{ToolCalls: 6, ModelCalls: 100})
		calls := make([]string, n)
		for i := range calls {
			calls[i] = "look {}"
		}
		s = must(t)(DecideAnswer(s, plan, asked(calls...), Claimed{}, testTime))
		sent, refused := 0, 0
		for _, c := range s.CallsInOrder(0) {
			switch {
			case c.State == callSent:
				sent++
			case c.Done != nil && c.Problem != nil && c.Problem.Code == "budget" && strings.Contains(c.Problem.Message, "6 tool calls"):
				refused++
			}
		}
		if sent != 6 || refused != n-6 || s.ToolCalls != 6 {
			t.Errorf("%d calls: %d sent, %d refused, %d counted", n, sent, refused, s.ToolCalls)
		}
	}
}

// Of 5,000 calls in one answer 256 are made, and the model reads of each other that
// it was not, in few words, whatever it is.
func TestCaseC10_CallsOfOneAnswerAreBounded(t *testing.T) {
	t.Parallel()
	s, plan := capped(t, spec.AgentBudget{ToolCalls: 100_000, ModelCalls: 100})
	calls := make([]string, 5000)
	for i := range calls {
		calls[i] = "look {}"
		if i%2 == 1 && i >= 256 {
			calls[i] = "nothing_like_it {"
		}
	}
	s = must(t)(DecideAnswer(s, plan, asked(calls...), Claimed{}, testTime))
	sent, refused := 0, 0
	for _, c := range s.CallsInOrder(0) {
		switch {
		case c.State == callSent:
			sent++
		case c.Done != nil && c.Problem != nil && c.Problem.Code == "too_many_calls" && len(c.Problem.Message) < 200:
			refused++
		}
	}
	if sent != 256 || refused != 5000-256 || s.ToolCalls != 256 {
		t.Errorf("%d sent, %d refused, %d counted; want 256, 4744 and 256", sent, refused, s.ToolCalls)
	}
}

// The next call begins when all that it may use is left, and not before.
func TestCeilings_AskForWhatTheCallMayUse(t *testing.T) {
	t.Parallel()
	s, plan := capped(t, spec.AgentBudget{ModelCalls: 100})
	r, err := NextRequest(s, plan, 0)
	if err != nil {
		t.Fatal(err)
	}
	most := r.Most(r.Model.Prices)
	if most.Tokens != r.EstimateInput()+1000 || most.MicroUSD != 3*r.EstimateInput()+15_000 {
		t.Fatalf("the call may use %+v with %d tokens of input", most, r.EstimateInput())
	}
	for _, c := range []struct {
		name  string
		b     spec.AgentBudget
		stops bool
	}{
		{ceilTokens, spec.AgentBudget{Tokens: most.Tokens}, false},
		{ceilTokens, spec.AgentBudget{Tokens: most.Tokens - 1}, true},
		{ceilCost, spec.AgentBudget{Cost: spec.MicroUSD(most.MicroUSD)}, false},
		{ceilCost, spec.AgentBudget{Cost: spec.MicroUSD(most.MicroUSD - 1)}, true},
	} {
		for _, policy := range []string{"", spec.OnExceededFail} {
			c.b.ModelCalls, c.b.OnExceeded = 100, policy
			s, plan := capped(t, c.b)
			switch {
			case !c.stops && (!s.OwesModelCall() || s.Pause != nil):
				t.Errorf("%+v: the call is not made", c.b)
			case c.stops && policy == "" && (s.Pause == nil || s.Pause.Pool != c.name || !strings.Contains(s.Pause.Reason, "next call may need")):
				t.Errorf("%+v: pause %+v", c.b, s.Pause)
			case c.stops && policy != "" && (s.End != events.StatusFailed || s.Ending.Error.Code != "budget" || !strings.Contains(s.Ending.Error.Message, c.name)):
				t.Errorf("%+v: ended as %q with %+v", c.b, s.End, s.Ending.Error)
			}
			if c.stops && policy == "" {
				if s = s.raise(t, plan, c.name, 10_000_000, testTime); !s.OwesModelCall() {
					t.Errorf("%+v: it does not go on after a raise", c.b)
				}
			}
		}
	}
}

// Streams that break off were billed and count; what the provider refused does
// not. The limit is checked before every further attempt.
func TestCaseH04_BilledAttemptsCountAndUnbilledDoNot(t *testing.T) {
	t.Parallel()
	s, plan := capped(t, spec.AgentBudget{ModelCalls: 100})
	r, err := NextRequest(s, plan, 0)
	if err != nil {
		t.Fatal(err)
	}
	most := r.Most(r.Model.Prices)
	s, plan = capped(t, spec.AgentBudget{ModelCalls: 100, Cost: spec.MicroUSD(most.MicroUSD * 2)})
	attempt := func(e *ModelError) {
		t.Helper()
		e.Usage = r.billed(e)
		s = must(t)(DecideFailure(s, plan, e, Claimed{}, testTime))
		if s.Retry != nil {
			s = must(t)(Decide(s, plan, Input{Cause: s.Retry.Timer, Timer: &events.TimerFired{Timer: s.Retry.Timer}}, "w", testTime))
		}
	}
	for range 3 {
		attempt(&ModelError{Code: "rate_limit_error", Retry: true, Err: errors.New("status 429")})
	}
	if s.Cost != 0 || s.ModelCalls != 0 || s.Usage.Total() != 0 || !s.OwesModelCall() {
		t.Fatalf("three refusals count %d calls, %d tokens and cost %d", s.ModelCalls, s.Usage.Total(), s.Cost)
	}
	n := int64(0)
	for s.Pause == nil && n < 10 {
		attempt(&ModelError{Code: "stalled", Retry: true, Begun: true, Seen: 300, Err: errStranger})
		n++
	}
	each := 3*r.EstimateInput() + 15*100
	if s.Cost != n*each || s.CostGuess != s.Cost || s.ModelCalls != n || s.Cost+most.MicroUSD <= 2*most.MicroUSD || s.Cost-each+most.MicroUSD > 2*most.MicroUSD {
		t.Errorf("after %d billed attempts of %d: cost %d (%d guessed), %d calls, limit %d, one call may cost %d", n, each, s.Cost, s.CostGuess, s.ModelCalls, 2*most.MicroUSD, most.MicroUSD)
	}
	if s.Pause == nil || s.Pause.Pool != ceilCost || !strings.Contains(s.Pause.Reason, "$"+spec.MicroUSD(s.Cost).String()) {
		t.Errorf("pause %+v", s.Pause)
	}
	if s = s.raise(t, plan, ceilCost, 10*most.MicroUSD, testTime); !s.OwesModelCall() {
		t.Error("it does not go on after a raise")
	}
}

// Steps are answers: a failed attempt is none, and nothing is counted twice.
func TestCeilings_Steps(t *testing.T) {
	t.Parallel()
	s, plan := capped(t, spec.AgentBudget{ModelCalls: 100, Steps: 2})
	s = must(t)(DecideFailure(s, plan, &ModelError{Code: "x", Retry: true, Err: errStranger}, Claimed{}, testTime))
	s = must(t)(Decide(s, plan, Input{Cause: "timer", Timer: &events.TimerFired{Timer: s.Retry.Timer}}, "w", testTime))
	for range 2 {
		if !s.OwesModelCall() {
			t.Fatal("no call is owed")
		}
		s = must(t)(DecideAnswer(s, plan, asked("none {}"), Claimed{}, testTime))
	}
	if s.Pause == nil || s.Pause.Pool != ceilSteps {
		t.Fatalf("after two answers: pause %+v", s.Pause)
	}
	if s = s.raise(t, plan, ceilSteps, 3, testTime); !s.OwesModelCall() {
		t.Error("it does not go on after a raise")
	}
}

// The end of the wall time is a timer: it stops a run that waits for a call, by
// its policy, and a raise arms the next.
func TestCeilings_WallTime(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"", spec.OnExceededFail} {
		s, plan := capped(t, spec.AgentBudget{ModelCalls: 100, WallTime: spec.Duration(time.Hour), OnExceeded: policy})
		s = must(t)(DecideAnswer(s, plan, asked("look {}"), Claimed{}, testTime))
		timers := s.Timers(time.Time{})
		if len(timers) != 1 || !timers[0].Due.Equal(testTime.Add(time.Hour)) {
			t.Fatalf("timers %v", timers)
		}
		after := testTime.Add(time.Hour)
		d, err := Decide(s, plan, Input{Cause: "over", Timer: &events.TimerFired{Timer: timers[0].Name}}, "w", after)
		if err != nil {
			t.Fatal(err)
		}
		if s = d.State; len(s.Timers(time.Time{})) != 0 {
			t.Errorf("timers after the last: %v", s.Timers(time.Time{}))
		}
		if policy == spec.OnExceededFail {
			out, err := Outgoing(s, plan, d.Facts[len(d.Facts)-1])
			if err != nil || s.End != events.StatusFailed || !strings.Contains(s.Ending.Error.Message, "1h0m0s of 1h0m0s") {
				t.Fatalf("end %q, %+v, %v", s.End, s.Ending.Error, err)
			}
			revoked := false
			for _, m := range out {
				revoked = revoked || m.Type == events.TypeControlTool
			}
			if !revoked {
				t.Error("the call in flight is not taken back")
			}
			continue
		}
		if s.Pause == nil || s.Pause.Pool != ceilWallTime {
			t.Fatalf("pause %+v", s.Pause)
		}
		s = s.raise(t, plan, ceilWallTime, 7200, after)
		if timers = s.Timers(time.Time{}); s.Pause != nil || len(timers) != 1 || !timers[0].Due.Equal(testTime.Add(2*time.Hour)) {
			t.Errorf("after the raise: pause %+v, timers %v", s.Pause, timers)
		}
	}
}

// Each threshold is passed once: at 80 percent, and where the run stops.
func TestOwnAlerts_OnceAtEachThreshold(t *testing.T) {
	t.Parallel()
	s, plan := capped(t, spec.AgentBudget{ModelCalls: 5})
	var got []int
	for range 5 {
		d, err := DecideAnswer(s, plan, asked("none {}"), Claimed{}, testTime)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range ownAlerts(s, d.State, plan, testTime) {
			got = append(got, int(a.Used)*1000+a.Percent)
		}
		s = d.State
	}
	if !slices.Equal(got, []int{4080, 5100}) {
		t.Errorf("alerts (calls and percent) %v", got)
	}
	// A ceiling whose next call does not fit is as good as reached.
	first, plan := capped(t, spec.AgentBudget{ModelCalls: 100, Cost: 40_000})
	a := asked("none {}")
	a.Usage = events.Usage{InputTokens: 1000, OutputTokens: 1800}
	d, err := DecideAnswer(first, plan, a, Claimed{}, testTime)
	if err != nil || d.State.Pause == nil {
		t.Fatalf("no pause (%v)", err)
	}
	if got := ownAlerts(first, d.State, plan, testTime); len(got) != 1 || got[0].Percent != 100 || got[0].Used != 30_000 || got[0].Unit != unitMicroUSD {
		t.Errorf("alerts %+v", got)
	}
}

// What the model is told stands behind the last result and never changes.
func TestTell_StaysAsItWasSent(t *testing.T) {
	t.Parallel()
	s, plan := capped(t, spec.AgentBudget{ModelCalls: 5, Steps: 10, Tell: true})
	s = must(t)(DecideAnswer(s, plan, asked("none {}", "none {}"), Claimed{}, testTime))
	first, err := s.Transcript("x")
	if err != nil {
		t.Fatal(err)
	}
	const want = "\n\n[left of the budget: modelCalls 4 of 5, steps 9 of 10]"
	results := first[len(first)-1].Results
	if strings.Contains(results[0].Text, "left of") || !strings.HasSuffix(results[1].Text, want) {
		t.Errorf("results %+v", results)
	}
	s = s.raise(t, plan, ceilModelCalls, 50, testTime)
	s = must(t)(DecideAnswer(s, plan, asked("none {}"), Claimed{}, testTime))
	again, err := s.Transcript("x")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, again[:len(first)]); diff != "" {
		t.Errorf("the history changed (-sent +now):\n%s", diff)
	}
}
