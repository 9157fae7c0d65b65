package runner

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// retryOf decides the run that retries f, and continues with it.
func (f *flow) retryOf() (*flow, error) {
	started := f.s.Started
	n := *f
	d := &decision{state: NewState("01a22811-0f6d-7d1a-83a5-87278d08f250", "default"), cause: "command:r", worker: "w", now: f.now}
	if err := d.retryFlow(events.ForkRun{ID: "r", From: testRun, Retry: true}, Past{Namespace: "default", Rows: f.all}, started, f.plan); err != nil {
		return nil, err
	}
	if err := d.advance(f.plan); err != nil {
		f.Fatal(err)
	}
	n.s, n.facts, n.all = d.state, d.facts, slices.Clone(d.facts)
	return &n, nil
}

func TestFlow_ARetryRunsWhatFailedAndWhatReadsIt(t *testing.T) {
	t.Parallel()
	f := newFlow(t, `
  steps:
    - {name: first, agent: a}
    - {name: check, agent: a, needs: [first], forEach: "${input.list}", onFailure: continue, input: {i: "${item}", f: "${steps.first.output}"}}
    - {name: apart, agent: a, needs: [check], input: {f: "${steps.first.output}"}}
    - {name: never, agent: a, needs: [check], when: "input.list.size() > 9"}
    - {name: sum, agent: a, needs: [check], input: {all: "${steps.check.outputs}"}}
`, `{"list":["x","y","z"]}`, nil)
	f.child("first/0", events.StatusCompleted, `"one"`)
	for i, status := range []string{events.StatusCompleted, events.StatusFailed, events.StatusCompleted} {
		f.child(fmt.Sprintf("check/%d", i), status, `"done"`)
	}
	f.child("apart/0", events.StatusCompleted, `"apart"`)
	f.child("sum/0", events.StatusCompleted, `"of two"`)
	f.ended(events.StatusCompleted, "", "")
	again, err := f.retryOf()
	if err != nil {
		t.Fatal(err)
	}
	again.want("child/check/1")
	if kinds := fmt.Sprint(kindsOf(again.facts)); kinds != "[run_started run_forked items_kept items_kept items_kept items_kept items_started]" {
		t.Errorf("it begins with %s", kinds)
	}
	it := again.s.Items["check/1"]
	if string(it.Input) != `{"i":"y","f":"one"}` && string(it.Input) != `{"f":"one","i":"y"}` || it.RunID == events.ChildRunID(testRun, 3, 1) {
		t.Errorf("the failed item runs again with %s as %s", it.Input, it.RunID)
	}
	again.child("check/1", events.StatusCompleted, `"now"`)
	again.want("child/sum/0")
	if got := string(again.s.Items["sum/0"].Input); got != `{"all":["done","now","done"]}` {
		t.Errorf("what reads the failed item runs again with %s", got)
	}
	again.child("sum/0", events.StatusCompleted, `"of three"`)
	again.ended(events.StatusCompleted, "", "")
	if got := string(again.s.Ending.Output); got != `{"apart":"apart","check":["done","now","done"],"first":"one","never":null,"sum":"of three"}` {
		t.Errorf("output %s", got)
	}
}

func TestFlow_ARetryActsNotTwice(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ status, want string }{
		"failed":             {status: events.CallFailed},
		"open when it ended": {want: "item 0 of step all would call post again"},
		"unknown":            {status: events.CallUnknown, want: "item 0 of step all would call post again"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t, `
  steps:
    - {name: all, tool: post, forEach: "${input.list}"}
    - {name: other, agent: a}
`, `{"list":[{"n":1},{"n":2}]}`, nil)
			f.tool("all", 1, events.CallSucceeded, `"second"`)
			if tc.status != "" {
				f.tool("all", 0, tc.status, "")
			}
			if f.s.End == "" {
				f.child("other/0", events.StatusFailed, "")
			}
			again, err := f.retryOf()
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%v, want %q", err, tc.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			again.tool("all", 0, events.CallSucceeded, `"first"`)
			again.child("other/0", events.StatusCompleted, `1`)
			if got := string(again.s.Ending.Output); got != `{"all":["first","second"],"other":1}` {
				t.Errorf("output %s", got)
			}
		})
	}
}
