package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

const readerDocuments = `
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: reader}
spec: {model: scripted, instructions: read, tools: [look], context: {compactAt: 1500, keep: 1}}
`

// A worker fails with a summary in its hand, and again behind the summary's commit:
// each summary is committed once, a committed one is never asked for again, each
// call is made once, and a fork from behind goes on with the summary.
func TestRun_CompactionSurvivesItsCrashes(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, documents+readerDocuments)
	id := events.NewRunID()
	var made atomic.Int64
	r.worker(&script{answer: func(_ context.Context, q runner.Request, _ int) (runner.Answer, error) {
		turns := 0
		for _, e := range q.Entries {
			if e.Assistant != "" {
				turns++
			}
		}
		switch {
		case q.Summary:
			return said(fmt.Sprintf("the gist, part %d", made.Add(1))), nil
		case made.Load() > 2 && strings.Contains(q.Entries[0].User, "the gist"):
			return said("read it"), nil
		}
		a := asks(call("look", fmt.Sprintf(`{"n":%d}`, q.Seq)))
		a.Usage.InputTokens = int64(400 * (turns + 1))
		return a, nil
	}})
	calls := r.tools(string(mustJSON(t, strings.Repeat("x", 1500))))
	// Two answers look; the third model call is the summary.
	defer arm(t, "runner.answered["+string(id)+"]=error#3")()
	defer arm(t, "runner.answer_committed["+string(id)+"]=error#3")()
	r.startAs(id, events.KindAgent, "reader", `{}`)
	r.reaches(id, events.StatusCompleted)
	var seq int64
	summaries, answers := 0, 0
	for _, row := range r.journal(id) {
		switch row.Kind {
		case events.FactContextCompacted:
			summaries, seq = summaries+1, row.Seq
			var b events.ContextCompacted
			if err := json.Unmarshal(row.Data, &b); err != nil || !strings.HasPrefix(b.Summary, "the gist, part ") || b.Usage.InputTokens != 10 {
				t.Errorf("%s (%v)", row.Data, err)
			}
		case events.FactModelAnswered:
			answers++
		}
	}
	if summaries == 0 || made.Load() != int64(summaries)+1 {
		t.Errorf("%d summaries were made and %d kept, want one more made\n%s", made.Load(), summaries, r.journalText(id))
	}
	seen := map[events.CallID]bool{}
	for _, c := range calls.all() {
		seen[c.CallID] = true
	}
	if len(seen) != answers-1 {
		t.Errorf("%d calls for %d answers", len(seen), answers)
	}
	var counted int64
	if err := r.sql.QueryRow(t.Context(), `SELECT model_calls FROM runner.v_runs WHERE run_id = $1`, string(id)).Scan(&counted); err != nil || counted != int64(answers+summaries) {
		t.Errorf("%d model calls are counted for %d answers and %d summaries (%v)", counted, answers, summaries, err)
	}
	r.consistent(id)

	before := made.Load()
	fork := r.fork(events.ForkRun{From: id, At: seq})
	r.reaches(fork, events.StatusCompleted)
	if made.Load() != before {
		t.Errorf("the fork asked for %d summaries of its own", made.Load()-before)
	}
	first := events.NewCallID(id, 2, 0)
	edited := r.fork(events.ForkRun{From: id, At: seq, Edits: events.ForkEdits{Results: map[events.CallID]json.RawMessage{first: json.RawMessage(`"other"`)}}})
	r.reaches(edited, events.StatusFailed)
	if text := r.journalText(edited); !strings.Contains(text, "a summary stands for the result") {
		t.Errorf("the edit of a result that no request has:\n%s", text)
	}
}
