package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// One answer has two identical calls, two that share an id and two without one;
// a later answer uses an id again. Each is sent under its own key, which stays
// the same when the process fails in between, and has its own result.
func TestCaseD03_CallsOfOneAnswerHaveKeysOfTheirOwn(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"nowhere", "runner.committed", "runner.answer_committed", "runner.published"} {
		t.Run(point, func(t *testing.T) {
			r := newRig(t)
			look := func(providerID string, n int) runner.ModelCall {
				return runner.ModelCall{ProviderID: providerID, Tool: "look", Args: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))}
			}
			answer := asks()
			turns := map[int][]runner.ModelCall{
				1: {look("a", 1), look("b", 1), look("same", 2), look("same", 3), look("", 4), look("", 5)},
				3: {look("a", 6)},
				5: {look("a", 1)},
			}
			var mu sync.Mutex
			var read [][]string // the results of each turn, as the model reads them
			r.worker(&script{answer: func(_ context.Context, q runner.Request, _ int) (runner.Answer, error) {
				if calls, ok := turns[len(q.Entries)]; ok {
					asked := answer
					asked.Calls = append([]runner.ModelCall(nil), calls...)
					return asked, nil
				}
				mu.Lock()
				defer mu.Unlock()
				read = nil
				for _, e := range q.Entries {
					var texts []string
					for _, result := range e.Results {
						texts = append(texts, result.Text)
					}
					if texts != nil {
						read = append(read, texts)
					}
				}
				return said("done"), nil
			}})
			sent := receive(r, events.StreamTools, events.ToolConsumer("default"), func(c events.CallTool) {
				r.finish(c, events.CallSucceeded, fmt.Sprintf(`{"key":%q,"args":%s}`, c.Key, c.Args))
			})
			id := events.NewRunID()
			if point != "nowhere" {
				for n := 1; n <= 8; n++ {
					defer arm(t, fmt.Sprintf("%s[%s]=error#%d", point, id, n))()
				}
			}
			r.startAs(id, events.KindAgent, "clerk", `{}`)
			r.reaches(id, events.StatusCompleted)

			calls := map[string]events.CallTool{}
			for _, c := range sent.all() {
				if before, ok := calls[c.Key]; ok && (before.CallID != c.CallID || string(before.Args) != string(c.Args)) {
					t.Errorf("key %s was used for call %s %s and for %s %s", c.Key, before.CallID, before.Args, c.CallID, c.Args)
				}
				calls[c.Key] = c
			}
			if len(calls) != 8 {
				t.Errorf("%d calls were made, want 8: %v", len(calls), calls)
			}
			rows := r.journal(id)
			var want [][]string
			for _, row := range rows {
				if row.Kind != events.FactModelAnswered || len(want) == 3 {
					continue
				}
				var texts []string
				for i, c := range turns[1+2*len(want)] {
					texts = append(texts, fmt.Sprintf(`{"key":"%s/%d/%d/look","args":%s}`, id, row.Seq, i, c.Args))
				}
				want = append(want, texts)
			}
			mu.Lock()
			defer mu.Unlock()
			if diff := cmp.Diff(want, read); diff != "" {
				t.Errorf("the model reads (-want +got):\n%s", diff)
			}
			r.consistent(id)
		})
	}
}
