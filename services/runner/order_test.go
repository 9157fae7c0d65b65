package runner

import (
	"fmt"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Pauses, resumes and raises reach a run in every order there is, one of them
// twice: it stands where the last word of each says, and the journal says what each
// that came too late gave way to.
func TestDecide_TheLastWordHolds(t *testing.T) {
	t.Parallel()
	const pause, resume, high, low = "pause", "resume", "high", "low"
	for name, tc := range map[string]struct {
		words      []string // as the door took them
		wantPaused bool
		wantCalls  int64 // the ceiling; 0: that of the definition
	}{
		"a pause, then a resume":                   {words: []string{pause, resume}},
		"a resume, then a pause":                   {words: []string{resume, pause}, wantPaused: true},
		"a pause, a resume, a pause":               {words: []string{pause, resume, pause}, wantPaused: true},
		"a pause, a resume, a pause and a resume":  {words: []string{pause, resume, pause, resume}},
		"a raise, then a lower one":                {words: []string{high, low}, wantCalls: 101},
		"raises between a resume and a pause":      {words: []string{resume, low, high, pause}, wantPaused: true, wantCalls: 200},
		"a pause, then a raise, which ends none":   {words: []string{pause, high}, wantPaused: true, wantCalls: 200},
		"a raise between a pause and its resume":   {words: []string{pause, high, resume}, wantCalls: 200},
		"a resume of what nobody paused, and more": {words: []string{resume, resume, pause}, wantPaused: true},
	} {
		t.Run(name, func(t *testing.T) {
			var inputs []Input
			for i, word := range tc.words {
				c := &events.Command{ID: fmt.Sprint("c", i+1), RunID: testRun, Principal: "ada", Place: i + 1}
				in := Input{Cause: "command:" + c.ID, Type: events.TypeCommandRun, What: word, Command: c, Original: c}
				if word == high || word == low {
					in.What, c.Budget, c.To = events.RunRaiseBudget, ceilModelCalls, map[string]int64{high: 200, low: 101}[word]
				}
				inputs = append(inputs, in)
			}
			for _, came := range permutations(len(inputs)) {
				s, plan := capped(t, spec.AgentBudget{ModelCalls: 100})
				var facts []Fact
				for _, i := range append(came, came[0]) {
					d, err := Decide(s, plan, inputs[i], "w", testTime)
					if err != nil {
						t.Fatalf("%v: %v", came, err)
					}
					s, facts = d.State, append(facts, d.Facts...)
				}
				if paused := s.Pause != nil; paused != tc.wantPaused || s.Raised[ceilModelCalls] != tc.wantCalls {
					t.Errorf("they came as %v: paused %t and %d calls, want %t and %d", came, paused, s.Raised[ceilModelCalls], tc.wantPaused, tc.wantCalls)
				}
				if len(facts) != len(inputs) {
					t.Errorf("they came as %v: %d rows for %d commands", came, len(facts), len(inputs))
				}
			}
		})
	}
}

// permutations are all orders of 0 to n-1.
func permutations(n int) [][]int {
	if n == 0 {
		return [][]int{nil}
	}
	var out [][]int
	for _, p := range permutations(n - 1) {
		for i := range n {
			q := append(append(append([]int{}, p[:i]...), n-1), p[i:]...)
			out = append(out, q)
		}
	}
	return out
}

// The row of an order that was overtaken names the one that holds.
func TestDecide_OvertakenSaysByWhat(t *testing.T) {
	t.Parallel()
	s, plan := capped(t, spec.AgentBudget{ModelCalls: 100})
	last := &events.Command{ID: "resume-2", RunID: testRun, Place: 2}
	first := &events.Command{ID: "pause-1", RunID: testRun, Place: 1}
	s = must(t)(Decide(s, plan, Input{Cause: "command:resume-2", What: events.RunResume, Command: last, Original: last}, "w", testTime))
	d, err := Decide(s, plan, Input{Cause: "command:pause-1", What: events.RunPause, Command: first, Original: first}, "w", testTime)
	if err != nil || len(d.Facts) != 1 || d.Facts[0].Kind != events.FactLateResult {
		t.Fatalf("rows %v, %v", d.Facts, err)
	}
	var late events.LateResult
	if err := decodeInto(d.Facts[0], func(l events.LateResult) error { late = l; return nil }); err != nil || late.Overtaken != "resume-2" {
		t.Errorf("the row says %q (%v), want resume-2", late.Overtaken, err)
	}
	// A command without a place is of a door that gives none: it does what it says.
	old := &events.Command{ID: "old", RunID: testRun}
	if s = must(t)(Decide(d.State, plan, Input{Cause: "command:old", What: events.RunPause, Command: old, Original: old}, "w", testTime)); s.Pause == nil {
		t.Error("a pause without a place does nothing")
	}
}

// A person's pause holds although a budget had paused the run before, and has room
// again; what a resume finds then is the budget.
func TestDecide_APersonsPauseOverABudgets(t *testing.T) {
	t.Parallel()
	s, plan := capped(t, spec.AgentBudget{ModelCalls: 100})
	s.Pause = &events.Paused{By: pausedByBudget, Pool: ceilModelCalls}
	pause := &events.Command{ID: "p", RunID: testRun, Place: 1}
	s = must(t)(Decide(s, plan, Input{Cause: "command:p", What: events.RunPause, Command: pause, Original: pause}, "w", testTime))
	raise := &events.Command{ID: "r", RunID: testRun, Budget: ceilModelCalls, To: 200, Place: 2}
	s = must(t)(Decide(s, plan, Input{Cause: "command:r", What: events.RunRaiseBudget, Command: raise, Original: raise}, "w", testTime))
	if s.Pause == nil || s.Pause.By != pausedByOperator {
		t.Errorf("a raise ended a person's pause: %+v", s.Pause)
	}
}
