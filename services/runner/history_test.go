package runner_test

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
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
		for seed := range uint64(14) {
			l := newLoop(t, provider, fmt.Sprintf("run %d", seed), scripted(func(r scriptmodel.Request) scriptmodel.Answer {
				return anyAnswer(provider, seed, r)
			}))
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
				if len(st.Turns) > 0 {
					kinds[st.Turns[len(st.Turns)-1].Answer.StopReason] = true
				}
				if !st.OwesModelCall() {
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
		if checked < 60 || len(kinds) < 3 {
			t.Errorf("only %d histories were checked, answers ended with %v", checked, kinds)
		}
	})
}

// anyAnswer is a pure function of the seed and the history.
func anyAnswer(provider string, seed uint64, r scriptmodel.Request) scriptmodel.Answer {
	h := fnv.New64a()
	_ = json.NewEncoder(h).Encode([]any{r.Turn(), len(r.Results())})
	dice := rand.New(rand.NewPCG(seed, h.Sum64()))
	if r.Turn() > 9 {
		return saying("done")
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
