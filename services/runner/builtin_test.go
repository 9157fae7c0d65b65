package runner

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// started is a run that owes its first model call.
func started(t *testing.T) (*State, *Plan) {
	t.Helper()
	plan, body := purePlan(t)
	return must(t)(Decide(NewState(testRun, "default"), plan, Input{Cause: "start", Start: &Start{Body: body}}, "w", testTime)), plan
}

// asked is an answer with calls, each "<tool> <arguments>".
func asked(calls ...string) Answer {
	a := Answer{StopReason: StopTools, Raw: fmt.Sprintf(`{"calls":%d}`, len(calls))}
	for i, c := range calls {
		tool, args, _ := strings.Cut(c, " ")
		a.Calls = append(a.Calls, ModelCall{ProviderID: fmt.Sprintf("p%d", i), Tool: tool, Args: json.RawMessage(args)})
	}
	return a
}

// reads is what the model reads for the calls of the last answer.
func reads(s *State) []string {
	var out []string
	for _, c := range s.CallsInOrder(len(s.Turns) - 1) {
		out = append(out, c.result().Text)
	}
	return out
}

func TestBuiltin_EveryOneOfTheRunnerIsAnswered(t *testing.T) {
	t.Parallel()
	for _, b := range spec.Builtins() {
		if _, here := builtins[b.Name]; here != (b.By == spec.ByRunner) {
			t.Errorf("%s is answered by %s and in the runner's table: %t", b.Name, b.By, here)
		}
	}
	for name := range builtins {
		if spec.BuiltinNamed(name) == nil {
			t.Errorf("no document can name %s", name)
		}
	}
}

// Calls of one answer are answered in its commit, in order, each seeing what the
// ones before it did; nothing is sent for them, and the next model call is owed.
func TestBuiltin_AnsweredInTheCommitOfTheAnswer(t *testing.T) {
	t.Parallel()
	s, plan := started(t)
	d, err := DecideAnswer(s, plan, asked(
		`plan {"items":[{"id":"1","title":"read","state":"in_progress"},{"id":"2","title":"write"}]}`,
		`plan {"update":[{"id":"1","state":"done","note":"12 pages"},{"id":"3","title":"send"}]}`,
		`note {"set":{"big":9007199254740993,"eur":128.95,"x":null},"get":["eur","none"]}`,
		`note {"delete":["x","x"]}`,
		`plan {}`, `note {}`), Claimed{Epoch: 1}, testTime)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{events.FactModelAnswered, events.FactPlanChanged, events.FactPlanChanged, events.FactFactsChanged, events.FactFactsChanged, events.FactPlanChanged, events.FactFactsChanged}
	if diff := cmp.Diff(want, kindsOf(d.Facts)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		`{"in_progress":1,"items":2,"pending":1}`,
		`{"done":1,"items":3,"pending":2}`,
		`{"known":3,"facts":{"eur":128.95},"missing":["none"]}`,
		`{"known":2}`,
		`{"plan":[{"id":"1","title":"read","state":"done","note":"12 pages"},{"id":"2","title":"write","state":"pending"},{"id":"3","title":"send","state":"pending"}]}`,
		`{"known":2,"facts":{"big":9007199254740993,"eur":128.95}}`,
	}, reads(d.State)); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if !d.State.OwesModelCall() || len(d.State.PendingItems()) != 1 || d.State.ToolCalls != 0 {
		t.Errorf("owes %t, waits for %v, %d tool calls", d.State.OwesModelCall(), d.State.PendingItems(), d.State.ToolCalls)
	}
	for _, f := range d.Facts {
		out, err := Outgoing(d.State, plan, f)
		if err != nil || len(out) != 1 || out[0].Type != events.TypeRunEvent {
			t.Errorf("row %s sends %v: %v", f.Kind, out, err)
		}
	}
	if s.PlanItems != nil || s.NamedFacts != nil {
		t.Error("the state before was written to")
	}
}

// A row holds what is new and not what was there: the last of many changes is as
// large as the first.
func TestBuiltin_ARowIsAsLargeAsWhatIsNew(t *testing.T) {
	t.Parallel()
	s, plan := started(t)
	sizes := map[string][]int{}
	for n := range 150 {
		d, err := DecideAnswer(s, plan, asked(
			fmt.Sprintf(`plan {"update":[{"id":"%03d","title":"the title of a step"}]}`, n),
			fmt.Sprintf(`note {"set":{"name-%03d":"the value of a fact"}}`, n)), Claimed{Epoch: 1}, testTime)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range d.Facts[1:] {
			sizes[f.Kind] = append(sizes[f.Kind], len(f.Data))
		}
		// The budget of model calls is not what this is about.
		s, d.State.ModelCalls, d.State.Pause = d.State, 0, nil
	}
	if len(s.PlanItems) != 150 || len(s.NamedFacts) != 150 {
		t.Fatalf("%d items, %d facts", len(s.PlanItems), len(s.NamedFacts))
	}
	for kind, all := range sizes {
		if len(all) != 150 || all[149] > all[0]+4 { // row and index numbers grow by digits
			t.Errorf("%d rows %s, the first has %d bytes, the last %d", len(all), kind, all[0], all[len(all)-1])
		}
	}
}

// What cannot be done is an error that the model reads, and changes nothing.
func TestBuiltin_BadArguments(t *testing.T) {
	t.Parallel()
	before := []string{`plan {"items":[{"id":"1","title":"read"}]}`, `note {"set":{"a":1}}`}
	many := func(n int, format string) string {
		var parts []string
		for i := range n {
			parts = append(parts, fmt.Sprintf(format, i))
		}
		return strings.Join(parts, ",")
	}
	for name, tc := range map[string]struct{ call, want string }{
		"both forms":             {`plan {"items":[],"update":[]}`, "give one of the two"},
		"an id twice":            {`plan {"items":[{"id":"1","title":"a"},{"id":"1","title":"b"}]}`, "stands there twice"},
		"an unknown id":          {`plan {"update":[{"id":"1","state":"done"},{"id":"9","state":"done"}]}`, `has no item "9"`},
		"no title":               {`plan {"items":[{"id":"1"}]}`, "has no title"},
		"an unknown state":       {`plan {"items":[{"id":"1","title":"a","state":"finished"}]}`, "state"},
		"an unknown argument":    {`plan {"todos":[]}`, "todos"},
		"201 items":              {`plan {"items":[` + many(201, `{"id":"%d","title":"a"}`) + `]}`, "maxItems"},
		"200 more items":         {`plan {"update":[` + many(200, `{"id":"x%d","title":"a"}`) + `]}`, "would have 201 items"},
		"a plan of many words":   {`plan {"items":[` + many(100, `{"id":"%d","title":"a","note":"`+strings.Repeat("n", 900)+`"}`) + `]}`, "bytes of text"},
		"set and delete":         {`note {"set":{"a":2},"delete":["a"]}`, "set and deleted"},
		"a name with a line":     {`note {"set":{"a\nb":2}}`, "cannot be shown"},
		"an empty name":          {`note {"set":{"":2}}`, "needs a name"},
		"a long name":            {`note {"set":{"` + strings.Repeat("é", 60) + `":2}}`, "120 bytes"},
		"a large value":          {`note {"set":{"b":"` + strings.Repeat("x", spec.MaxFactBytes) + `"}}`, "artifact"},
		"200 more facts":         {`note {"set":{` + many(200, `"b%d":1`) + `}}`, "would be 201 facts"},
		"much altogether":        {`note {"set":{` + many(5, `"b%d":"`+strings.Repeat("x", 15<<10)+`"`) + `}}`, "all facts would have"},
		"an argument of no kind": {`note {"sets":{}}`, "sets"}, // the document's own schema allows it
		"a list of no names":     {`note {"get":[1]}`, "get"},
	} {
		s, plan := started(t)
		d, err := DecideAnswer(s, plan, asked(slices.Concat(before, []string{tc.call})...), Claimed{Epoch: 1}, testTime)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := d.State.CallsInOrder(0)[2].result()
		if !got.Error || !strings.HasPrefix(got.Text, "invalid_arguments: ") || !strings.Contains(got.Text, tc.want) || !strings.Contains(got.Text, "; nothing was ") {
			t.Errorf("%s: the model reads %.300q, want %q", name, got.Text, tc.want)
		}
		if len(d.State.PlanItems) != 1 || d.State.PlanItems[0].State != events.ItemPending || len(d.State.NamedFacts) != 1 || string(d.State.NamedFacts["a"]) != "1" {
			t.Errorf("%s: changed %v %v", name, d.State.PlanItems, d.State.NamedFacts)
		}
		if !d.State.OwesModelCall() {
			t.Errorf("%s: the next model call is not owed", name)
		}
	}
}

// A pause holds back what acts. A plan and facts are written at once: they change
// nothing but the run. A cancelled run writes neither.
func TestBuiltin_PausedAndCancelled(t *testing.T) {
	t.Parallel()
	answer := asked(`plan {"items":[{"id":"1","title":"read"}]}`, `look {}`, `note {"set":{"a":1}}`)
	command := func(s *State, plan *Plan, what string) *State {
		return must(t)(Decide(s, plan, Input{Cause: what, What: what, Command: &events.Command{ID: what, Principal: "op"}}, "w", testTime))
	}
	s, plan := started(t)
	s = must(t)(DecideAnswer(command(s, plan, events.RunPause), plan, answer, Claimed{Epoch: 1}, testTime))
	var states []string
	for _, c := range s.CallsInOrder(0) {
		states = append(states, c.State)
	}
	if diff := cmp.Diff([]string{callDone, callHeld, callDone}, states); diff != "" || len(s.PlanItems) != 1 || len(s.NamedFacts) != 1 {
		t.Errorf("paused (-want +got):\n%s; plan %v, facts %v", diff, s.PlanItems, s.NamedFacts)
	}
	if s = command(s, plan, events.RunResume); s.CallsInOrder(0)[1].State != callSent {
		t.Error("the call that acts was not released")
	}
	s, plan = started(t)
	s = must(t)(DecideAnswer(command(s, plan, events.RunCancel), plan, answer, Claimed{Epoch: 1}, testTime))
	if s.PlanItems != nil || s.NamedFacts != nil || s.End != events.StatusCancelled && s.Cancel == nil {
		t.Errorf("cancelled: plan %v, facts %v, end %q", s.PlanItems, s.NamedFacts, s.End)
	}
}

// A budget of tool calls that is used up keeps a model from acting, not from
// saying in its plan how far it came.
func TestBuiltin_TakesNothingFromTheBudget(t *testing.T) {
	t.Parallel()
	s, plan := started(t)
	s = must(t)(DecideAnswer(s, plan, asked(`look {}`, `look {}`, `look {}`, `look {}`, `look {}`, `plan {}`, `note {}`, `look {}`, `look {}`, `plan {}`), Claimed{Epoch: 1}, testTime))
	var states []string
	for _, c := range s.CallsInOrder(0) {
		states = append(states, c.State)
	}
	if s.ToolCalls != 6 || states[7] != callSent || states[8] != callDone || s.CallsInOrder(0)[8].Problem.Code != "budget" || s.CallsInOrder(0)[9].Problem != nil {
		t.Errorf("%d tool calls, %v", s.ToolCalls, states)
	}
}
