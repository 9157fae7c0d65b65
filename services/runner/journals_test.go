package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/internal/scriptmodel"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/runner"
	"github.com/holdfast-run/holdfast/services/runner/model"
)

// How much of what a test leaves behind is looked at: all of it, but for tests with
// many or long runs. Of those the requests are taken evenly, the first and the last
// among them, and the test's log says how many were not.
const (
	journalRuns     = 60 // runs of a test
	journalPrefixes = 24 // requests of a run
)

// evenly are at most n numbers below total, the first and the last among them.
func evenly(total, n int) []int {
	var out []int
	for i := range min(total, n) {
		out = append(out, i*(total-1)/max(min(total, n)-1, 1))
	}
	return out
}

// strict is a model server that takes each request by itself, shared by all tests:
// the adapter sends what it makes of a history to it.
var strict = sync.OnceValues(func() (runner.Model, *spec.Model) {
	server := httptest.NewServer(scriptmodel.New(scriptmodel.Config{Alone: true, Script: func(scriptmodel.Request) (scriptmodel.Answer, error) { return saying("yes"), nil }}))
	docs, err := spec.Parse("strict.yaml", fmt.Appendf(nil,
		"apiVersion: holdfast/v1\nkind: Model\nmetadata: {name: strict}\nspec: {provider: openai-chat, model: strict, apiKey: {env: KEY}, baseURL: %q, timeout: 30s}\n", server.URL+"/v1"))
	if err != nil {
		panic(err)
	}
	return model.All(model.Env{LookupEnv: func(string) (string, bool) { return "key", true }, ReadFile: os.ReadFile,
		Egress: egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})}), docs[0].Model
})

// checkJournals rebuilds, at the end of a test, the requests that the runs in its
// database owed after each of their commits, as after a crash there. Each must be
// one that the strict validator takes, and go on with what the one before it said.
func (r *rig) checkJournals() {
	if r.t.Failed() || r.unread {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), time.Minute)
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
	checked, left := 0, 0
	for _, i := range evenly(len(ids), journalRuns) {
		n, skipped, err := r.checkJournal(ctx, events.RunID(ids[i]))
		if checked, left = checked+n, left+skipped; err != nil {
			r.t.Errorf("the journal of run %s: %v", ids[i], err)
		}
	}
	if left > 0 || len(ids) > journalRuns {
		r.t.Logf("journals: %d requests of %d runs were checked; %d of their requests and %d runs were left out", checked, min(len(ids), journalRuns), left, max(len(ids)-journalRuns, 0))
	}
}

// checkJournal folds one journal and checks what it owed on the way.
func (r *rig) checkJournal(ctx context.Context, id events.RunID) (checked, left int, err error) {
	rows, err := r.sql.Query(ctx, `SELECT seq, kind, status, cause, inbound, worker, at, data FROM runner.journal WHERE run_id = $1 ORDER BY seq`, string(id))
	if err != nil {
		return 0, 0, err
	}
	defer rows.Close()
	var facts []runner.Fact
	for rows.Next() {
		var f runner.Fact
		if err := rows.Scan(&f.Seq, &f.Kind, &f.Status, &f.Cause, &f.Inbound, &f.Worker, &f.At, &f.Data); err != nil {
			return 0, 0, err
		}
		if f.Kind == events.FactModelAnswered {
			if f.Data, err = withChat(f.Data); err != nil {
				return 0, 0, err
			}
		}
		facts = append(facts, f)
	}
	st := runner.NewState(id, "default")
	var owed []runner.Request
	var plan *runner.Plan
	for i, f := range facts {
		if err := st.Apply(f); err != nil {
			return 0, 0, err
		}
		if f.Kind == events.FactStarted || f.Kind == events.FactMigrated {
			if plan, err = r.planOf(ctx, st.Started); err != nil {
				return 0, 0, err
			}
		}
		if i+1 < len(facts) && facts[i+1].At.Equal(f.At) || !st.OwesModelCall() {
			continue // rows of one commit are there together
		}
		q, err := runner.NextRequest(st, plan, 1)
		if err != nil {
			return 0, 0, fmt.Errorf("row %d: %w", f.Seq, err)
		}
		owed = append(owed, q)
	}
	var before *runner.Request
	ask, m := strict()
	take := evenly(len(owed), journalPrefixes)
	for i, q := range owed {
		if err := goesOn(before, q); err != nil {
			return checked, 0, fmt.Errorf("row %d: %w", q.Seq, err)
		}
		if before = &q; q.Summary {
			before = nil // it is shortened behind it
		}
		if !slices.Contains(take, i) {
			left++
			continue
		}
		q.Model = m
		if _, err := ask.Answer(ctx, q); err != nil {
			return checked, left, fmt.Errorf("row %d: %w", q.Seq, err)
		}
		checked++
	}
	return checked, left, nil
}

// goesOn checks that a request begins with all that the one before it said; only
// behind its last message may there be more.
func goesOn(before *runner.Request, q runner.Request) error {
	if before == nil || q.Summary {
		return nil
	}
	said := before.Entries[:len(before.Entries)-1]
	if n := len(said); n > len(q.Entries) || !cmp.Equal(said, q.Entries[:n]) {
		return fmt.Errorf("the request is none that goes on from the one at row %d: %s", before.Seq, cmp.Diff(said, q.Entries))
	}
	return nil
}

// planOf is what the checks read of a run's definitions.
func (r *rig) planOf(ctx context.Context, started events.RunStarted) (*runner.Plan, error) {
	_, m := strict()
	plan := &runner.Plan{Model: m, ModelName: "strict", Tools: map[string]*spec.Tool{}}
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

func TestEvenly(t *testing.T) {
	for _, tc := range []struct {
		total, n int
		want     []int
	}{{0, 3, nil}, {1, 3, []int{0}}, {3, 3, []int{0, 1, 2}}, {9, 3, []int{0, 4, 8}}, {2, 1, []int{0}}} {
		if diff := cmp.Diff(tc.want, evenly(tc.total, tc.n)); diff != "" {
			t.Errorf("%d of %d (-want +got):\n%s", tc.n, tc.total, diff)
		}
	}
}
