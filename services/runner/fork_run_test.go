package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

const forkDocuments = `
apiVersion: holdfast/v1
kind: Tool
metadata: {name: poke}
spec: {description: pokes, effect: write, approval: never, input: {type: object}, http: {method: POST, url: "http://127.0.0.1/poke", body: "${args}"}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: poker}
spec: {model: scripted, instructions: work, tools: [look, poke], budget: {toolCalls: 12}}
`

// fork orders a new run, as the console would.
func (r *rig) fork(o events.ForkRun) events.RunID {
	r.t.Helper()
	o.RunID = events.NewRunID()
	o.ID, o.Principal, o.AcceptedAt = "f-"+string(o.RunID), "op", time.Now().UTC()
	o.Ref = events.Ref{Kind: events.KindAgent, Name: "poker", Digest: "sha256:x"}
	r.orderFork(o)
	return o.RunID
}

func (r *rig) orderFork(o events.ForkRun, nudge ...string) {
	r.publish(events.RunSubject(o.RunID, events.RunFork), "command:"+o.ID, events.TypeForkRun, o, nudge...)
}

// forkedRow is the row behind those that a run took over.
func (r *rig) forkedRow(id events.RunID) (f events.Forked) {
	r.t.Helper()
	for _, row := range r.journal(id) {
		if row.Kind == events.FactForked {
			if err := json.Unmarshal(row.Data, &f); err != nil {
				r.t.Fatal(err)
			}
			return f
		}
	}
	r.t.Fatalf("run %s has no row %s:\n%s", id, events.FactForked, r.journalText(id))
	return f
}

func poke(n int) runner.ModelCall {
	return runner.ModelCall{Tool: "poke", Args: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))}
}

// A fork takes the rows up to one between two turns. What the old run did is
// answered from the ledger under the old key; what is new waits for a person though
// its tool never asks; reads run. Its edits are in one row, the old rows stay.
func TestFork_AnswersFromTheLedgerAndAsksForNewWrites(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, forkDocuments)
	var asked [][]runner.Entry
	var systems []string
	var old events.RunID
	m := &script{answer: func(_ context.Context, q runner.Request, n int) (runner.Answer, error) {
		turns := 0
		for _, e := range q.Entries {
			if e.Assistant != "" {
				turns++
			}
		}
		if q.RunID != old {
			asked, systems = append(asked, q.Entries), append(systems, q.System)
			switch n {
			case 1:
				return asks(poke(1), poke(2), runner.ModelCall{Tool: "look"}), nil
			case 2:
				return asks(poke(1)), nil // once more: the newest equal one answers
			}
			return said("forked"), nil
		}
		return []runner.Answer{asks(runner.ModelCall{Tool: "look"}), asks(poke(1)), said("done")}[turns], nil
	}}
	r.worker(m)
	calls := r.tools(`"ok"`)
	questions := r.approvals("")
	old = events.NewRunID()
	r.startAs(old, events.KindAgent, "poker", `{"a":1}`)
	r.reaches(old, events.StatusCompleted) // 1 started, 2 look, 3 its result, 4 poke, 5 its result, 6 the end's answer, 7 the end

	look := events.NewCallID(old, 2, 0)
	o := events.ForkRun{RunID: events.NewRunID(), ID: "f1", From: old, At: 4, Principal: "op", AcceptedAt: time.Now().UTC(), Reason: "another way", Edits: events.ForkEdits{
		Input: json.RawMessage(`{"a":2}`), Instructions: "be careful", Message: "the other shop", Results: map[events.CallID]json.RawMessage{look: json.RawMessage(`{"price":79}`)}}}
	r.orderFork(o)
	id := o.RunID
	r.eventually("a person is asked", func() bool { return len(questions.all()) == 1 }, func() string { return r.journalText(id) })
	r.orderFork(o, ":again")
	q := questions.all()[0]
	if want := events.BindDigest("poke", q.ToolDigest, q.Digest, ""); q.Tool != "poke" || string(q.Args) != `{"n":2}` || q.Digest == want || !strings.Contains(q.Summary, "in a fork of run "+string(old)) {
		t.Errorf("asked: %+v", q)
	}
	r.decide(q, events.Approve)
	r.reaches(id, events.StatusCompleted)

	f := r.forkedRow(id)
	key := fmt.Sprintf("%s/4/0/poke", old)
	if f.At != 3 || f.AskedAt != 4 || f.From != old || len(f.Effects) != 1 || f.Effects[0].Key != key || f.Effects[0].State != events.CallSucceeded {
		t.Errorf("the fork's row is %+v", f)
	}
	rows, before := r.journal(id), r.journal(old)
	for i := 1; i < 3; i++ {
		if rows[i].Kind != before[i].Kind || string(rows[i].Data) != string(before[i].Data) {
			t.Errorf("row %d is not the old run's: %s", i+1, rows[i].Data)
		}
	}
	var got []string
	for _, c := range calls.all() {
		if c.RunID == id {
			got = append(got, fmt.Sprintf("%s %s %s yes=%t", c.Tool, c.Rule, strings.ReplaceAll(c.Key, string(id), "new"), c.Approval != nil))
		}
	}
	slices.Sort(got)
	want := []string{"look  new/5/2/look yes=false", "poke fork new/5/1/poke yes=true", "poke recall " + key + " yes=false", "poke recall " + key + " yes=false"}
	if !slices.Equal(got, want) {
		t.Errorf("the calls of the fork are %q, want %q", got, want)
	}
	first := asked[0]
	if len(first) != 3 || first[0].User != `{"a":2}` || first[2].Results[0].Text != `{"price":79}` || first[2].User != "the other shop" || systems[0] != "be careful" {
		t.Errorf("the first request of the fork is %+v (%q)", first, systems[0])
	}
	var from string
	var row int64
	var reader int
	if err := r.sql.QueryRow(t.Context(), `SELECT v.forked_from, v.forked_row, r.min_reader FROM runner.v_forks v JOIN runner.runs r USING (run_id) WHERE run_id = $1`, string(id)).Scan(&from, &row, &reader); err != nil || from != string(old) || row != 3 || reader != 2 {
		t.Errorf("the view has %s, row %d, reader %d (%v)", from, row, reader, err)
	}
	r.consistent(id, old)
}

// A run whose newest rows cannot be read is continued from before them: what lies
// behind is known from the ledger. Asked for a damaged row, the order fails and
// says which one can be taken.
func TestCaseC11_ForkBeforeTheDamage(t *testing.T) {
	r := newRig(t)
	r.unread = true // the old run stays damaged
	r.defs.apply(t, forkDocuments)
	var old events.RunID
	m := &script{answer: func(_ context.Context, q runner.Request, _ int) (runner.Answer, error) {
		return []runner.Answer{asks(runner.ModelCall{Tool: "look"}), asks(poke(1)), said("done")}[(len(q.Entries)-1)/2], nil
	}}
	r.worker(m)
	calls := r.tools(`"ok"`)
	old = events.NewRunID()
	r.startAs(old, events.KindAgent, "poker", `{}`)
	r.reaches(old, events.StatusCompleted)
	args := events.DigestOf([]byte(`{"n":1}`))
	r.exec(`UPDATE runner.journal SET data = '"garbled"' WHERE run_id = $1 AND seq >= 4`, string(old))
	key := fmt.Sprintf("%s/4/0/poke", old)
	r.exec(`INSERT INTO tools.effects (effect_id, namespace, tool, key, state, epoch, call_id, run_id, args, args_digest, result) VALUES ('e-1', 'default', 'poke', $1, 'succeeded', 1, $2, $3, '{"n":1}', $4, '1')`,
		key, string(events.NewCallID(old, 4, 0)), string(old), string(args))
	r.exec(`INSERT INTO tools.calls (call_id, run_id, namespace, tool, tool_digest, pool, args, args_digest, minted_key, key, traceparent, effect_id, acting, status, epoch) VALUES ($2, $3, 'default', 'poke', 'd', 'default', '{"n":1}', $4, $1, $1, '', 'e-1', false, 'succeeded', 1)`,
		key, string(events.NewCallID(old, 4, 0)), string(old), string(args))

	bad := r.fork(events.ForkRun{From: old, At: 6})
	r.reaches(bad, events.StatusFailed)
	if text := r.journalText(bad); !strings.Contains(text, "row 4 of run") || !strings.Contains(text, "the newest row that can be taken is 3") {
		t.Errorf("asked for a damaged row:\n%s", text)
	}
	id := r.fork(events.ForkRun{From: old, At: 3})
	r.reaches(id, events.StatusCompleted)
	if f := r.forkedRow(id); len(f.Effects) != 1 || f.Effects[0].Key != key {
		t.Errorf("behind row 3 lie %+v", f.Effects)
	}
	for _, c := range calls.all() {
		if c.RunID == id && (c.Rule != events.RuleRecall || c.Key != key) {
			t.Errorf("the fork called %+v", c)
		}
	}
}

// A failed run goes on from its last good row: what it did is recalled once, what
// it would have done next needs no more approval than before.
func TestRetry_GoesOnFromTheLastGoodRow(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, forkDocuments)
	old := events.NewRunID()
	m := &script{answer: func(_ context.Context, q runner.Request, _ int) (runner.Answer, error) {
		turn := (len(q.Entries) - 1) / 2
		if turn == 1 && q.RunID == old {
			a := said("no")
			a.StopReason = runner.StopRefusal
			return a, nil
		}
		return []runner.Answer{asks(poke(1)), asks(poke(1), poke(2)), said("done")}[turn], nil
	}}
	r.worker(m)
	calls := r.tools(`"ok"`)
	r.startAs(old, events.KindAgent, "poker", `{}`)
	r.reaches(old, events.StatusFailed) // 1 started, 2 poke, 3 its result, 4 refusal, 5 failed
	id := r.fork(events.ForkRun{From: old, Retry: true})
	r.reaches(id, events.StatusCompleted)
	if f := r.forkedRow(id); f.At != 3 || !f.Retry {
		t.Errorf("the retry's row is %+v", f)
	}
	var rules []string
	for _, c := range calls.all() {
		if c.RunID == id {
			rules = append(rules, c.Rule+string(c.Args))
		}
	}
	slices.Sort(rules)
	if want := []string{`{"n":1}`, `{"n":2}`}; !slices.Equal(rules, want) { // the first poke is history; to poke again is meant
		t.Errorf("the retry called %q, want %q", rules, want)
	}
}

// The worker dies between the commit of a fork and what it sends: the order comes
// back, the rows are there once, and the old run's calls are not sent again.
func TestFork_TheWorkerDiesAfterTheCommit(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, forkDocuments)
	m := &script{answer: func(_ context.Context, q runner.Request, _ int) (runner.Answer, error) {
		return []runner.Answer{asks(poke(1)), said("done")}[(len(q.Entries)-1)/2], nil
	}}
	dying := r.worker(m)
	calls := r.tools(`"ok"`)
	old := r.start(events.KindAgent, "poker", `{}`)
	r.reaches(old, events.StatusCompleted)
	o := events.ForkRun{ID: "f1", RunID: events.NewRunID(), From: old, At: 3, Principal: "op", AcceptedAt: time.Now().UTC()}
	off, err := failpoint.Arm("runner.committed["+string(o.RunID)+"]=error#1", "")
	if err != nil {
		t.Fatal(err)
	}
	defer off()
	r.orderFork(o)
	r.eventually("the rows are there", func() bool { return r.status(o.RunID) != "no row" }, func() string { return "" })
	dying.freeze()
	r.worker(m)
	r.reaches(o.RunID, events.StatusCompleted)
	if n := len(calls.all()); n != 1 {
		t.Errorf("%d calls were sent, want the old run's one: %+v", n, calls.all())
	}
	r.consistent(o.RunID)
	if n := len(r.kinds(o.RunID)); n != 6 {
		t.Errorf("the fork has %d rows:\n%s", n, r.journalText(o.RunID))
	}
}
