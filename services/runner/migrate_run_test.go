package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// newClerk is the next version of the rig's clerk: other words, another price of its
// tool, and a tool less.
const newClerk = `
apiVersion: holdfast/v1
kind: Tool
metadata: {name: change}
spec: {description: changes otherwise, effect: write, approval: never, input: {type: object}, http: {method: POST, url: "http://127.0.0.1/changed", body: "${args}"}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: clerk}
spec: {model: scripted, instructions: work faster, prompt: "Now: ${input}", tools: [change]}
`

// migrate orders a move to the agent's current version; orders count by n.
func (r *rig) migrate(id events.RunID, n int, nudge ...string) {
	r.t.Helper()
	to, err := r.defs.CurrentDigest(r.t.Context(), "", events.KindAgent, "clerk")
	if err != nil {
		r.t.Fatal(err)
	}
	m := events.MigrateRun{ID: fmt.Sprintf("%s-%d", id, n), RunID: id, To: to, Current: true, Principal: "ada"}
	r.publish(events.RunSubject(id, events.RunMigrate), "command:"+m.ID, events.TypeMigrateRun, m, nudge...)
}

func (r *rig) has(id events.RunID, kind string) {
	r.t.Helper()
	r.eventually(kind, func() bool { return slices.Contains(r.kinds(id), kind) }, func() string { return r.journalText(id) })
}

func count(list []string, what string) (n int) {
	for _, s := range list {
		if s == what {
			n++
		}
	}
	return n
}

// movable is a run whose first answer looks and proposes a change, and whose second
// one changes again.
type movable struct {
	*rig
	*script
	mu    sync.Mutex
	seen  []runner.Request
	calls *box[events.CallTool]
	asks  *box[events.AskApproval]
	hold  chan struct{} // what the first answer waits for
}

func newMovable(t *testing.T, decision string) *movable {
	m := &movable{rig: newRig(t), hold: make(chan struct{})}
	m.script = &script{answer: func(ctx context.Context, q runner.Request, n int) (runner.Answer, error) {
		m.mu.Lock()
		m.seen = append(m.seen, q)
		m.mu.Unlock()
		switch len(q.Entries) {
		case 1:
			select {
			case <-m.hold:
			case <-ctx.Done():
				return runner.Answer{}, ctx.Err()
			}
			return asks(runner.ModelCall{ProviderID: "a", Tool: "look"}, runner.ModelCall{ProviderID: "b", Tool: "change", Args: json.RawMessage(`{"n":1}`)}), nil
		case 3:
			return asks(runner.ModelCall{ProviderID: "c", Tool: "change", Args: json.RawMessage(`{"n":2}`)}), nil
		}
		return said("done"), nil
	}}
	m.calls, m.asks = m.tools(`"ok"`), m.approvals(decision)
	return m
}

func (m *movable) requests(id events.RunID) (out []runner.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, q := range m.seen {
		if q.RunID == id {
			out = append(out, q)
		}
	}
	return out
}

// An order during a model call waits for the answer, for its calls and for a person's
// yes, all under the version that asked for them; then the run goes on under the new
// one, from the same words. A fork before the move has the old version, one behind it
// the new.
func TestMigrate_WaitsAndMoves(t *testing.T) {
	r := newMovable(t, "")
	r.worker(r.script)
	id := r.start(events.KindAgent, "clerk", `{"a":1}`)
	old, _ := r.defs.CurrentDigest(t.Context(), "", events.KindAgent, "clerk")
	oldTool, _ := r.defs.CurrentDigest(t.Context(), "", "tool", "change")
	r.eventually("the model is asked", func() bool { return len(r.requests(id)) == 1 }, func() string { return r.journalText(id) })
	r.defs.apply(t, strings.Replace(newClerk, "Now: ${input}", "Now: ${input.a}", 1))
	newTool, _ := r.defs.CurrentDigest(t.Context(), "", "tool", "change")
	r.migrate(id, 1)
	r.has(id, events.FactMigrationOrdered)
	close(r.hold)
	r.eventually("a person is asked", func() bool { return len(r.asks.all()) == 1 }, func() string { return r.journalText(id) })
	r.migrate(id, 1, ":again")
	r.has(id, events.FactToolCompleted) // the reading, before the yes: the order of rows is compared below
	r.decide(r.asks.all()[0], events.Approve)
	r.reaches(id, events.StatusCompleted)

	kinds := r.kinds(id)
	want := []string{events.FactStarted, events.FactMigrationOrdered, events.FactModelAnswered, events.FactToolCompleted, events.FactApprovalDecided, events.FactToolCompleted,
		events.FactMigrated, events.FactModelAnswered, events.FactToolCompleted, events.FactModelAnswered, events.FactCompleted}
	if !slices.Equal(kinds, want) {
		t.Fatalf("the rows are\n%s", r.journalText(id))
	}
	got := map[string]events.Digest{}
	for _, c := range r.calls.all() {
		got[string(c.Args)] = c.ToolDigest
	}
	if got[`{"n":1}`] != oldTool || got[`{"n":2}`] != newTool || oldTool == newTool {
		t.Errorf("calls were sent with the versions %v, want %s and then %s", got, oldTool, newTool)
	}
	q := r.requests(id)
	if len(q) != 3 || q[0].System != "work" || q[1].System != "work faster" || len(q[0].Tools) != 2 || len(q[1].Tools) != 1 || q[1].Entries[0].User != q[0].Entries[0].User || q[1].Entries[0].User != `{"a":1}` {
		t.Errorf("the requests are %+v", q)
	}
	var shown string
	var reader int
	if err := r.sql.QueryRow(t.Context(), `SELECT digest, min_reader FROM runner.runs WHERE run_id = $1`, string(id)).Scan(&shown, &reader); err != nil || shown == string(old) || reader != 3 {
		t.Errorf("the run's row names %s (%v), reader %d", shown, err, reader)
	}
	for at, system := range map[int64]string{1: "work", 7: "work faster"} {
		f := r.fork(events.ForkRun{From: id, At: at, Edits: events.ForkEdits{Message: "again"}})
		r.eventually("the fork asks", func() bool { return len(r.requests(f)) > 0 }, func() string { return r.journalText(f) })
		if got := r.requests(f)[0].System; got != system {
			t.Errorf("a fork at row %d asks under %q, want %q", at, got, system)
		}
		// The new version cannot begin with this input, and the old one can.
		other := r.fork(events.ForkRun{From: id, At: at, Edits: events.ForkEdits{Input: json.RawMessage(`{"b":1}`)}})
		if at == 1 {
			r.eventually("the fork with another input asks", func() bool { return len(r.requests(other)) > 0 }, func() string { return r.journalText(other) })
		} else {
			r.reaches(other, events.StatusFailed)
		}
		r.eventually("the fork ends or waits", func() bool { s := r.status(f); return s != events.StatusRunning }, func() string { return r.journalText(f) })
	}
	r.consistent(id)
}

// A process fails before and after it sends what the order and the move say, and the
// messages come again, to it or to the other; orders come twice and in the wrong order.
// The run moves once, each call is made once and no answer is asked for twice.
func TestMigrate_SurvivesItsCrashes(t *testing.T) {
	t.Parallel()
	for _, sent := range []bool{false, true} {
		t.Run(fmt.Sprintf("sent=%t", sent), func(t *testing.T) {
			r := newMovable(t, events.Approve)
			failed := r.failSends(sent, 1, events.FactMigrationOrdered, events.FactMigrated)
			r.worker(r.script)
			r.worker(r.script)
			id := r.start(events.KindAgent, "clerk", `{}`)
			r.eventually("the model is asked", func() bool { return len(r.requests(id)) > 0 }, func() string { return r.journalText(id) })
			r.defs.apply(t, newClerk)
			r.migrate(id, 2)
			r.migrate(id, 2, ":again")
			r.migrate(id, 1) // taken before the other, and overtaken
			r.has(id, events.FactMigrationRefused)
			close(r.hold)
			r.reaches(id, events.StatusCompleted)
			if got := failed.count(); got != 2 {
				t.Errorf("%d sends failed, want 2", got)
			}
			kinds := r.kinds(id)
			if count(kinds, events.FactMigrated) != 1 || count(kinds, events.FactModelAnswered) != 3 || count(kinds, events.FactToolCompleted) != 3 || len(r.requests(id)) != 3 {
				t.Errorf("the rows are\n%s", r.journalText(id))
			}
			r.consistent(id)
			keys := map[string]events.Digest{}
			for _, c := range r.calls.all() {
				if before, ok := keys[c.Key]; ok && before != c.ToolDigest {
					t.Errorf("call %s was sent with two versions of its tool", c.CallID)
				}
				keys[c.Key] = c.ToolDigest
			}
			if len(keys) != 3 {
				t.Errorf("%d calls were made, want 3", len(keys))
			}
		})
	}
}

// While somebody has the claim nothing moves, also when it was taken after the run
// was read: the commit that would move it finds the claim and decides again.
func TestMigrate_ACommitBesideAClaimDecidesAgain(t *testing.T) {
	t.Parallel()
	for _, paused := range []bool{false, true} {
		t.Run(fmt.Sprintf("paused=%t", paused), func(t *testing.T) {
			r := newRig(t)
			r.wrap = func(s runner.Store) runner.Store { return &claimsFirst{Store: s, rig: r} }
			r.worker(&script{answer: func(context.Context, runner.Request, int) (runner.Answer, error) {
				return runner.Answer{}, &runner.ModelError{Code: "overloaded", Retry: true, RetryAfter: 9 * time.Minute, Err: errors.New("later")}
			}})
			id := r.start(events.KindAgent, "clerk", `{}`)
			r.reaches(id, events.StatusWaiting)
			r.eventually("nobody has it", func() bool { return r.claimed(id) == "" }, func() string { return r.claimed(id) })
			if paused { // what moves it then takes no claim itself
				r.command(id, "pause", events.Command{})
				r.reaches(id, events.StatusPaused)
			}
			r.defs.apply(t, newClerk)
			r.migrate(id, 1)
			r.has(id, events.FactMigrationOrdered)
			if kinds := r.kinds(id); slices.Contains(kinds, events.FactMigrated) || r.claimed(id) != "other" {
				t.Errorf("it moved beside the claim of %q:\n%s", r.claimed(id), r.journalText(id))
			}
		})
	}
}

func (r *rig) claimed(id events.RunID) (worker string) {
	if err := r.sql.QueryRow(r.t.Context(), `SELECT coalesce(claim_worker, '') FROM runner.runs WHERE run_id = $1`, string(id)).Scan(&worker); err != nil {
		return err.Error()
	}
	return worker
}

// claimsFirst takes the claim for somebody else just before a commit that moves a run.
type claimsFirst struct {
	runner.Store
	*rig
}

func (c *claimsFirst) Commit(ctx context.Context, commit runner.Commit) (int64, time.Time, error) {
	if commit.Unclaimed {
		c.exec(`UPDATE runner.runs SET claim_worker = 'other', claim_epoch = claim_epoch + 1, claim_cause = 'x' WHERE run_id = $1 AND claim_worker IS NULL`, string(commit.After.RunID))
	}
	return c.Store.Commit(ctx, commit)
}
