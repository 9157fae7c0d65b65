package runner_test

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/scriptmodel"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/runner"
)

// TestHistory_EveryPrefixIsAccepted runs agents whose model says anything that a
// model may say, while workers die with answers in their hands, messages come
// twice and results out of order. Then each prefix of each journal is folded as
// after a crash: where it owes a model call, the history that it rebuilds must
// be one that the provider's strict validator takes.
func TestHistory_EveryPrefixIsAccepted(t *testing.T) {
	onEachProvider(t, func(t *testing.T, provider string) {
		checked, kinds := 0, map[string]bool{}
		for seed := range uint64(18) {
			var l *loop
			l = newLoop(t, provider, fmt.Sprintf("run %d", seed), scripted(func(r scriptmodel.Request) scriptmodel.Answer {
				return anyAnswer(provider, seed, len(l.state.Turns), r)
			}))
			if seed%2 == 1 { // its answer is held to a schema, and its conversation is shortened
				l.agentLines(fmt.Sprintf("context: {compactAt: 1000, keep: %d}\n%s", seed%5, repairs(int(seed%4))))
			}
			l.dice = rand.New(rand.NewPCG(seed, 1))
			l.tool = func(c *runner.Call) events.ToolCompleted {
				done := events.ToolCompleted{CallID: c.CallID, RunID: l.state.RunID, Tool: c.Tool, Status: events.CallSucceeded}
				switch l.dice.IntN(5) {
				case 0:
					done.Status, done.Error = events.CallFailed, &events.Problem{Code: "http_500", Message: ""}
				case 1:
					done.Status = events.CallUnknown
				case 2:
					done.Result = json.RawMessage(`"  "`)
				case 3:
					done.Result = json.RawMessage(`{"a":[1.10,12345678901234567890]}`)
				case 4:
					done.Result = mustJSON(t, strings.Repeat("long ", 300))
				}
				return done
			}
			l.run()
			for n := 1; n <= len(l.journal); n++ {
				st := runner.NewState(l.state.RunID, "default")
				for _, f := range l.journal[:n] {
					if err := st.Apply(f); err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
				}
				kinds[l.journal[n-1].Kind] = true
				if len(st.Turns) > 0 {
					kinds[st.Turns[len(st.Turns)-1].Answer.StopReason] = true
				}
				if !st.OwesModelCall() || !slices.Contains(l.commits, n) {
					continue
				}
				r, err := runner.NextRequest(st, l.plan, 9)
				if err != nil {
					t.Fatalf("seed %d, row %d: %v", seed, n, err)
				}
				if _, err := l.model.Answer(t.Context(), r); err != nil {
					t.Errorf("seed %d, row %d: %v", seed, n, err)
				}
				checked++
			}
			for _, v := range l.server.Violations() {
				t.Errorf("seed %d, turn %d: %s", seed, v.Turn, v.Message)
			}
			if t.Failed() {
				t.Fatalf("the journal of seed %d:\n%s", seed, l.text())
			}
		}
		if checked < 60 || !kinds["max_tokens"] || !kinds["end_turn"] || !kinds[events.FactOutputRejected] || !kinds[events.FactContextCompacted] {
			t.Errorf("only %d histories were checked, of rows and stop reasons %v", checked, kinds)
		}
	})
}

// anyAnswer is a pure function of the seed and the run.
func anyAnswer(provider string, seed uint64, turns int, r scriptmodel.Request) scriptmodel.Answer {
	h := fnv.New64a()
	_ = json.NewEncoder(h).Encode([]any{turns, r.Turn(), len(r.Results())})
	dice := rand.New(rand.NewPCG(seed, h.Sum64()))
	if asksForSummary(r) && dice.IntN(4) > 0 {
		return saying(fmt.Sprintf("summary <%d> & é 🚀", turns))
	}
	if turns > 12 {
		return saying([]string{"done", `{"price":"1"}`, `{"price":1.10}`}[dice.IntN(3)])
	}
	var a scriptmodel.Answer
	part := func(p scriptmodel.Part) { a.Parts = append(a.Parts, p) }
	if dice.IntN(2) == 0 {
		part(scriptmodel.Thinking("hm <" + fmt.Sprint(dice.IntN(100)) + "> & é"))
	}
	if dice.IntN(3) == 0 {
		part(scriptmodel.Text([]string{"one moment", " ", "größer 🚀"}[dice.IntN(3)]))
	}
	for range dice.IntN(4) {
		switch dice.IntN(6) {
		case 0:
			part(scriptmodel.BadCall("look", []string{`{"id":`, `[1]`, `"x"`, `null`}[dice.IntN(4)]))
		case 1:
			part(scriptmodel.Call("refnd", json.RawMessage(`{"id":1}`)))
		default:
			part(scriptmodel.Call("look", json.RawMessage(`{"id":12345678901234567890, "note":"<é>"}`)))
		}
	}
	switch dice.IntN(8) {
	case 0:
		a.StopReason = "max_tokens"
	case 1:
		if provider == spec.ProviderAnthropic && len(a.Parts) > 0 {
			a.StopReason, a.Parts = "pause_turn", []scriptmodel.Part{scriptmodel.Thinking("on it"), scriptmodel.Text("searching")}
		}
	}
	return a
}
