package runner_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/scriptmodel"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/runner"
)

func asksForSummary(r scriptmodel.Request) bool {
	return strings.HasSuffix(r.LastText(), runner.SummaryAsk)
}

// compacts are the bodies of the rows about summaries.
func compacts(t *testing.T, journal []runner.Fact) (started []events.CompactionStarted, done []events.ContextCompacted) {
	t.Helper()
	for _, f := range journal {
		var s events.CompactionStarted
		var c events.ContextCompacted
		switch f.Kind {
		case events.FactCompactionStarted:
			if err := json.Unmarshal(f.Data, &s); err != nil {
				t.Fatal(err)
			}
			started = append(started, s)
		case events.FactContextCompacted:
			if err := json.Unmarshal(f.Data, &c); err != nil {
				t.Fatal(err)
			}
			done = append(done, c)
		}
	}
	return started, done
}

// bigLooks lets each call return a kilobyte that says which it was.
func (l *loop) bigLooks() *loop {
	n := 0
	l.tool = func(c *runner.Call) events.ToolCompleted {
		n++
		return events.ToolCompleted{CallID: c.CallID, RunID: l.state.RunID, Tool: c.Tool, Status: events.CallSucceeded,
			Result: mustJSON(l.t, fmt.Sprintf("result %d ", n)+strings.Repeat("x", 1000))}
	}
	return l
}

// looks is a model that thinks and looks until it has seen so many results of its
// own, then says what it was asked.
func looks(turns int, summary string) (scriptmodel.Config, *[]scriptmodel.Request) {
	var seen []scriptmodel.Request
	answered, summaries := 0, 0
	return scripted(func(r scriptmodel.Request) scriptmodel.Answer {
		seen = append(seen, r)
		switch {
		case asksForSummary(r):
			summaries++
			return saying(fmt.Sprintf("%s, part %d", summary, summaries))
		case answered == turns:
			return saying("done")
		}
		answered++
		return asking(scriptmodel.Thinking(fmt.Sprint("thought ", answered)), goodLook, goodLook)
	}), &seen
}

// A long run is shortened again and again: its requests stay small and valid, begin
// with the first message and the newest summary, keep the newest answers as they
// were, and the journal has everything.
func TestCompact_LongRunStaysBelowItsThreshold(t *testing.T) {
	onEachProvider(t, func(t *testing.T, provider string) {
		c, seen := looks(24, "the gist of it")
		l := newLoop(t, provider, "the task", c).bigLooks().agentLines("context: {compactAt: 6000, keep: 2}")
		l.run().ends(events.StatusCompleted, "")
		started, done := compacts(t, l.journal)
		if len(done) < 2 || len(started) != len(done) {
			t.Fatalf("%d summaries were asked for and %d are there, want two and more\n%s", len(started), len(done), l.text())
		}
		if n := len(l.state.Turns); n != 25 || l.state.ModelCalls != int64(n+len(done)) {
			t.Errorf("%d answers, %d model calls, %d summaries", n, l.state.ModelCalls, len(done))
		}
		system, summaries := (*seen)[0].System, 0
		for i, r := range *seen {
			if len(r.Raw) > 40_000 {
				t.Errorf("request %d has %d bytes", i, len(r.Raw))
			}
			if r.System != system || len(r.Tools) != 1 || !strings.HasPrefix(r.FirstText(), `"the task"`) {
				t.Errorf("request %d begins otherwise: %q, %d tools, %.80q", i, r.System, len(r.Tools), r.FirstText())
			}
			if asksForSummary(r) {
				summaries++
				continue
			}
			if summaries > 0 != strings.Contains(r.FirstText(), "the gist of it") || strings.Count(r.FirstText(), "the gist of it") > 1 {
				t.Errorf("request %d, after %d summaries, begins with %.300q", i, summaries, r.FirstText())
			}
		}
		if summaries != len(done) {
			t.Errorf("%d requests for %d summaries", summaries, len(done))
		}
		for i, s := range started {
			if s.Why != events.CompactThreshold || s.Tokens <= 6000 || s.UpTo != done[i].UpTo {
				t.Errorf("%+v, then %+v", s, done[i])
			}
		}
		if done[0].Usage.InputTokens == 0 || done[0].CostMicroUSD == 0 || done[0].ModelName != "main" {
			t.Errorf("what it cost is not known: %+v", done[0])
		}
	})
}

// What the provider says of a full window begins a summary where one is wanted, and
// fails the run where none is (TestCaseF08).
func TestCompact_FullWindow(t *testing.T) {
	onEachProvider(t, func(t *testing.T, provider string) {
		const full = "prompt is too long: the maximum context length is 10 tokens"
		small := func(r scriptmodel.Request) bool { return len(r.Raw) < 9000 }
		c, _ := looks(6, "short")
		c.Fault = func(r scriptmodel.Request, _ int) scriptmodel.Fault {
			if !small(r) && !asksForSummary(r) {
				return scriptmodel.Fault{Status: 400, Message: full}
			}
			return scriptmodel.Fault{}
		}
		l := newLoop(t, provider, "the task", c).bigLooks().agentLines("context: {keep: 1}")
		l.run().ends(events.StatusCompleted, "")
		started, done := compacts(t, l.journal)
		if len(done) == 0 || started[0].Why != events.CompactWindow {
			t.Errorf("%+v", started)
		}

		// The request for the summary does not fit either: results are shortened in it.
		c, seen := looks(6, "short")
		c.Fault = func(r scriptmodel.Request, _ int) scriptmodel.Fault {
			if len(r.Raw) > 20_000 {
				return scriptmodel.Fault{Status: 400, Message: full}
			}
			return scriptmodel.Fault{}
		}
		l = newLoop(t, provider, "the task", c).agentLines("context: {keep: 0}")
		l.tool = func(c *runner.Call) events.ToolCompleted {
			return events.ToolCompleted{CallID: c.CallID, RunID: l.state.RunID, Tool: c.Tool, Status: events.CallSucceeded, Result: mustJSON(t, strings.Repeat("y", 12_000))}
		}
		l.run().ends(events.StatusCompleted, "")
		started, _ = compacts(t, l.journal)
		if len(started) < 2 || started[0].Brief || !started[1].Brief || started[0].UpTo != started[1].UpTo {
			t.Errorf("%+v", started)
		}
		if r := (*seen)[1]; !asksForSummary(r) || !strings.Contains(r.Results()[0].Text, "(shortened)") {
			t.Errorf("the second request that was let in is %.3000q", r.Raw)
		}

		// Nothing helps: the first message alone is too large.
		c, _ = looks(6, "short")
		c.Fault = func(r scriptmodel.Request, _ int) scriptmodel.Fault {
			if r.Turn() > 0 || strings.Contains(r.FirstText(), "short") {
				return scriptmodel.Fault{Status: 400, Message: full}
			}
			return scriptmodel.Fault{}
		}
		l = newLoop(t, provider, "the task", c).agentLines("context: {compactAt: 1000000}")
		l.run().ends(events.StatusFailed, "context_window")
		if n := l.requests(); n != 4 { // the first, the full one, the summary, the brief one
			t.Errorf("%d requests", n)
		}
	})
}

// An answer that breaks off because the window is full is in no later request.
func TestCompact_AnswerCutByTheWindow(t *testing.T) {
	cuts := 0
	c := scripted(func(r scriptmodel.Request) scriptmodel.Answer {
		if strings.Contains(string(r.Raw), "and th\"") {
			t.Errorf("a request has what broke off: %s", r.Raw)
		}
		switch {
		case asksForSummary(r):
			return saying("so far so good")
		case r.Turn() == 1 && cuts == 0:
			cuts++
			return scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Text("and th"), goodLook}, StopReason: "model_context_window_exceeded"}
		case strings.Contains(r.FirstText(), "so far"):
			return saying("done")
		}
		return asking(goodLook)
	})
	l := newLoop(t, spec.ProviderAnthropic, "the task", c).agentLines("context: {keep: 1}")
	l.run().ends(events.StatusCompleted, "")
	if l.state.ToolCalls != 1 || len(l.state.Turns) != 3 {
		t.Errorf("%d calls, %d answers\n%s", l.state.ToolCalls, len(l.state.Turns), l.text())
	}
	// It goes on like that: the run ends.
	c = scripted(func(r scriptmodel.Request) scriptmodel.Answer {
		if asksForSummary(r) {
			return saying("again")
		}
		if r.Turn() == 0 && !strings.Contains(r.FirstText(), "again") {
			return asking(goodLook)
		}
		return scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Text("and th")}, StopReason: "model_context_window_exceeded"}
	})
	l = newLoop(t, spec.ProviderAnthropic, "the task", c).agentLines("context: {keep: 0}")
	l.run().ends(events.StatusFailed, "context_window")
}

// A summary that cannot be used is a failed, paid model call: asked for again, and
// after the third of them a person looks. No tool that it asks for is called.
func TestCompact_SummaryThatIsNone(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer scriptmodel.Answer
		want   string
	}{
		"nothing":       {saying(" "), "it is empty"},
		"too much":      {saying(strings.Repeat("long ", 20_000)), "at most 65536 are kept"},
		"a call":        {asking(goodLook), "it asked for tools"},
		"a call and it": {asking(scriptmodel.Text("a summary"), goodLook), "it asked for tools"},
		"cut":           {scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Text("a summ")}, StopReason: "max_tokens"}, `it ended with "max_tokens"`},
		"refused":       {scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Text("no")}, StopReason: "refusal"}, `it ended with "refusal"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad := 2
			c := scripted(func(r scriptmodel.Request) scriptmodel.Answer {
				switch {
				case asksForSummary(r) && bad > 0:
					bad--
					return tc.answer
				case asksForSummary(r):
					return saying("a summary")
				case strings.Contains(r.FirstText(), "a summary"):
					return saying("done")
				}
				return asking(goodLook)
			})
			l := newLoop(t, spec.ProviderAnthropic, "the task", c).bigLooks().agentLines("context: {compactAt: 1500, keep: 1}")
			l.run().ends(events.StatusCompleted, "")
			var failed events.ModelFailed
			rows, calls := 0, int64(0)
			for _, f := range l.journal {
				switch f.Kind {
				case events.FactModelFailed:
					rows++
					if err := json.Unmarshal(f.Data, &failed); err != nil || failed.Code != "summary" || !strings.Contains(failed.Message, tc.want) || failed.Usage == nil || failed.NextModel != "" {
						t.Errorf("%s (%v)", f.Data, err)
					}
				case events.FactToolCompleted:
					calls++
				}
			}
			if rows != 2 || calls != l.state.ToolCalls || l.state.ModelCalls != int64(len(l.state.Turns)+3) {
				t.Errorf("%d failures, %d results, %d calls, %d model calls\n%s", rows, calls, l.state.ToolCalls, l.state.ModelCalls, l.text())
			}
			bad = 9
			l = newLoop(t, spec.ProviderAnthropic, "the task", c).bigLooks().agentLines("context: {compactAt: 1500, keep: 1}")
			l.run().ends(events.StatusAttention, "summary")
			if bad != 6 {
				t.Errorf("%d summaries were asked for, want 3", 9-bad)
			}
			bad = 0 // mended
			l.decide(runner.Input{Cause: "command:1", What: events.RunResume, Command: &events.Command{ID: "1", RunID: l.state.RunID}})
			l.run().ends(events.StatusCompleted, "")
		})
	}
}

// The same failure as of any model call: it waits and asks again, by the agent's
// budget.
func TestCompact_SummaryCallFailsAndIsBudgeted(t *testing.T) {
	c, _ := looks(5, "short")
	c.Fault = func(r scriptmodel.Request, nth int) scriptmodel.Fault {
		if asksForSummary(r) && nth < 4 {
			return scriptmodel.Fault{Status: 529, RetryAfter: time.Second}
		}
		return scriptmodel.Fault{}
	}
	l := newLoop(t, spec.ProviderAnthropic, "the task", c).bigLooks().agentLines("context: {compactAt: 1500, keep: 1}")
	l.plan.Fallbacks = nil
	l.run().ends(events.StatusCompleted, "")
	if _, done := compacts(t, l.journal); len(done) == 0 || len(l.waits()) == 0 {
		t.Errorf("%d summaries, waits %v", len(done), l.waits())
	}
	c, _ = looks(9, "short")
	l = newLoop(t, spec.ProviderAnthropic, "the task", c).bigLooks().agentLines("context: {compactAt: 1500, keep: 1}\nbudget: {modelCalls: 2, onExceeded: fail}")
	l.run().ends(events.StatusFailed, "budget")
	if started, done := compacts(t, l.journal); len(started) != 1 || len(done) != 0 || l.requests() != 2 {
		t.Errorf("%d summaries were begun and %d made, %d requests", len(started), len(done), l.requests())
	}
}

// A paused turn is never cut from its continuation, and answers that say nothing and
// messages of people keep their place.
func TestCompact_CutsBetweenTurnsOnly(t *testing.T) {
	t.Parallel()
	n := 0
	c := scripted(func(r scriptmodel.Request) scriptmodel.Answer {
		if asksForSummary(r) {
			return saying("short")
		}
		switch n++; {
		case n > 24:
			return saying("done")
		case n%4 == 2 || n%4 == 3:
			return scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Text(fmt.Sprint("searching ", n))}, StopReason: "pause_turn"}
		}
		return asking(scriptmodel.Text(fmt.Sprint("looking ", n)), goodLook)
	})
	l := newLoop(t, spec.ProviderAnthropic, "the task", c).bigLooks().agentLines("context: {compactAt: 1000, keep: 2}")
	l.run().ends(events.StatusCompleted, "")
	started, _ := compacts(t, l.journal)
	if len(started) < 2 {
		t.Fatalf("%d summaries", len(started))
	}
	for _, s := range started {
		for _, turn := range l.state.Turns {
			if turn.Seq == s.UpTo && turn.Answer.StopReason == runner.StopPause {
				t.Errorf("row %d is cut from its continuation", s.UpTo)
			}
		}
	}
}

// A fork from before a summary has the whole conversation, one from behind has the
// summary; a result that no request has any more cannot be edited.
func TestCompact_ForkBeforeAndBehind(t *testing.T) {
	c, seen := looks(6, "the gist")
	l := newLoop(t, spec.ProviderAnthropic, "the task", c).bigLooks().agentLines("context: {compactAt: 1500, keep: 1}")
	l.run().ends(events.StatusCompleted, "")
	var begun, end int64
	for _, f := range l.journal {
		if f.Kind == events.FactContextCompacted && end == 0 {
			end = f.Seq
		}
		if f.Kind == events.FactCompactionStarted && begun == 0 {
			begun = f.Seq
		}
	}
	if begun == 0 || end == 0 {
		t.Fatal(l.text())
	}
	for name, tc := range map[string]struct {
		at   int64
		want bool // the next request has the summary
	}{"before": {begun - 1, false}, "behind": {end, true}} {
		st := runner.NewState(events.NewRunID(), "default")
		for _, f := range l.journal[:tc.at] {
			if err := st.Apply(f); err != nil {
				t.Fatal(err)
			}
		}
		r, err := runner.NextRequest(st, l.plan, 1)
		if err != nil || strings.Contains(r.Entries[0].User, "the gist") != tc.want || r.Summary {
			t.Errorf("%s: %v, %.300q", name, err, r.Entries[0].User)
		}
	}
	_ = seen
}

// Plan, facts and artifacts stand beside the summary as they were, whatever the
// model forgets to write down.
func TestCompact_RestatesWhatTheRunKeeps(t *testing.T) {
	c, seen := looks(5, "the gist")
	l := newLoop(t, spec.ProviderAnthropic, "the task", c)
	l.agentLines("context: {compactAt: 1500, keep: 1}")
	n := 0
	l.tool = func(c *runner.Call) events.ToolCompleted {
		n++
		return events.ToolCompleted{CallID: c.CallID, RunID: l.state.RunID, Tool: c.Tool, Status: events.CallSucceeded,
			Result: mustJSON(t, map[string]any{"artifact": fmt.Sprintf("a-%032x", n), "name": fmt.Sprintf("report %d", n), "text": strings.Repeat("x", 1000)})}
	}
	l.state.PlanItems = []events.PlanItem{{ID: "1", Title: "look", State: events.ItemDone}}
	l.state.NamedFacts = map[string]json.RawMessage{"order": json.RawMessage(`12345678901234567890.10`)}
	l.run().ends(events.StatusCompleted, "")
	_, done := compacts(t, l.journal)
	if len(done) == 0 {
		t.Fatal(l.text())
	}
	for _, want := range []string{`"title":"look","state":"done"`, `{"order":12345678901234567890.10}`, "a-00000000000000000000000000000001"} {
		if !strings.Contains(done[0].Restated, want) {
			t.Errorf("%q is not in %s", want, done[0].Restated)
		}
		if !slices.ContainsFunc(*seen, func(r scriptmodel.Request) bool { return strings.Contains(r.FirstText(), want) }) {
			t.Errorf("no request has %q", want)
		}
	}
}

// An agent that does not ask for it is never shortened.
func TestCompact_IsOffUnlessSet(t *testing.T) {
	t.Parallel()
	c, _ := looks(30, "never")
	l := newLoop(t, spec.ProviderAnthropic, "the task", c).bigLooks()
	l.run().ends(events.StatusCompleted, "")
	if started, _ := compacts(t, l.journal); len(started) != 0 {
		t.Errorf("%+v", started)
	}
	if diff := cmp.Diff(int64(31), l.state.ModelCalls); diff != "" {
		t.Error(diff)
	}
}
