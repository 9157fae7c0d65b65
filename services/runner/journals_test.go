package runner_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/scriptmodel"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/runner"
	"github.com/holdfast-run/holdfast/services/runner/journaltest"
)

// journalRuns is of how many runs of a test all is looked at; of more they are taken
// evenly, and the test's log says how many were not.
const journalRuns = 60

// strict is shared by all tests.
var strict = sync.OnceValue(journaltest.New)

// strictModel stands in for the models of tests, whose answers are no provider's.
var strictModel = sync.OnceValue(func() *spec.Model {
	docs, err := spec.Parse("strict.yaml", []byte("apiVersion: holdfast/v1\nkind: Model\nmetadata: {name: strict}\nspec: {provider: openai-chat, model: strict, apiKey: {env: KEY}}\n"))
	if err != nil {
		panic(err)
	}
	return docs[0].Model
})

// checkJournals gives the requests that the runs in the test's database owed to the
// strict validator, at the end of the test.
func (r *rig) checkJournals() {
	if r.t.Failed() || r.unread {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), 3*time.Minute)
	defer cancel()
	rows, err := r.sql.Query(ctx, `SELECT run_id FROM runner.runs WHERE kind = 'agent' ORDER BY run_id`)
	if err != nil {
		r.t.Errorf("journals: %v", err)
		return
	}
	var ids []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			r.t.Errorf("journals: %v", err)
		}
		ids = append(ids, id)
	}
	rows.Close()
	var all journaltest.Result
	for _, i := range journaltest.Evenly(len(ids), journalRuns) {
		one, err := r.checkJournal(ctx, events.RunID(ids[i]))
		if all.Checked, all.Left = all.Checked+one.Checked, all.Left+one.Left; err != nil {
			r.t.Errorf("the journal of run %s: %v", ids[i], err)
		}
	}
	if all.Left > 0 || len(ids) > journalRuns {
		r.t.Logf("journals: %d requests of %d runs were checked; %d of their requests and %d runs were left out", all.Checked, min(len(ids), journalRuns), all.Left, max(len(ids)-journalRuns, 0))
	}
}

// checkJournal checks what one run owed on the way.
func (r *rig) checkJournal(ctx context.Context, id events.RunID) (none journaltest.Result, err error) {
	rows, err := r.sql.Query(ctx, `SELECT seq, kind, status, cause, inbound, worker, at, data FROM runner.journal WHERE run_id = $1 ORDER BY seq`, string(id))
	if err != nil {
		return none, err
	}
	defer rows.Close()
	var facts []runner.Fact
	for rows.Next() {
		var f runner.Fact
		if err := rows.Scan(&f.Seq, &f.Kind, &f.Status, &f.Cause, &f.Inbound, &f.Worker, &f.At, &f.Data); err != nil {
			return none, err
		}
		if f.Kind == events.FactModelAnswered {
			if f.Data, err = withChat(f.Data); err != nil {
				return none, err
			}
		}
		facts = append(facts, f)
	}
	return strict().Check(ctx, id, "default", facts, func(started events.RunStarted) (*runner.Plan, error) { return r.planOf(ctx, started) })
}

// planOf is what the checks read of a run's definitions.
func (r *rig) planOf(ctx context.Context, started events.RunStarted) (*runner.Plan, error) {
	plan := &runner.Plan{Model: strictModel(), ModelName: "strict", Tools: map[string]*spec.Tool{}}
	if started.Model == nil {
		plan.Agent = &spec.Agent{}
		return plan, nil // it failed at its start
	}
	var err error
	if plan.Agent, err = r.defs.Agent(ctx, "default", started.Ref.Digest); err != nil {
		return nil, err
	}
	for _, ref := range started.Tools {
		if plan.Tools[ref.Name], err = r.defs.Tool(ctx, "default", ref.Digest); err != nil {
			return nil, err
		}
	}
	return plan, nil
}

// withChat gives an answer of a test's model the text that a provider would have
// sent: tests say what was answered and not how it was spelled.
func withChat(data json.RawMessage) (json.RawMessage, error) {
	var a events.ModelAnswered
	if err := json.Unmarshal(data, &a); err != nil {
		return nil, err
	}
	message := map[string]any{"role": "assistant", "content": a.Text}
	var calls []any
	for _, c := range a.Calls {
		args := string(c.Args)
		if args == "" {
			args = "{" // it did not parse
		}
		calls = append(calls, map[string]any{"id": c.ProviderID, "type": "function", "function": map[string]any{"name": c.Tool, "arguments": args}})
	}
	if len(calls) > 0 {
		message["tool_calls"] = calls
	}
	raw, err := events.Marshal(map[string]any{"choices": []any{map[string]any{"message": message}}})
	if err != nil {
		return nil, err
	}
	a.Raw = string(raw)
	return events.Marshal(a)
}

// The check itself is checked: a whole journal passes, and one whose rows give a
// history that a provider refuses does not.
func TestJournals_ABrokenOneIsSeen(t *testing.T) {
	onEachProvider(t, func(t *testing.T, provider string) {
		l := newLoop(t, provider, "hello", scripted(func(r scriptmodel.Request) scriptmodel.Answer {
			if r.Turn() < 2 {
				return asking(scriptmodel.Text("I look"), scriptmodel.Call("look", json.RawMessage(`{"id":1}`)), scriptmodel.Call("look", json.RawMessage(`{"id":2}`)))
			}
			return saying("done")
		})).run()
		l.ends(events.StatusCompleted, "")
		var facts []runner.Fact
		for i, commit := 0, 0; i < len(l.journal); i++ {
			if i == l.commits[commit] {
				commit++
			}
			f := l.journal[i]
			f.At = f.At.Add(time.Duration(commit) * time.Millisecond) // as the database dates a commit
			facts = append(facts, f)
		}
		check := func(change func(n int, f *runner.Fact)) (journaltest.Result, error) {
			rows := append([]runner.Fact(nil), facts...)
			answer := 0
			for i := range rows {
				if rows[i].Kind == events.FactModelAnswered {
					answer++
				}
				change(answer, &rows[i])
			}
			return strict().Check(t.Context(), l.state.RunID, "default", rows, func(events.RunStarted) (*runner.Plan, error) { return l.plan, nil })
		}
		if got, err := check(func(int, *runner.Fact) {}); err != nil || got.Checked != 3 {
			t.Fatalf("%+v, %v; want three requests taken", got, err)
		}
		replace := func(kind, old, with string) func(int, *runner.Fact) {
			return func(n int, f *runner.Fact) {
				if f.Kind == kind && n == 1 {
					text := strings.ReplaceAll(string(f.Data), old, with)
					if text == string(f.Data) {
						t.Fatalf("%s has no %s: %s", kind, old, text)
					}
					f.Data = json.RawMessage(text)
				}
			}
		}
		for name, change := range map[string]func(int, *runner.Fact){
			"a call without its result": replace(events.FactModelAnswered, `"provider_id":"`, `"provider_id":"x`),
			"an answer that is no JSON": replace(events.FactModelAnswered, `"raw":"{`, `"raw":"[`),
			"a row that is not there": func(n int, f *runner.Fact) {
				if n == 2 && f.Kind == events.FactModelAnswered {
					f.Seq++
				}
			},
		} {
			if got, err := check(change); err == nil {
				t.Errorf("%s: %d requests were taken", name, got.Checked)
			}
		}
	})
}
