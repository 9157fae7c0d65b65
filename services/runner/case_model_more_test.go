package runner_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/scriptmodel"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/runner"
)

// Names that no provider takes back, and one that only another agent has, are told to
// the model with the tools that there are; arguments that break the schema with the
// place and the schema. The history that has such a name in it is taken by the next
// request, and the run goes on.
func TestCaseF05_TheModelReadsWhatIsWrongAndTheHistoryStaysSound(t *testing.T) {
	onEachProvider(t, func(t *testing.T, provider string) {
		long := strings.Repeat("look", 75)
		wrong := asking(
			scriptmodel.Call(long, json.RawMessage(`{"id":1}`)), scriptmodel.Call("functions.look!", json.RawMessage(`{"id":1}`)), scriptmodel.Call("", json.RawMessage(`{"id":1}`)),
			scriptmodel.Call("audit", json.RawMessage(`{}`)), scriptmodel.Call("look", json.RawMessage(`{"id":"one","note":5}`)), goodLook)
		l := newLoop(t, provider, "hello", scripted(func(r scriptmodel.Request) scriptmodel.Answer {
			switch r.Turn() {
			case 0:
				return wrong
			case 1:
				return asking(goodLook)
			}
			read := r.Results()
			for i, want := range [][]string{{"there is no tool", "the tools are: look"}, {"there is no tool", "the tools are: look"}, {"there is no tool"}, {`there is no tool "audit"`, "look"},
				{"$.id got string", "$.note got number", `"required":["id"]`}, {"found"}} {
				for _, w := range want {
					if !strings.Contains(read[i].Text, w) {
						t.Errorf("result %d is %q and does not say %q", i, read[i].Text, w)
					}
				}
				if len(read[i].Text) > 3000 {
					t.Errorf("result %d has %d bytes", i, len(read[i].Text))
				}
			}
			return saying("done")
		})).run()
		l.ends(events.StatusCompleted, "")
		if l.state.ToolCalls != 2 {
			t.Errorf("%d calls were made, want the two good ones", l.state.ToolCalls)
		}
	})
}

// A system prompt with tools that never fits, and input that fits but not with the
// output beside it, in the words of each provider and of servers that are compatible:
// one request, and the sizes; also for an agent whose conversations are shortened,
// because there is nothing to shorten.
func TestCaseF07_APromptThatNeverFitsIsSentOnce(t *testing.T) {
	said := map[string][]string{
		spec.ProviderAnthropic: {"prompt is too long: 210000 tokens > 200000 maximum", "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again"},
		spec.ProviderOpenAIChat: {"This model's maximum context length is 4097 tokens. However, you requested 5097 tokens (1097 in the messages, 4000 in the completion). Please reduce the length of the messages or completion.",
			"'max_tokens' or 'max_completion_tokens' is too large: 4000. This model's maximum context length is 4096 tokens and your request has 1097 input tokens (4000 > 4096 - 1097).",
			"the request exceeds the available context size. try increasing the context size or enable context shift"},
		spec.ProviderOpenAIResponses: {"Your input exceeds the context window of this model. Please adjust your input and try again."},
	}
	onEachProvider(t, func(t *testing.T, provider string) {
		for _, message := range said[provider] {
			for name, context := range map[string]*spec.AgentContext{"as it is": nil, "shortened": {Keep: new(int64(1))}} {
				c := scripted(func(scriptmodel.Request) scriptmodel.Answer { return saying("never") })
				c.Fault = func(scriptmodel.Request, int) scriptmodel.Fault {
					return scriptmodel.Fault{Status: 400, Message: message}
				}
				l := newLoop(t, provider, "hello", c)
				agent := *l.plan.Agent
				agent.Context = context
				l.plan.Agent = &agent
				l.run().ends(events.StatusFailed, "context_window")
				if l.requests() != 1 {
					t.Errorf("%s, %q: %d requests, want one", name, message, l.requests())
				}
				if got := l.state.Ending.Error.Message; !strings.Contains(got, message[:20]) || !strings.Contains(got, "bytes") {
					t.Errorf("%s: the reason %q has not what the provider said and the sizes", name, got)
				}
				// The same rows give the same end.
				st := runner.NewState(l.state.RunID, "default")
				for _, f := range l.journal {
					if err := st.Apply(f); err != nil {
						t.Fatal(err)
					}
				}
				if st.End != l.state.End || st.OwesModelCall() {
					t.Errorf("rebuilt, the run is %s and owes a call: %v", st.Status(), st.OwesModelCall())
				}
			}
		}
	})
}

// A model that asks for the same failing tool for ever is stopped by the budget that
// every agent has, with the numbers; after a raise the run goes on.
func TestCaseH04_TheSameFailingCallEndsAtTheBudget(t *testing.T) {
	onEachProvider(t, func(t *testing.T, provider string) {
		gives := false
		l := newLoop(t, provider, "hello", scripted(func(scriptmodel.Request) scriptmodel.Answer {
			if gives {
				return saying("given up")
			}
			return asking(goodLook)
		}))
		var plain spec.Agent
		docs, err := spec.Parse("a.yaml", []byte("apiVersion: holdfast/v1\nkind: Agent\nmetadata: {name: clerk}\nspec: {model: main, instructions: be exact, tools: [look]}\n"))
		if err != nil {
			t.Fatal(err)
		}
		plain = *docs[0].Agent
		l.plan.Agent = &plain
		l.tool = func(c *runner.Call) events.ToolCompleted {
			return events.ToolCompleted{CallID: c.CallID, RunID: l.state.RunID, Tool: c.Tool, Status: events.CallFailed, Error: &events.Problem{Code: "http_500", Message: "no"}}
		}
		l.run()
		if l.state.Pause == nil || l.state.Pause.By != "budget" || !strings.Contains(l.state.Pause.Reason, "modelCalls: 100 of 100 used") || l.requests() != 100 || l.state.ToolCalls != 100 {
			t.Fatalf("after %d requests and %d calls: %+v", l.requests(), l.state.ToolCalls, l.state.Pause)
		}
		gives = true
		l.decide(runner.Input{Cause: "raise", What: events.RunRaiseBudget, Command: &events.Command{ID: "r", Budget: "modelCalls", To: 120}})
		l.run().ends(events.StatusCompleted, "")
		if l.requests() != 101 {
			t.Errorf("%d requests after the raise, want one more", l.requests())
		}
	})
}
