package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/catalog"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/runner"
	"github.com/holdfast-run/holdfast/services/runner/journaltest"
)

// journalRuns is of how many runs of a deployment the journal is looked at.
const journalRuns = 40

// checkJournals rebuilds what the runs of a deployment asked their models, as after a
// crash behind each commit, from the read-only views: the strict validator must take
// each request, and each must go on with the one before it.
func checkJournals(t *testing.T, db *pgxpool.Pool) {
	if t.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	type run struct{ ID, Namespace string }
	rows, err := db.Query(ctx, `SELECT run_id, namespace FROM runner.v_runs WHERE kind = 'agent' ORDER BY run_id`)
	if err != nil {
		t.Errorf("journals: %v", err)
		return
	}
	runs, err := pgx.CollectRows(rows, pgx.RowToStructByPos[run])
	if err != nil {
		t.Errorf("journals: %v", err)
		return
	}
	strict := journaltest.New()
	defer strict.Close()
	defs := catalog.New(db)
	var all journaltest.Result
	for _, i := range journaltest.Evenly(len(runs), journalRuns) {
		r := runs[i]
		rows, err := db.Query(ctx, `SELECT seq, kind, status, cause, worker, at, data FROM runner.v_events WHERE run_id = $1 ORDER BY seq`, r.ID)
		if err != nil {
			t.Errorf("journals: %v", err)
			return
		}
		facts, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (f runner.Fact, err error) {
			return f, row.Scan(&f.Seq, &f.Kind, &f.Status, &f.Cause, &f.Worker, &f.At, &f.Data)
		})
		if err != nil {
			t.Errorf("the journal of run %s: %v", r.ID, err)
			continue
		}
		one, err := strict.Check(ctx, events.RunID(r.ID), r.Namespace, facts, func(s events.RunStarted) (*runner.Plan, error) { return planOf(ctx, defs, r.Namespace, s) })
		if all.Checked, all.Left = all.Checked+one.Checked, all.Left+one.Left; err != nil {
			t.Errorf("the journal of run %s: %v", r.ID, err)
		}
	}
	t.Logf("journals: %d requests of %d of %d runs were taken, %d were left out", all.Checked, min(len(runs), journalRuns), len(runs), all.Left)
}

// planOf is what a run executes, by the digests that it pinned.
func planOf(ctx context.Context, defs *catalog.Catalog, namespace string, s events.RunStarted) (p *runner.Plan, err error) {
	p = &runner.Plan{Agent: &spec.Agent{}, Tools: map[string]*spec.Tool{}}
	if s.Model == nil {
		return p, nil // it failed at its start
	}
	if p.Agent, err = defs.Agent(ctx, namespace, s.Ref.Digest); err != nil {
		return nil, err
	}
	if p.Model, err = defs.Model(ctx, namespace, s.Model.Digest); err != nil {
		return nil, err
	}
	p.ModelName = s.Model.Name
	for _, ref := range s.Fallbacks {
		m, err := defs.Model(ctx, namespace, ref.Digest)
		if err != nil {
			return nil, err
		}
		p.Fallbacks = append(p.Fallbacks, runner.NamedModel{Name: ref.Name, Model: m})
	}
	for _, ref := range s.Tools {
		if p.Tools[ref.Name], err = defs.Tool(ctx, namespace, ref.Digest); err != nil {
			return nil, err
		}
	}
	return p, nil
}
