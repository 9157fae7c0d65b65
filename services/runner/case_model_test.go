package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/scriptmodel"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/runner"
)

type answers = func(r scriptmodel.Request) scriptmodel.Answer

func scripted(f answers) scriptmodel.Config {
	return scriptmodel.Config{Script: func(r scriptmodel.Request) (scriptmodel.Answer, error) { return f(r), nil }}
}

func saying(text string) scriptmodel.Answer {
	return scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Text(text)}}
}

func asking(parts ...scriptmodel.Part) scriptmodel.Answer { return scriptmodel.Answer{Parts: parts} }

var goodLook = scriptmodel.Call("look", json.RawMessage(`{"id":1}`))

// waits are the gaps that a run's timers leave between its attempts.
func (l *loop) waits() (out []time.Duration) {
	for _, f := range l.journal {
		if f.Kind != events.FactModelFailed {
			continue
		}
		var m events.ModelFailed
		if err := json.Unmarshal(f.Data, &m); err != nil {
			l.t.Fatal(err)
		}
		if m.RetryAt != nil {
			out = append(out, m.RetryAt.Sub(f.At))
		}
	}
	return out
}

func TestCaseF01_OverloadBeforeAndInsideTheStream(t *testing.T) {
	onEachProvider(t, func(t *testing.T, provider string) {
		withoutSpare := func(c scriptmodel.Config) *loop {
			l := newLoop(t, provider, "hello", c)
			l.plan.Fallbacks = nil
			return l
		}
		faults := func(f ...scriptmodel.Fault) scriptmodel.Config {
			c := scripted(func(scriptmodel.Request) scriptmodel.Answer { return saying("done") })
			c.Fault = func(_ scriptmodel.Request, nth int) scriptmodel.Fault {
				if nth <= len(f) {
					return f[nth-1]
				}
				return scriptmodel.Fault{}
			}
			return c
		}
		busy := scriptmodel.Fault{Status: 529}
		l := withoutSpare(faults(busy, busy, busy, busy, busy)).run()
		l.ends(events.StatusCompleted, "")
		for i, w := range l.waits() {
			if least := time.Second << i; w < least || w > least*5/4 {
				t.Errorf("wait %d is %s, want %s and up to a quarter", i, w, least)
			}
		}
		if n := len(l.waits()); n != 5 {
			t.Errorf("%d waits, want 5", n)
		}

		l = withoutSpare(faults(scriptmodel.Fault{Status: 429, RetryAfter: 20 * time.Second}, scriptmodel.Fault{CutAfter: 3, ErrorEvent: true}, scriptmodel.Fault{CutAfter: 3})).run()
		l.ends(events.StatusCompleted, "")
		if w := l.waits(); len(w) != 3 || w[0] < 20*time.Second || w[0] > 25*time.Second {
			t.Errorf("waits %v: the provider asked for 20s", w)
		}
		if n := len(l.state.Turns); n != 1 {
			t.Errorf("%d answers are kept, want the whole one", n)
		}

		l = withoutSpare(faults(slices.Repeat([]scriptmodel.Fault{busy}, 20)...)).run()
		if l.state.Attention == nil || !strings.Contains(l.state.Attention.Message, "attempt 8") || l.requests() != 8 {
			t.Errorf("after %d requests: %+v, want to wait for a person after 8", l.requests(), l.state.Attention)
		}
		// A provider that refuses for good is asked once.
		l = withoutSpare(faults(scriptmodel.Fault{Status: 401})).run()
		if l.state.Attention == nil || l.requests() != 1 {
			t.Errorf("after %d requests: %+v, want one and a person", l.requests(), l.state.Attention)
		}
	})
}

func TestCaseF01_FallbackOnlyAtASafePoint(t *testing.T) {
	onEachProvider(t, func(t *testing.T, provider string) {
		for name, tc := range map[string]struct {
			first   []scriptmodel.Part // of the turn before the trouble; none: trouble at once
			status  int
			wantEnd string
			wantBy  string
		}{
			"a fresh call":                      {status: 529, wantEnd: events.StatusCompleted, wantBy: "spare"},
			"a key that is refused":             {status: 401, wantEnd: events.StatusCompleted, wantBy: "spare"},
			"a request that is wrong":           {status: 400, wantEnd: events.StatusAttention},
			"a history that the other can take": {first: []scriptmodel.Part{goodLook}, status: 529, wantEnd: events.StatusCompleted, wantBy: "spare"},
			"a history that is bound":           {first: []scriptmodel.Part{scriptmodel.Thinking("hm"), goodLook}, status: 529, wantEnd: events.StatusAttention},
		} {
			t.Run(name, func(t *testing.T) {
				c := scripted(func(r scriptmodel.Request) scriptmodel.Answer {
					if r.Turn() == 0 && tc.first != nil {
						return asking(tc.first...)
					}
					return saying("done")
				})
				c.Fault = func(r scriptmodel.Request, _ int) scriptmodel.Fault {
					if r.Model == "scripted" && (tc.first == nil || r.Turn() > 0) {
						return scriptmodel.Fault{Status: tc.status}
					}
					return scriptmodel.Fault{}
				}
				l := newLoop(t, provider, "hello", c).run()
				if provider == spec.ProviderOpenAIChat && name == "a history that is bound" {
					// This API's reasoning is plain text, which any model can read.
					tc.wantEnd, tc.wantBy = events.StatusCompleted, "spare"
				}
				if l.state.Status() != tc.wantEnd {
					t.Fatalf("the run is %s, want %s\n%s", l.state.Status(), tc.wantEnd, l.text())
				}
				if n := len(l.state.Turns); n > 0 && tc.wantBy != "" && l.state.Turns[n-1].Answer.ModelName != tc.wantBy {
					t.Errorf("answered by %q, want %q", l.state.Turns[n-1].Answer.ModelName, tc.wantBy)
				}
				if v := l.server.Violations(); len(v) > 0 {
					t.Errorf("%+v", v)
				}
			})
		}
	})
}

func TestCaseF03_OutputLimitInsideAToolCall(t *testing.T) {
	onEachProvider(t, func(t *testing.T, provider string) {
		cut := func(parts ...scriptmodel.Part) scriptmodel.Answer {
			return scriptmodel.Answer{Parts: parts, StopReason: "max_tokens"}
		}
		for name, a := range map[string]scriptmodel.Answer{
			"cut JSON":                   cut(scriptmodel.BadCall("look", `{"id": 1, "no`)),
			"valid, but not all of it":   cut(scriptmodel.Call("look", json.RawMessage(`{"note":"x"}`))),
			"nothing yet":                cut(scriptmodel.Call("look", json.RawMessage(`{}`))),
			"one that looks whole":       cut(goodLook),
			"a whole one and a cut one":  cut(goodLook, scriptmodel.BadCall("look", `{"id":`)),
			"a thought before a cut one": cut(scriptmodel.Thinking("hm"), scriptmodel.BadCall("look", `{"id":`)),
		} {
			t.Run(name, func(t *testing.T) {
				l := newLoop(t, provider, "hello", scripted(func(r scriptmodel.Request) scriptmodel.Answer { return a })).run()
				l.ends(events.StatusFailed, "max_tokens")
				if l.requests() != 3 || l.state.ToolCalls != 0 {
					t.Errorf("%d requests and %d calls, want 3 and none", l.requests(), l.state.ToolCalls)
				}
				for _, code := range l.problems() {
					if code != "truncated" {
						t.Errorf("a call was refused as %s, want truncated", code)
					}
				}
				// The model that asks for less gets on.
				l = newLoop(t, provider, "hello", scripted(func(r scriptmodel.Request) scriptmodel.Answer {
					switch r.Turn() {
					case 0, 1:
						return a
					case 2:
						if res := r.Results(); !strings.Contains(res[len(res)-1].Text, "cut at the output limit") {
							t.Errorf("the model reads %q", res[len(res)-1].Text)
						}
						return asking(goodLook)
					}
					return saying("done")
				})).run()
				l.ends(events.StatusCompleted, "")
			})
		}
		l := newLoop(t, provider, "hello", scripted(func(scriptmodel.Request) scriptmodel.Answer { return cut(scriptmodel.Text("half a sen")) })).run()
		l.ends(events.StatusFailed, "max_tokens")
	})
}

func TestCaseF04_EveryCallHasItsResult(t *testing.T) {
	onEachProvider(t, func(t *testing.T, provider string) {
		three := asking(scriptmodel.Thinking("look thrice"), goodLook, scriptmodel.Call("look", json.RawMessage(`{"id":2}`)), scriptmodel.Call("look", json.RawMessage(`{"id":3}`)))
		l := newLoop(t, provider, "hello", scripted(func(r scriptmodel.Request) scriptmodel.Answer {
			if r.Turn() == 0 {
				return three
			}
			var texts []string
			for _, res := range r.Results() {
				texts = append(texts, string(res.Input)+"="+res.Text)
			}
			return saying(strings.Join(texts, " "))
		}))
		made := map[string]int{}
		l.tool = func(c *runner.Call) events.ToolCompleted {
			made[string(c.Args)]++
			done := events.ToolCompleted{CallID: c.CallID, RunID: l.state.RunID, Tool: c.Tool, Status: events.CallSucceeded, Result: json.RawMessage(`""`)}
			if string(c.Args) == `{"id":2}` {
				done.Status, done.Result, done.Error = events.CallFailed, nil, &events.Problem{Code: "http_500", Message: "no"}
			}
			return done
		}
		l.run().ends(events.StatusCompleted, "")
		if want := `"{\"id\":1}=(empty result) {\"id\":2}=http_500: no {\"id\":3}=(empty result)"`; string(l.state.Ending.Output) != want {
			t.Errorf("the model reads %s, want %s", l.state.Ending.Output, want)
		}
		if len(made) != 3 || made[`{"id":1}`] != 1 {
			t.Errorf("calls made: %v", made)
		}
		// After a crash at any row the run goes on from there, asks for no answer it
		// has, and a call that is still open is never shown as answered.
		for n := 1; n <= len(l.journal); n++ {
			st := runner.NewState(l.state.RunID, "default")
			for _, f := range l.journal[:n] {
				if err := st.Apply(f); err != nil {
					t.Fatal(err)
				}
			}
			_, err := runner.NextRequest(st, l.plan, 2)
			if st.OwesModelCall() && err != nil || !st.OwesModelCall() && len(st.Turns) == 1 && err == nil {
				t.Errorf("after row %d: owes %v, history %v", n, st.OwesModelCall(), err)
			}
		}
	})
}

func TestCaseF05_UnknownToolsAndMalformedArguments(t *testing.T) {
	onEachProvider(t, func(t *testing.T, provider string) {
		for name, tc := range map[string]struct {
			part scriptmodel.Part
			want string
		}{
			"a name that is nearly right": {scriptmodel.Call("Look", json.RawMessage(`{"id":1}`)), "unknown_tool"},
			"an object that is cut":       {scriptmodel.BadCall("look", `{"a":`), "malformed_arguments"},
			"a list":                      {scriptmodel.BadCall("look", `[1]`), "malformed_arguments"},
			"null":                        {scriptmodel.BadCall("look", `null`), "malformed_arguments"},
			"a string":                    {scriptmodel.BadCall("look", `"x"`), "malformed_arguments"},
			"a name twice":                {scriptmodel.Call("look", json.RawMessage(`{"id":1,"id":2}`)), "malformed_arguments"},
			"raw newlines":                {scriptmodel.BadCall("look", "{\"id\":1,\"note\":\"a\nb\"}"), "malformed_arguments"},
			"what the schema forbids":     {scriptmodel.Call("look", json.RawMessage(`{"id":"one"}`)), "invalid_arguments"},
		} {
			t.Run(name, func(t *testing.T) {
				l := newLoop(t, provider, "hello", scripted(func(scriptmodel.Request) scriptmodel.Answer { return asking(tc.part) })).run()
				l.ends(events.StatusFailed, "unusable_calls")
				if l.requests() != 5 || l.state.ToolCalls != 0 {
					t.Errorf("%d requests and %d calls, want 5 and none", l.requests(), l.state.ToolCalls)
				}
				if p := l.problems(); len(p) != 5 || p[0] != tc.want {
					t.Errorf("problems %v, want five times %s", p, tc.want)
				}
				// A good call beside it is made, and the run gets on.
				l = newLoop(t, provider, "hello", scripted(func(r scriptmodel.Request) scriptmodel.Answer {
					if r.Turn() < 6 {
						return asking(tc.part, goodLook)
					}
					return saying("done")
				})).run()
				l.ends(events.StatusCompleted, "")
				if l.state.ToolCalls != 6 {
					t.Errorf("%d good calls were made, want 6", l.state.ToolCalls)
				}
			})
		}
	})
}

func TestCaseF06_EmptyRefusedPausedAndUnknown(t *testing.T) {
	onEachProvider(t, func(t *testing.T, provider string) {
		always := func(a scriptmodel.Answer) *loop {
			return newLoop(t, provider, "hello", scripted(func(scriptmodel.Request) scriptmodel.Answer { return a })).run()
		}
		empty := map[string]scriptmodel.Answer{"nothing": {StopReason: "end_turn"}, "a blank": saying(" \n"), "only a thought": asking(scriptmodel.Thinking("hm"))}
		for name, a := range empty {
			l := always(a)
			l.ends(events.StatusFailed, "empty_answer")
			if l.requests() != 3 || l.state.Usage.OutputTokens == 0 {
				t.Errorf("%s: %d requests, usage %+v; want 3, each counted", name, l.requests(), l.state.Usage)
			}
			// An empty answer after a result poisons nothing.
			n := 0
			l = newLoop(t, provider, "hello", scripted(func(r scriptmodel.Request) scriptmodel.Answer {
				switch n++; {
				case r.Turn() == 0:
					return asking(goodLook)
				case n == 2:
					return a
				}
				return saying("done")
			})).run()
			l.ends(events.StatusCompleted, "")
		}
		l := always(scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Text("I cannot do that")}, StopReason: "refusal"})
		l.ends(events.StatusFailed, "refusal")
		if l.requests() != 1 || !strings.Contains(l.state.Ending.Error.Message, "I cannot do that") {
			t.Errorf("%d requests, %v; want one, and what the model said", l.requests(), l.state.Ending.Error)
		}
		l = always(scriptmodel.Answer{Parts: []scriptmodel.Part{goodLook}, StopReason: "refusal"})
		if l.state.ToolCalls != 0 || l.state.End != events.StatusFailed {
			t.Errorf("a call of a refused answer: %d made, the run is %s", l.state.ToolCalls, l.state.Status())
		}
		l = always(scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Text("x"), goodLook}, StopReason: "out_of_ink"})
		l.ends(events.StatusAttention, "stop_reason")
		if !strings.Contains(l.state.Attention.Message, "out_of_ink") || l.state.ToolCalls != 0 {
			t.Errorf("%d calls, %v: want none and the raw reason", l.state.ToolCalls, l.state.Attention)
		}
		if provider == spec.ProviderAnthropic { // no other has it
			l = newLoop(t, provider, "hello", scripted(func(r scriptmodel.Request) scriptmodel.Answer {
				if r.Turn() < 3 {
					return scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Thinking("hm"), scriptmodel.Text("searching")}, StopReason: "pause_turn"}
				}
				return saying("done")
			})).run()
			l.ends(events.StatusCompleted, "")
			l = always(scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Text("searching")}, StopReason: "pause_turn"})
			l.ends(events.StatusFailed, "paused_turns")
		}
	})
}

func TestCaseF07_ContextWindowExceeded(t *testing.T) {
	onEachProvider(t, func(t *testing.T, provider string) {
		said := "This model's maximum context length is 4096 tokens."
		if provider == spec.ProviderAnthropic {
			said = "prompt is too long: 210000 tokens > 200000 maximum"
		}
		c := scripted(func(r scriptmodel.Request) scriptmodel.Answer { return asking(goodLook) })
		c.Fault = func(r scriptmodel.Request, _ int) scriptmodel.Fault {
			if r.Turn() > 0 {
				return scriptmodel.Fault{Status: 400, Message: said}
			}
			return scriptmodel.Fault{}
		}
		l := newLoop(t, provider, "hello", c)
		l.plan.Model.Timeout = spec.Duration(time.Minute) // a slow machine reads 3 MB for long
		l.tool = func(c *runner.Call) events.ToolCompleted {
			big, _ := json.Marshal(strings.Repeat("x", 3<<20))
			return events.ToolCompleted{CallID: c.CallID, RunID: l.state.RunID, Tool: c.Tool, Status: events.CallSucceeded, Result: big}
		}
		l.run().ends(events.StatusFailed, "context_window")
		if l.requests() != 2 {
			t.Errorf("%d requests, want no identical second one", l.requests())
		}
		for _, want := range []string{"a result of look of 3145730 bytes", said} {
			if got := l.state.Ending.Error.Message; !strings.Contains(got, want) {
				t.Errorf("the reason %q does not say %q", got, want)
			}
		}
		if provider == spec.ProviderAnthropic {
			l = newLoop(t, provider, "hello", scripted(func(scriptmodel.Request) scriptmodel.Answer {
				return scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Text("and th")}, StopReason: "model_context_window_exceeded"}
			})).run()
			l.ends(events.StatusFailed, "context_window")
		}
	})
}

func TestCaseF09_UsageThatIsMissingIsEstimated(t *testing.T) {
	onEachProvider(t, func(t *testing.T, provider string) {
		text := strings.Repeat("four words and more ", 400)
		for name, tc := range map[string]struct {
			answer        scriptmodel.Answer
			wantEstimated bool
			want          events.Usage
		}{
			"none":                 {answer: scriptmodel.Answer{Parts: saying(text).Parts, NoUsage: true}, wantEstimated: true},
			"zero":                 {answer: scriptmodel.Answer{Parts: saying(text).Parts, Usage: scriptmodel.Usage{ReasoningTokens: 1}}, wantEstimated: true},
			"no output":            {answer: scriptmodel.Answer{Parts: saying(text).Parts, Usage: scriptmodel.Usage{InputTokens: 5000}}, wantEstimated: true},
			"all of it, once each": {answer: scriptmodel.Answer{Parts: saying(text).Parts, Usage: scriptmodel.Usage{InputTokens: 100, CacheReadInputTokens: 900, CacheCreationInputTokens: 200, OutputTokens: 60, ReasoningTokens: 20}}, want: events.Usage{InputTokens: 1200, CacheReadTokens: 900, CacheWriteTokens: 200, OutputTokens: 60, ReasoningTokens: 20}},
		} {
			t.Run(name, func(t *testing.T) {
				l := newLoop(t, provider, "hello", scripted(func(scriptmodel.Request) scriptmodel.Answer { return tc.answer })).run()
				l.ends(events.StatusCompleted, "")
				u := l.state.Usage
				if u.Estimated != tc.wantEstimated {
					t.Fatalf("usage %+v, want estimated %v", u, tc.wantEstimated)
				}
				if tc.wantEstimated {
					if u.InputTokens < 10 || u.OutputTokens < int64(len(text)/4) {
						t.Errorf("usage %+v is too low for %d bytes", u, len(text))
					}
					if l.state.CostGuess != l.state.Cost || l.state.Cost == 0 {
						t.Errorf("cost %d, estimated %d", l.state.Cost, l.state.CostGuess)
					}
					return
				}
				if provider == spec.ProviderAnthropic {
					tc.want.ReasoningTokens = 0 // its API does not say
				}
				if u != tc.want {
					t.Errorf("usage %+v, want %+v", u, tc.want)
				}
				// 100 x 3 + 900 x 0.3 + 200 x 3.75 + 60 x 15 = 2220 micro-dollars.
				if l.state.Cost != 2220 || l.state.CostGuess != 0 {
					t.Errorf("cost %d, estimated %d; want 2220 and none", l.state.Cost, l.state.CostGuess)
				}
			})
		}
	})
}

// The cost of a run stands in its row and in the view that others read.
func TestCaseF09_TheCostIsInTheView(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, strings.Replace(documents, "apiKey: {env: KEY}}", `apiKey: {env: KEY}, prices: {input: "3", output: "0.000001"}}`, 1))
	r.worker(&script{answer: func(_ context.Context, _ runner.Request, n int) (runner.Answer, error) {
		if n == 1 {
			return asks(runner.ModelCall{Tool: "nope"}), nil
		}
		a := said("done")
		a.Usage.Estimated = true
		return a, nil
	}})
	id := r.start(events.KindAgent, "clerk", `{}`)
	r.reaches(id, events.StatusCompleted)
	var cost, guess int64
	if err := r.sql.QueryRow(t.Context(), `SELECT cost_micro_usd, cost_estimated_micro_usd FROM runner.v_runs WHERE run_id = $1`, string(id)).Scan(&cost, &guess); err != nil {
		t.Fatal(err)
	}
	// Twice 10 tokens for 3 micro-dollars each, and the 5 of the answer round up to one.
	if cost != 62 || guess != 31 {
		t.Errorf("cost %d, estimated %d; want 62 and 31", cost, guess)
	}
	// Reports count the same, by the model that answered.
	var calls, tokens int64
	var model, agent, root string
	if err := r.sql.QueryRow(t.Context(), `SELECT model, agent, root_run_id, calls, input_tokens + output_tokens, cost_micro_usd, cost_estimated_micro_usd FROM runner.v_spend WHERE run_id = $1`, string(id)).Scan(&model, &agent, &root, &calls, &tokens, &cost, &guess); err != nil {
		t.Fatal(err)
	}
	if model == "" || agent != "clerk" || root != string(id) || calls != 2 || tokens != 30 || cost != 62 || guess != 31 {
		t.Errorf("reports have %d calls, %d tokens, %d of which %d estimated, of %s by %s below %s", calls, tokens, cost, guess, agent, model, root)
	}
}

// A cancelled call is not a failure of the provider's.
func TestModels_ACancelledCallIsTheContexts(t *testing.T) {
	onEachProvider(t, func(t *testing.T, provider string) {
		c := scripted(func(scriptmodel.Request) scriptmodel.Answer { return saying("x") })
		c.Fault = func(scriptmodel.Request, int) scriptmodel.Fault { return scriptmodel.Fault{Delay: time.Minute} }
		l := newLoop(t, provider, "hello", c)
		r, err := runner.NextRequest(l.state, l.plan, 1)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		if _, err := l.model.Answer(ctx, r); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want the end of the context", err)
		}
	})
}
