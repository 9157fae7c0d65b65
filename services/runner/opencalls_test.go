package runner

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// manyOpen is a flow with so many open calls of one step.
func manyOpen(t testing.TB, n int) *flow {
	items := make([]string, 0, n)
	for i := range n {
		items = append(items, fmt.Sprint(i))
	}
	return newFlow(t, fmt.Sprintf("  steps:\n    - {name: each, tool: post, forEach: \"${input.items}\", limit: %d, input: {n: \"${item}\"}}\n", n),
		`{"items":[`+strings.Join(items, ",")+`]}`, nil)
}

// aResult is what one result costs beside its statement: the decision, and what the
// commit reads of the states before and after it.
func (f *flow) aResult(i int) *State {
	call := events.NewCallID(testRun, 2, i)
	d, err := Decide(f.s, f.plan, Input{Cause: fmt.Sprint("result-", i), Tool: &events.ToolCompleted{CallID: call, RunID: testRun, Tool: "post", Status: events.CallSucceeded, Result: []byte("1")}}, "w", f.now)
	if err != nil {
		f.Fatal(err)
	}
	if d.State.Calls[call] != nil {
		f.Fatalf("call %s is still open", call)
	}
	_, _, _, _ = f.s.PendingItems(), d.State.PendingItems(), d.State.Waiting(), d.State.Status()
	_, _ = f.s.Timers(f.now), d.State.Timers(f.now)
	return d.State
}

func BenchmarkResult(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("open=%d", n), func(b *testing.B) {
			f := manyOpen(b, n)
			b.ReportAllocs()
			for b.Loop() {
				f.aResult(0)
			}
		})
	}
}
