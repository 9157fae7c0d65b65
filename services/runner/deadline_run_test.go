package runner_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// A run that waits for a person ends at its deadline by the database's clock, its
// question is withdrawn, and a release that knows no deadlines leaves it alone. A
// start whose deadline has passed asks no model.
func TestDeadline_EndsAWaitingRun(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, "apiVersion: holdfast/v1\nkind: Agent\nmetadata: {name: hasty}\nspec: {model: scripted, instructions: work, tools: [change], deadline: 1s}\n")
	m := &script{answer: func(context.Context, runner.Request, int) (runner.Answer, error) {
		return asks(runner.ModelCall{Tool: "change"}), nil
	}}
	r.worker(m)
	var withdrawn box[events.WithdrawApproval]
	receive(r, events.StreamApprovals, events.ConsumerApprovals, func(w events.WithdrawApproval) {
		if w.Reason != "" {
			withdrawn.add(w)
		}
	})
	id := r.start(events.KindAgent, "hasty", `{}`)
	r.reaches(id, events.StatusExpired)
	r.eventually("the question is withdrawn", func() bool { return len(withdrawn.all()) == 1 }, func() string { return r.journalText(id) })
	var reader, timers int
	var deadline, accepted, ended time.Time
	if err := r.sql.QueryRow(t.Context(), `SELECT r.min_reader, v.deadline, r.accepted_at, r.ended_at, (SELECT count(*) FROM runner.timers t WHERE t.run_id = r.run_id)
		FROM runner.v_control v JOIN runner.runs r USING (run_id) WHERE run_id = $1`, string(id)).Scan(&reader, &deadline, &accepted, &ended, &timers); err != nil {
		t.Fatal(err)
	}
	if reader != 3 || timers != 0 || deadline.Sub(accepted) != time.Second || ended.Before(deadline) {
		t.Errorf("reader %d, %d timers, accepted %s, deadline %s, ended %s", reader, timers, accepted, deadline, ended)
	}

	old := events.NewRunID()
	digest, err := r.defs.CurrentDigest(t.Context(), "", events.KindAgent, "clerk")
	if err != nil {
		t.Fatal(err)
	}
	r.publish(events.RunSubject(old, events.RunStart), "start:"+string(old), events.TypeStartRun, events.StartRun{
		RunID: old, Namespace: "default", Ref: events.Ref{Kind: events.KindAgent, Name: "clerk", Digest: digest}, Input: json.RawMessage(`{}`),
		Trigger: events.Trigger{Kind: "api"}, AcceptedAt: time.Now().UTC(), Deadline: "2026-01-01T00:00:00Z",
	})
	r.reaches(old, events.StatusExpired)
	if n := m.count(old); n != 0 {
		t.Errorf("the model was asked %d times behind the deadline", n)
	}
	if want := "run_started deadline_passed run_expired"; joined(r.kinds(old)) != want {
		t.Errorf("the journal is %s, want %s", joined(r.kinds(old)), want)
	}
	r.consistent(id, old)
	r.drained()
}

func joined(kinds []string) (out string) {
	for i, k := range kinds {
		if i > 0 {
			out += " "
		}
		out += k
	}
	return out
}
