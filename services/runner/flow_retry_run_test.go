package runner_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// A retry of a flow starts what failed and nothing else: the outputs of the items
// that were finished are read as they were, and later steps see all of them.
func TestRetry_OfAFlowRunsWhatFailed(t *testing.T) {
	r := newRig(t)
	var broken atomic.Bool
	broken.Store(true)
	model := &script{answer: func(_ context.Context, q runner.Request, _ int) (runner.Answer, error) {
		first := q.Entries[0].User
		if strings.Contains(first, "bad") && !strings.Contains(first, "seen") && broken.Load() {
			a := said("no")
			a.StopReason = runner.StopRefusal
			return a, nil
		}
		return said("done with " + first), nil
	}}
	r.worker(model)
	old := r.start(events.KindFlow, "round", `{"items":["good","bad","fine"]}`)
	r.reaches(old, events.StatusCompleted) // onFailure: continue
	if out := r.outputJSON(old); !strings.Contains(out, "null") {
		t.Fatalf("the flow's output has no failed item: %s", out)
	}
	broken.Store(false)
	runs := r.count("SELECT count(*) FROM runner.runs")

	o := events.ForkRun{From: old, Retry: true, RunID: events.NewRunID()}
	digest, err := r.defs.CurrentDigest(t.Context(), "", events.KindFlow, "round")
	if err != nil {
		t.Fatal(err)
	}
	o.ID, o.Principal, o.Ref = "f-"+string(o.RunID), "op", events.Ref{Kind: events.KindFlow, Name: "round", Digest: digest}
	r.orderFork(o)
	r.orderFork(o, "again") // the order comes twice
	r.reaches(o.RunID, events.StatusCompleted)
	var out struct {
		Each []string `json:"each"`
		Sum  string   `json:"sum"`
	}
	if err := json.Unmarshal([]byte(r.outputJSON(o.RunID)), &out); err != nil {
		t.Fatalf("%v: %s", err, r.outputJSON(o.RunID))
	}
	if diff := cmp.Diff([]string{`done with "good"`, `done with "bad"`, `done with "fine"`}, out.Each); diff != "" {
		t.Errorf("outputs of the items (-want +got):\n%s", diff)
	}
	for _, item := range out.Each {
		if !strings.Contains(out.Sum, strings.ReplaceAll(item, `"`, `\"`)) {
			t.Errorf("the step behind them has not read %q: %s", item, out.Sum)
		}
	}
	// The flow itself, the item that had failed, and the step that read it.
	if n := r.count("SELECT count(*) FROM runner.runs"); n != runs+3 {
		t.Errorf("%d runs were started, want 3:\n%s", n-runs, r.journalText(o.RunID))
	}
	if status := r.status(old); status != events.StatusCompleted {
		t.Errorf("the old run is %s; an end is final", status)
	}
}

// outputJSON is a run's output as it stands in its row.
func (r *rig) outputJSON(id events.RunID) (out string) {
	r.t.Helper()
	if err := r.sql.QueryRow(r.t.Context(), `SELECT output::text FROM runner.v_runs WHERE run_id = $1`, string(id)).Scan(&out); err != nil {
		r.t.Fatal(err)
	}
	return out
}
