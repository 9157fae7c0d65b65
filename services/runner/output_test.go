package runner_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/scriptmodel"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/runner"
)

const priceOutput = `output: {schema: {type: object, properties: {price: {type: number}}, required: [price], additionalProperties: false}}`

func repairs(n int) string {
	return strings.TrimSuffix(priceOutput, "}") + fmt.Sprintf(", repairs: %d}", n)
}

// agentLines gives the loop's agent more of a specification.
func (l *loop) agentLines(lines string) *loop {
	l.t.Helper()
	docs, err := spec.Parse("agent.yaml", []byte("apiVersion: holdfast/v1\nkind: Agent\nmetadata: {name: clerk}\nspec:\n  model: main\n  instructions: be exact\n  tools: [look]\n  "+
		strings.ReplaceAll(lines, "\n", "\n  ")+"\n"))
	if err != nil {
		l.t.Fatal(err)
	}
	l.plan.Agent = docs[0].Agent
	return l
}

// rejections are the bodies of the rows about answers that were not accepted.
func (l *loop) rejections() (out []events.OutputRejected) {
	l.t.Helper()
	for _, f := range l.journal {
		if f.Kind == events.FactOutputRejected {
			var b events.OutputRejected
			if err := json.Unmarshal(f.Data, &b); err != nil {
				l.t.Fatal(err)
			}
			out = append(out, b)
		}
	}
	return out
}

func TestOutput_IsCorrectedByTheModelWithinItsLimit(t *testing.T) {
	onEachProvider(t, func(t *testing.T, provider string) {
		for name, tc := range map[string]struct {
			answers    []scriptmodel.Answer // the last one is said again and again
			lines      string
			wantStatus string
			wantCode   string
			wantOutput string
			wantAsked  int
		}{
			"it fits":                {answers: []scriptmodel.Answer{saying(`{"price":12345678901234567890.10}`)}, wantStatus: events.StatusCompleted, wantOutput: `{"price":12345678901234567890.10}`, wantAsked: 1},
			"a fence":                {answers: []scriptmodel.Answer{saying("```json\n{\"price\": 1.50}\n```")}, wantStatus: events.StatusCompleted, wantOutput: `{"price":1.50}`, wantAsked: 1},
			"words around it":        {answers: []scriptmodel.Answer{saying(`Here: {"price":1}`), saying(`{"price":1}`)}, wantStatus: events.StatusCompleted, wantOutput: `{"price":1}`, wantAsked: 2},
			"tools first":            {answers: []scriptmodel.Answer{asking(goodLook), saying(`{"price":"1"}`), saying(`{"price":1}`)}, wantStatus: events.StatusCompleted, wantOutput: `{"price":1}`, wantAsked: 3},
			"never right":            {answers: []scriptmodel.Answer{saying(`{"price":"1"}`)}, wantStatus: events.StatusFailed, wantCode: "output_schema", wantAsked: 3},
			"no repair is allowed":   {answers: []scriptmodel.Answer{saying(`no`)}, lines: repairs(0), wantStatus: events.StatusFailed, wantCode: "output_schema", wantAsked: 1},
			"a call instead":         {answers: []scriptmodel.Answer{saying(`no`), asking(goodLook), saying(`{"price":2}`)}, wantStatus: events.StatusCompleted, wantOutput: `{"price":2}`, wantAsked: 3},
			"calls and nothing else": {answers: []scriptmodel.Answer{saying(`no`), asking(goodLook, goodLook)}, wantStatus: events.StatusFailed, wantCode: "output_schema", wantAsked: 3},
			"nothing said":           {answers: []scriptmodel.Answer{saying(`no`), saying(" "), saying(`{"price":3}`)}, wantStatus: events.StatusCompleted, wantOutput: `{"price":3}`, wantAsked: 3},
			"an answer with a call":  {answers: []scriptmodel.Answer{asking(scriptmodel.Text(`{"price":3}`), goodLook), saying(`{"price":4}`)}, wantStatus: events.StatusCompleted, wantOutput: `{"price":4}`, wantAsked: 2},
		} {
			t.Run(name, func(t *testing.T) {
				asked := 0
				l := newLoop(t, provider, "hello", scripted(func(r scriptmodel.Request) scriptmodel.Answer {
					asked++
					return tc.answers[min(asked, len(tc.answers))-1]
				}))
				if tc.lines == "" {
					tc.lines = priceOutput
				}
				l.agentLines(tc.lines).run()
				l.ends(tc.wantStatus, tc.wantCode)
				if diff := cmp.Diff(tc.wantOutput, string(l.state.Ending.Output)); diff != "" || l.requests() != tc.wantAsked {
					t.Errorf("%d requests, want %d; output (-want +got):\n%s\n%s", l.requests(), tc.wantAsked, diff, l.text())
				}
			})
		}
	})
}

// While the model corrects its answer nothing that it asks for is called, and each
// such answer uses up a repair.
func TestOutput_ToolsDoNotRunWhileTheAnswerIsCorrected(t *testing.T) {
	l := newLoop(t, spec.ProviderAnthropic, "hello", scripted(func(r scriptmodel.Request) scriptmodel.Answer {
		if r.Turn() == 1 {
			return saying("almost")
		}
		return asking(goodLook)
	}))
	called := 0
	l.tool = func(c *runner.Call) events.ToolCompleted {
		called++
		return events.ToolCompleted{CallID: c.CallID, RunID: l.state.RunID, Tool: c.Tool, Status: events.CallSucceeded}
	}
	l.agentLines(priceOutput).run().ends(events.StatusFailed, "output_schema")
	if diff := cmp.Diff([]string{"output_schema", "output_schema"}, l.problems()); diff != "" || called != 1 || l.state.ToolCalls != 1 {
		t.Errorf("%d calls, %d counted, want the one before; refused (-want +got):\n%s", called, l.state.ToolCalls, diff)
	}
	got := l.rejections()
	if len(got) != 3 || got[0].Repair != 1 || got[1].Repair != 2 || got[2].Repair != 0 || got[2].Message != "" {
		t.Errorf("rejections %+v", got)
	}
	if m := l.state.Ending.Error.Message; !strings.Contains(m, "after 2 repairs") || !strings.Contains(m, "asked for tools") {
		t.Errorf("the run fails with %q", m)
	}
}

// The same rows are there whatever breaks between the rejection and the repair, and
// the model reads what was wrong in front of its next answer, the prompt unchanged.
func TestOutput_TheModelReadsWhatIsWrong(t *testing.T) {
	var last scriptmodel.Request
	l := newLoop(t, spec.ProviderOpenAIChat, "hello", scripted(func(r scriptmodel.Request) scriptmodel.Answer {
		if last = r; r.Turn() == 0 {
			return saying(`{"price":"1"}`)
		}
		return saying(`{"price":1}`)
	}))
	l.agentLines(priceOutput)
	l.step(t.Context())
	if !l.state.OwesModelCall() || l.state.Status() != events.StatusRunning {
		t.Fatalf("the run is %s\n%s", l.state.Status(), l.text())
	}
	again := runner.NewState(l.state.RunID, "default")
	for _, f := range l.journal {
		if err := again.Apply(f); err != nil {
			t.Fatal(err)
		}
	}
	l.state = again // the process that rejected it is gone
	l.run().ends(events.StatusCompleted, "")
	if n := len(last.Messages); n != 3 || !strings.Contains(last.Messages[2].Blocks[0].Text, "- $.price: got string, want number") {
		t.Errorf("the model read %+v", last.Messages)
	}
	if !strings.HasPrefix(last.System, "be exact\n\n") || !strings.Contains(last.System, `"required":["price"]`) {
		t.Errorf("the system prompt is %q", last.System)
	}
	if len(l.rejections()) != 1 || l.state.ModelCalls != 2 {
		t.Errorf("%d rejections, %d model calls", len(l.rejections()), l.state.ModelCalls)
	}
}

// Repairs are model calls and answers like any: the ceilings of the run hold.
func TestOutput_RepairsCountForTheBudget(t *testing.T) {
	for name, tc := range map[string]struct{ budget, wantCode string }{
		"model calls": {"budget: {modelCalls: 2, onExceeded: fail}", "budget"},
		"steps":       {"budget: {steps: 2, onExceeded: fail}", "budget"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoop(t, spec.ProviderAnthropic, "hello", scripted(func(scriptmodel.Request) scriptmodel.Answer { return saying("no") }))
			if l.agentLines(tc.budget+"\n"+repairs(9)).run().ends(events.StatusFailed, tc.wantCode); l.requests() != 2 {
				t.Errorf("%d requests, want 2", l.requests())
			}
		})
	}
}
