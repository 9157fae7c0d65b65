package runner_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/scriptmodel"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/runner"
	"github.com/holdfast-run/holdfast/services/runner/journaltest"
)

// newer is another version of a loop's agent: other words, a tool more, and a model
// of another name behind the same address.
func (l *loop) newer(n int) *runner.Move {
	l.t.Helper()
	docs, err := spec.Parse("newer.yaml", fmt.Appendf(nil, `
apiVersion: holdfast/v1
kind: Tool
metadata: {name: see}
spec: {description: sees, effect: read, input: {type: object}, http: {method: GET, url: "http://127.0.0.1/see"}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: clerk}
spec: {model: main, instructions: be brief %d, prompt: "Version %d of ${input}", tools: [see], budget: {modelCalls: 200}}
`, n, n))
	if err != nil {
		l.t.Fatal(err)
	}
	m := &runner.Move{Plan: &runner.Plan{Agent: docs[1].Agent, Model: l.plan.Model, ModelName: "main", Tools: map[string]*spec.Tool{"see": docs[0].Tool}}}
	m.MigrateRun = events.MigrateRun{ID: fmt.Sprintf("019ac7f1-%04d", n), RunID: l.state.RunID, To: docs[1].Digest, Principal: "ada"}
	m.Pins = events.Pins{Ref: events.Ref{Kind: events.KindAgent, Name: "clerk", Digest: docs[1].Digest}, Model: *l.state.Started.Model,
		Tools: []events.Ref{{Kind: "tool", Name: "see", Digest: docs[0].Digest}}}
	return m
}

// order hands an order to the run, as its door does.
func (l *loop) order(m *runner.Move, busy bool) {
	l.t.Helper()
	l.decide(runner.Input{Cause: "command:" + m.ID, Type: events.TypeMigrateRun, Move: m, Original: m.MigrateRun, Busy: busy})
	if l.state.Moving != nil {
		plan := *l.plan
		plan.Next = m.Plan
		l.plan = &plan
	}
}

// Runs are moved at any moment, twice each, while their workers die and messages
// come twice: every prefix rebuilds a history that the provider's strict validator
// takes, the conversation goes on from the same words, and no call of an answer is
// judged by another version than the one that was asked.
func TestMigrate_EveryPrefixIsAccepted(t *testing.T) {
	onEachProvider(t, func(t *testing.T, provider string) {
		checked, moved := 0, 0
		for seed := range uint64(8) {
			key := "run"
			var l *loop
			script := scripted(func(r scriptmodel.Request) scriptmodel.Answer {
				if r.Turn() > 6 {
					return saying("done")
				}
				return anyAnswer(provider, seed, r.Turn(), r)
			})
			// The validator wants the tools of a conversation to stay: each version is one.
			script.Key = func(scriptmodel.Request) string { return fmt.Sprintf("%s, version %d", key, len(l.state.Versions)) }
			l = newLoop(t, provider, fmt.Sprintf("run %d", seed), script)
			l.dice = rand.New(rand.NewPCG(seed, 11))
			plans := []*runner.Plan{l.plan}
			orders := 0
			order := func(busy bool) {
				if orders == 2 || l.dice.IntN(3) > 0 || l.state.Moving != nil {
					return
				}
				orders++
				m := l.newer(orders)
				plans = append(plans, m.Plan)
				l.order(m, busy)
			}
			l.meanwhile = func() { order(true) }
			l.tool = func(c *runner.Call) events.ToolCompleted {
				order(false)
				return events.ToolCompleted{CallID: c.CallID, RunID: l.state.RunID, Tool: c.Tool, Status: events.CallSucceeded, Result: json.RawMessage(`"found"`)}
			}
			var before *runner.Request
			l.answered = func(r runner.Request) {
				if err := journaltest.GoesOn(before, r); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
				before = &r
			}
			l.run()
			planOf := func(st *runner.State) *runner.Plan {
				for _, p := range plans[1:] {
					if st.Started.Tools[0].Name == "see" && st.Moved > 0 && strings.HasSuffix(p.Agent.Instructions, fmt.Sprint(len(st.Versions))) {
						return p
					}
				}
				return plans[0]
			}
			st := runner.NewState(l.state.RunID, "default")
			for _, f := range l.journal {
				tool := st.Started.Tools
				if err := st.Apply(f); err != nil {
					t.Fatal(err)
				}
				if f.Kind == events.FactMigrated {
					moved++
				}
				var a events.ModelAnswered
				if f.Kind != events.FactModelAnswered || json.Unmarshal(f.Data, &a) != nil {
					continue
				}
				for _, c := range a.Calls {
					if c.Route == events.RouteSend && c.Tool != tool[0].Name {
						t.Errorf("seed %d row %d: a call of %s was made under a version that has %s", seed, f.Seq, c.Tool, tool[0].Name)
					}
				}
			}
			if orders > 0 && l.state.Moving != nil {
				t.Errorf("seed %d: the run ended and its order still waits", seed)
			}
			checked += l.prefixes(&key, planOf)
		}
		if checked < 30 || moved < 5 {
			t.Errorf("%d prefixes were checked and %d moves made; that proves little", checked, moved)
		}
	})
}
